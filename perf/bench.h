/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A workload on a number of threads, ready to be registered. */
#ifndef ATTN_PERF_BENCH_H
#define ATTN_PERF_BENCH_H

#include <attn/attn.h>

#include "perf/shim.h"
#include "perf/workloads.h"

typedef struct perf_bench {
  const perf_workload *workload;
  int threads;
} perf_bench;

/* A perf_function; `user` is the perf_bench. Counters, per call: GFLOPS and peak (the share of what
 * the same threads reach with multiply-adds in registers right before or right after, whichever is
 * more); bytes of the work model, GBs (of PERF_CACHED, of keys and values only), and bandwidth (the share of
 * what the same threads read from memory, right before or after where that is the limit); FMAs and exps; cycles and instructions of one thread, where they can be counted; the shares of the
 * phases, in builds that measure them. */
void perf_bench_run(perf_state *state, void *user);

/* Sets the inputs up, and checks the result of one call. NULL, or what is wrong. */
const char *perf_bench_prepare(const perf_bench *bench);
/* After perf_bench_prepare of the same. */
attn_status perf_bench_call(const perf_bench *bench);

#endif
