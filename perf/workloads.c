/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/workloads.h"

/* clang-format off */
const perf_workload perf_workloads[] = {
  /*                                                  batch heads kv  q_len kv_len head d_model */
  {"P1", "attention, many short sequences",  PERF_ATTENTION,  8,  4,  4,  256,  256,  32,    0},
  {"P2", "attention, a small encoder's size", PERF_ATTENTION, 1, 12, 12, 1024, 1024,  64,    0},
  {"P3", "attention, wide heads",            PERF_ATTENTION,  1,  8,  8, 2048, 2048, 128,    0},
  {"P4", "attention, a long sequence",       PERF_ATTENTION,  1,  4,  4, 8192, 8192,  64,    0},
  {"P5", "attention, 4 query heads per kv head", PERF_ATTENTION, 1, 32, 8, 1024, 1024, 128,  0},
  {"L1", "layer, many short sequences",      PERF_LAYER,      8,  4,  4,  256,  256,  32,  128},
  {"L2", "layer, one sequence",              PERF_LAYER,      1,  4,  4, 1024, 1024,  32,  128},
  {"L3", "layer, a small encoder's size",    PERF_LAYER,      1, 12, 12, 1024, 1024,  64,  768},
  {"L4", "layer, a large model's size",      PERF_LAYER,      1, 32, 32,  512,  512, 128, 4096},
};
/* clang-format on */

const int perf_workload_count = (int)(sizeof perf_workloads / sizeof perf_workloads[0]);

double perf_visible_pairs(const perf_workload *w) {
  double pairs = 0;
  for (int64_t i = 0; i < w->q_len; i++) {
    int64_t seen = i + 1 + w->kv_len - w->q_len;
    if (seen > 0) pairs += (double)seen;
  }
  return pairs;
}

double perf_flops(const perf_workload *w) {
  double heads = (double)(w->batch * w->heads);
  double flops = 4 * heads * (double)w->head_size * perf_visible_pairs(w);
  if (w->kind == PERF_LAYER) {
    double rows = (double)(w->batch * w->q_len), d = (double)w->d_model;
    double nq = (double)(w->heads * w->head_size), nkv = (double)(w->kv_heads * w->head_size);
    flops += 2 * rows * (d * (nq + 2 * nkv) + nq * d);
  }
  return flops;
}
