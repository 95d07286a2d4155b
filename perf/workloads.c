/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/workloads.h"

/* clang-format off */
/* Speed over length, for one head size; two heads, so that long ones stay affordable. */
#define SWEEP(size, len) \
  {"D" #size "T" #len, "attention, speed over length", PERF_ATTENTION, 1, 2, 2, len, len, size, \
   0, 0, 0, 0, false}

const perf_workload perf_workloads[] = {
  /*                                                  batch heads kv  q_len kv_len head d_model; least page chunk rows */
  {"P1", "attention, many short sequences",  PERF_ATTENTION,  8,  4,  4,  256,  256,  32,    0, 0, 0, 0, false},
  {"P2", "attention, a small encoder's size", PERF_ATTENTION, 1, 12, 12, 1024, 1024,  64,    0, 0, 0, 0, false},
  {"P3", "attention, wide heads",            PERF_ATTENTION,  1,  8,  8, 2048, 2048, 128,    0, 0, 0, 0, false},
  {"P4", "attention, a long sequence",       PERF_ATTENTION,  1,  4,  4, 8192, 8192,  64,    0, 0, 0, 0, false},
  {"P5", "attention, 4 query heads per kv head", PERF_ATTENTION, 1, 32, 8, 1024, 1024, 128,  0, 0, 0, 0, false},
  {"L1", "layer, many short sequences",      PERF_LAYER,      8,  4,  4,  256,  256,  32,  128, 0, 0, 0, false},
  {"L2", "layer, one sequence",              PERF_LAYER,      1,  4,  4, 1024, 1024,  32,  128, 0, 0, 0, false},
  {"L3", "layer, a small encoder's size",    PERF_LAYER,      1, 12, 12, 1024, 1024,  64,  768, 0, 0, 0, false},
  {"L4", "layer, a large model's size",      PERF_LAYER,      1, 32, 32,  512,  512, 128, 4096, 0, 0, 0, false},
  {"D1", "decode, a long sequence",          PERF_CACHED,     1, 32, 32, 1,  8192, 128, 0,  0,  0,   0, false},
  {"D2", "decode, 4 query heads per kv head", PERF_CACHED,    1, 32,  8, 1, 16384, 128, 0,  0,  0,   0, false},
  {"D1R", "decode, D1 with keys in rows",    PERF_CACHED,     1, 32, 32, 1,  8192, 128, 0,  0,  0,   0, true},
  {"D2R", "decode, D2 with keys in rows",    PERF_CACHED,     1, 32,  8, 1, 16384, 128, 0,  0,  0,   0, true},
  {"D3", "decode, a small model's size",     PERF_CACHED,     1,  4,  4, 1,   256,  32, 0,  0,  0,   0, false},
  {"D3S64", "decode, D3 with fewer keys",    PERF_CACHED,     1,  4,  4, 1,    64,  32, 0,  0,  0,   0, false},
  {"D3S1024", "decode, D3 with more keys",   PERF_CACHED,     1,  4,  4, 1,  1024,  32, 0,  0,  0,   0, false},
  {"D4", "decode, a ragged batch",           PERF_CACHED,    16,  9,  3, 1,  4096,  64, 0, 16,  0,   0, false},
  {"D5", "decode, D2 in scattered pages",    PERF_CACHED,     1, 32,  8, 1, 16384, 128, 0,  0, 16,   0, false},
  {"M1", "mixed, a chunk and 15 decodes",    PERF_CACHED,    16,  9,  3, 1,  4096,  64, 0, 16,  0, 512, false},
  {"M1p", "mixed, the chunk of M1 alone",    PERF_CACHED,     1,  9,  3, 512, 4096, 64, 0,  0,  0,   0, false},
  {"M1d", "mixed, the decodes of M1 alone",  PERF_CACHED,    15,  9,  3, 1,  4096,  64, 0, 16,  0,   0, false},
  SWEEP(32, 64), SWEEP(32, 256), SWEEP(32, 1024), SWEEP(32, 4096),
  SWEEP(64, 64), SWEEP(64, 256), SWEEP(64, 1024), SWEEP(64, 4096),
  SWEEP(128, 64), SWEEP(128, 256), SWEEP(128, 1024), SWEEP(128, 4096),
};
/* clang-format on */

const int perf_workload_count = (int)(sizeof perf_workloads / sizeof perf_workloads[0]);

int64_t perf_page_size(const perf_workload *w) {
  return w->page_size ? w->page_size : (w->kv_len + 15) / 16 * 16;
}

perf_sequence perf_sequence_of(const perf_workload *w, int64_t n) {
  perf_sequence sequence = {w->q_len, w->kv_len};
  if (w->chunk && n == 0) {
    sequence.q_len = w->chunk;
  } else if (w->least) {
    int64_t first = w->chunk ? 1 : 0, steps = w->batch - first - 1;
    sequence.kv_len = w->least + (n - first) * (w->kv_len - w->least) / steps;
  }
  return sequence;
}

int64_t perf_rows(const perf_workload *w) {
  int64_t rows = 0;
  for (int64_t n = 0; n < w->batch; n++) rows += perf_sequence_of(w, n).q_len;
  return rows;
}

/* Pairs of a query and a key it sees, of one head (causal, bottom-right alignment). */
static double visible_pairs(perf_sequence sequence) {
  double pairs = 0;
  for (int64_t i = 0; i < sequence.q_len; i++) {
    int64_t seen = i + 1 + sequence.kv_len - sequence.q_len;
    if (seen > 0) pairs += (double)seen;
  }
  return pairs;
}

perf_work perf_work_of(const perf_workload *w) {
  double heads = (double)w->heads, kv_heads = (double)w->kv_heads, size = (double)w->head_size;
  double pairs = 0, keys = 0, rows = (double)perf_rows(w);
  for (int64_t n = 0; n < w->batch; n++) {
    perf_sequence sequence = perf_sequence_of(w, n);
    pairs += heads * visible_pairs(sequence);
    keys += (double)sequence.kv_len;
  }
  perf_work work = {
      .fmas = 2 * size * pairs, .exps = pairs, .kv_bytes = 8 * keys * kv_heads * size};
  work.bytes = work.kv_bytes + 8 * rows * heads * size;
  if (w->kind == PERF_LAYER) {
    double d = (double)w->d_model, nq = heads * size, nkv = kv_heads * size;
    double weights = d * (nq + 2 * nkv) + nq * d;
    work.fmas += rows * weights;
    work.bytes = 2 * work.bytes + 4 * (2 * rows * d + weights + nq + 2 * nkv + d);
  }
  return work;
}

double perf_flops(const perf_workload *w) { return 2 * perf_work_of(w).fmas; }
