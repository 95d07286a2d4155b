/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#ifndef ATTN_PERF_CLOCK_H
#define ATTN_PERF_CLOCK_H

#include <time.h>

/* Wall time in seconds from some fixed moment. */
static inline double perf_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU time of all threads of the process, in seconds. */
static inline double perf_cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
