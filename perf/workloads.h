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

/* Floating-point operations of one call: multiplications and additions of the dot products, of the
 * visible pairs only, and of the projections of a layer. */
double perf_flops(const perf_workload *workload);

#endif
