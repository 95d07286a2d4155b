/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Cycles and instructions of the calling thread, where the system gives them. Virtual machines and
 * containers often do not: then perf_counters_missing says why, and nothing is counted. */
#ifndef ATTN_PERF_COUNTERS_H
#define ATTN_PERF_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct perf_counts {
  uint64_t cycles, instructions; /* in user mode, since they were opened */
} perf_counts;

/* NULL where both can be counted, else why not. Opens them at the first call. */
const char *perf_counters_missing(void);

/* False where they cannot be read. */
bool perf_counters_read(perf_counts *counts);

#endif
