/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Some output rows computed anew in double, so that no wrong kernel is ever timed. The last row of
 * a sequence depends on all its keys, and takes little time. */
#ifndef ATTN_PERF_CHECK_H
#define ATTN_PERF_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/workloads.h"

/* Arrays of attention as laid out by the benchmarks: q and o (row, H, D), sequences one behind the other; k and v
 * (B, T, Hkv, D), with PERF_CACHED (B, Hkv, T, D) or (page, Hkv, slot, D). */
typedef struct perf_arrays {
  const float *q, *k, *v, *o;
  const int32_t *table; /* with pages: (B, pages of a sequence) */
} perf_arrays;

/* The last row of every sequence. */
bool perf_check_attention(const perf_workload *workload, const perf_arrays *arrays);

/* Weights of a layer, (in, out) row-major, with kv_heads == heads. */
typedef struct perf_layer_weights {
  const float *qkv, *qkv_bias; /* (D, 3D), (3D) */
  const float *out, *out_bias; /* (D, D), (D) */
} perf_layer_weights;

/* The last row of the last sequence; x and y are (B,T,D). */
bool perf_check_layer(const perf_workload *workload, const perf_layer_weights *weights,
                      const float *x, const float *y);

#endif
