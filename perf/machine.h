/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the numbers were measured on. */
#ifndef ATTN_PERF_MACHINE_H
#define ATTN_PERF_MACHINE_H

#include <stddef.h>

/* GFLOP/s that `threads` threads reach together with independent multiply-adds in registers, on the
 * selected instruction set; best of several runs. 0 when none is selected. */
double perf_peak_gflops(int threads);

/* GB/s that `threads` threads reach reading an array much larger than the caches, its best part; measured at the first call of each count, and needs 256 MiB for that moment. 0 when out of
 * memory. */
double perf_bandwidth_gbs(int threads);

/* Name of the processor, "unknown" where the kernel does not tell. */
void perf_cpu_model(char *name, size_t size);

#endif
