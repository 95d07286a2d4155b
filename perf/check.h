/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* One output row computed anew in double, so that no wrong kernel is ever timed. The last row of
 * the last sequence depends on every key, and takes little time. */
#ifndef ATTN_PERF_CHECK_H
#define ATTN_PERF_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/workloads.h"

/* Arrays as laid out by the benchmarks: q (B,T,H,D), k and v (B,T,Hkv,D), o as q. */
bool perf_check_attention(const perf_workload *workload, const float *q, const float *k,
                          const float *v, const float *o);

/* Weights of a layer, (in, out) row-major, with kv_heads == heads. */
typedef struct perf_layer_weights {
  const float *qkv, *qkv_bias; /* (D, 3D), (3D) */
  const float *out, *out_bias; /* (D, D), (D) */
} perf_layer_weights;

/* x and y are (B,T,D). */
bool perf_check_layer(const perf_workload *workload, const perf_layer_weights *weights,
                      const float *x, const float *y);

#endif
