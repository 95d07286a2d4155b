/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The workloads, as data. A line in workloads.c makes a benchmark. */
#ifndef ATTN_PERF_WORKLOADS_H
#define ATTN_PERF_WORKLOADS_H

#include <stdint.h>

typedef enum perf_kind { PERF_ATTENTION, PERF_LAYER } perf_kind;

typedef struct perf_workload {
  const char *name;
  const char *what; /* for --help */
  perf_kind kind;
  int64_t batch, heads, kv_heads, q_len, kv_len, head_size;
  int64_t d_model; /* of layers */
} perf_workload;

extern const perf_workload perf_workloads[];
extern const int perf_workload_count;

/* Pairs of a query and a key it sees, of one sequence and head (causal, bottom-right alignment). */
double perf_visible_pairs(const perf_workload *workload);

/* What one call needs at least, whatever the kernel does: no padding, no masked half of a block. */
typedef struct perf_work {
  double
      fmas; /* multiply-adds of the dot products of visible pairs, and of a layer's projections */
  double exps;  /* exponentials: one per visible pair */
  double bytes; /* every input and weight read once, every output written once; a layer's q, k, v
                   and heads' outputs written and read once each: they exceed the caches */
} perf_work;

perf_work perf_work_of(const perf_workload *workload);

/* Floating-point operations of one call: two per multiply-add. */
double perf_flops(const perf_workload *workload);

#endif
