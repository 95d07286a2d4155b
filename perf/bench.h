/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A workload on a number of threads, ready to be registered. */
#ifndef ATTN_PERF_BENCH_H
#define ATTN_PERF_BENCH_H

#include "perf/shim.h"
#include "perf/workloads.h"

typedef struct perf_bench {
  const perf_workload *workload;
  int threads;
} perf_bench;

/* A perf_function; `user` is the perf_bench. Counters: GFLOPS, and peak, the share of what the same
 * threads reach with multiply-adds in registers right before or right after, whichever is more. */
void perf_bench_run(perf_state *state, void *user);

#endif
