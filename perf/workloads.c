/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/workloads.h"

/* clang-format off */
/* Speed over length, for one head size; two heads, so that long ones stay affordable. */
#define SWEEP(size, len) \
  {"D" #size "T" #len, "attention, speed over length", PERF_ATTENTION, 1, 2, 2, len, len, size, 0}

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
  SWEEP(32, 64), SWEEP(32, 256), SWEEP(32, 1024), SWEEP(32, 4096),
  SWEEP(64, 64), SWEEP(64, 256), SWEEP(64, 1024), SWEEP(64, 4096),
  SWEEP(128, 64), SWEEP(128, 256), SWEEP(128, 1024), SWEEP(128, 4096),
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

perf_work perf_work_of(const perf_workload *w) {
  double batch = (double)w->batch, size = (double)w->head_size;
  double pairs = batch * (double)w->heads * perf_visible_pairs(w);
  double q = batch * (double)(w->q_len * w->heads) * size;
  double kv = batch * (double)(w->kv_len * w->kv_heads) * size;
  perf_work work = {.fmas = 2 * size * pairs, .exps = pairs, .bytes = 4 * (2 * q + 2 * kv)};
  if (w->kind == PERF_LAYER) {
    double rows = batch * (double)w->q_len, d = (double)w->d_model;
    double nq = (double)w->heads * size, nkv = (double)w->kv_heads * size;
    double weights = d * (nq + 2 * nkv) + nq * d;
    work.fmas += rows * weights;
    work.bytes = 2 * work.bytes + 4 * (2 * rows * d + weights + nq + 2 * nkv + d);
  }
  return work;
}

double perf_flops(const perf_workload *w) { return 2 * perf_work_of(w).fmas; }
