/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the numbers were measured on. */
#ifndef ATTN_PERF_MACHINE_H
#define ATTN_PERF_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* GFLOP/s that `threads` threads reach together with independent multiply-adds in registers, on the
 * selected instruction set; best of several runs. 0 when none is selected. */
double perf_peak_gflops(int threads);

enum { PERF_BANDWIDTH_BYTES = 64 << 20 }; /* where no workload says how many */

/* GB/s that `threads` threads reach together reading so many bytes of memory, each its own part, which none of the
 * caches holds any more: the best of readers of one, two and four streams, with and without prefetching, in several
 * passes; eight read a little more. Takes 0.5 s or what 18 passes take, and 256 MiB or `bytes` that it keeps. 0 when out of
 * memory. */
double perf_bandwidth_gbs(int threads, int64_t bytes);

/* Memory as the library's caches have it, in huge pages where the system grants them; free() releases it.
 * What is compared with the bandwidth lies in it. */
void *perf_allocate(size_t bytes);

/* Name of the processor, "unknown" where the kernel does not tell. */
void perf_cpu_model(char *name, size_t size);

#endif
