/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/bench.h"

#include <attn/attn.h>
#include <attn/layer.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/philox.h"
#include "perf/check.h"
#include "perf/clock.h"
#include "perf/counters.h"
#include "perf/machine.h"
#include "perf/phases.h"

enum { MAX_KEPT = 64 }; /* counts of threads whose bandwidth is kept */

/* Inputs of one workload. Kept from one repetition to the next, until another workload comes: the
 * weights of a large layer take seconds to draw, and half a gigabyte. */
typedef struct perf_fixture {
  const perf_workload *workload; /* NULL: nothing is kept */
  int checked_threads;           /* 0: the result was not checked yet */
  float *memory;
  float *q, *k, *v, *o;
  int32_t *kv_lens, *cu_seqlens_q, *table; /* in one block, of PERF_CACHED; kv_lens is its start */
  float *x, *y;
  perf_layer_weights weights;
  attn_layer *layer;
} perf_fixture;

static perf_fixture kept;

static void release(void) {
  attn_layer_destroy(kept.layer);
  free(kept.memory);
  free(kept.kv_lens);
  kept = (perf_fixture){0};
}

/* n draws of mean 0 and the given standard deviation: sums of four uniform 16-bit numbers. */
static float *draw(float *out, int64_t n, uint64_t stream, double deviation) {
  const double mean = 4 * 32767.5, scale = deviation / (65536 / sqrt(3.0));
  for (int64_t i = 0; i < n; i++) {
    attn_philox bits = attn_philox4x32((uint64_t)i / 2, stream, 1);
    uint32_t a = bits.word[i % 2 * 2], b = bits.word[i % 2 * 2 + 1];
    uint32_t sum = (a >> 16) + (a & 0xffff) + (b >> 16) + (b & 0xffff);
    out[i] = (float)(((double)sum - mean) * scale);
  }
  return out + n;
}

/* Pages of all sequences. */
static int64_t pages_of(const perf_workload *w) {
  return w->batch * ((w->kv_len + perf_page_size(w) - 1) / perf_page_size(w));
}

/* Lengths of the sequences, and their pages in the order of a shuffled deck (Fisher and Yates). */
static bool prepare_lengths(const perf_workload *w) {
  int64_t pages = pages_of(w);
  kept.kv_lens = malloc(sizeof(int32_t) * (size_t)(2 * w->batch + 1 + pages));
  if (!kept.kv_lens) return false;
  kept.cu_seqlens_q = kept.kv_lens + w->batch;
  kept.table = kept.cu_seqlens_q + w->batch + 1;
  kept.cu_seqlens_q[0] = 0;
  for (int64_t n = 0; n < w->batch; n++) {
    perf_sequence sequence = perf_sequence_of(w, n);
    kept.kv_lens[n] = (int32_t)sequence.kv_len;
    kept.cu_seqlens_q[n + 1] = kept.cu_seqlens_q[n] + (int32_t)sequence.q_len;
  }
  for (int64_t i = 0; i < pages; i++) {
    int64_t other = attn_philox4x32((uint64_t)i, 3, 1).word[0] % (i + 1);
    if (other < i) kept.table[i] = kept.table[other];
    kept.table[other] = (int32_t)i;
  }
  return true;
}

static bool prepare_attention(const perf_workload *w) {
  bool cached = w->kind == PERF_CACHED;
  int64_t slots = cached ? pages_of(w) * perf_page_size(w) : w->batch * w->kv_len;
  int64_t nq = perf_rows(w) * w->heads * w->head_size;
  int64_t nkv = slots * w->kv_heads * w->head_size;
  size_t bytes = sizeof(float) * (size_t)(2 * nq + 2 * nkv);
  if (cached && !prepare_lengths(w)) return false;
  kept.memory = cached ? perf_allocate(bytes) : malloc(bytes);
  if (!kept.memory) return false;
  kept.q = kept.memory + (cached ? 2 * nkv : 0);
  kept.k = kept.memory + (cached ? 0 : nq);
  kept.v = kept.k + nkv;
  kept.o = cached ? kept.q + nq : kept.v + nkv;
  draw(kept.q, nq, 0, 1);
  draw(kept.k, nkv, 1, 1);
  draw(kept.v, nkv, 2, 1);
  return true;
}

static bool prepare_layer(const perf_workload *w) {
  int64_t d = w->d_model, rows = w->batch * w->q_len;
  double deviation = 1 / sqrt((double)d);
  kept.memory = malloc(sizeof(float) * (size_t)(2 * rows * d + 4 * d * d + 4 * d));
  if (!kept.memory) return false;
  float *qkv, *qkv_bias, *out, *out_bias;
  kept.x = kept.memory;
  qkv = draw(kept.x, rows * d, 0, 1);
  qkv_bias = draw(qkv, 3 * d * d, 1, deviation);
  out = draw(qkv_bias, 3 * d, 2, 0.1);
  out_bias = draw(out, d * d, 3, deviation);
  kept.y = draw(out_bias, d, 4, 0.1);
  kept.weights = (perf_layer_weights){qkv, qkv_bias, out, out_bias};
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  config.d_model = d;
  config.num_heads = w->heads;
  attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
  weights.qkv = (attn_weight){.kernel = qkv, .in_stride = 3 * d, .out_stride = 1, .bias = qkv_bias};
  weights.out = (attn_weight){.kernel = out, .in_stride = d, .out_stride = 1, .bias = out_bias};
  return attn_layer_create(&config, &weights, &kept.layer) == ATTN_OK;
}

/* NULL, or what is wrong. */
static const char *prepare(const perf_workload *w) {
  if (kept.workload == w) return NULL;
  release();
  bool good = w->kind == PERF_LAYER ? prepare_layer(w) : prepare_attention(w);
  if (good) {
    kept.workload = w;
    return NULL;
  }
  const char *fault = kept.memory ? attn_last_error() : "out of memory";
  release();
  return fault;
}

/* Strides of (B,T,H,D), or what PERF_CACHED has in its place. */
static void set_layout(attn_params *p, const perf_workload *w) {
  int64_t d = w->head_size, q_row = w->heads * d, kv_row = w->kv_heads * d;
  p->q = (attn_input){kept.q, w->q_len * q_row, d, q_row, 1};
  p->o = (attn_output){kept.o, w->q_len * q_row, d, q_row, 1};
  p->k = (attn_input){kept.k, w->kv_len * kv_row, d, kv_row, 1};
  if (w->kind == PERF_CACHED) {
    int64_t slots = perf_page_size(w), pages = pages_of(w), width = pages / w->batch;
    p->k = (attn_input){kept.k, slots * kv_row, slots * d, d, 1};
    p->lengths.kv_lens = kept.kv_lens;
    if (w->chunk) {
      p->q_len = perf_rows(w);
      p->lengths.cu_seqlens_q = kept.cu_seqlens_q;
    }
    p->pages = (attn_pages){kept.table, width, width, slots, pages};
    p->key_layout = w->keys_in_rows ? ATTN_KEYS_IN_ROWS : ATTN_KEYS_INTERLEAVED;
  }
  p->v = p->k;
  p->v.data = kept.v;
}

static attn_status run_attention(const perf_workload *w, int threads) {
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = w->batch;
  p.q_heads = w->heads;
  p.kv_heads = w->kv_heads;
  p.q_len = w->q_len;
  p.kv_len = w->kv_len;
  p.head_size = p.value_size = w->head_size;
  set_layout(&p, w);
  p.has_num_threads = true;
  p.num_threads = threads;
  return attn_forward(NULL, &p);
}

static attn_status run_layer(const perf_workload *w, int threads) {
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.batch = w->batch;
  p.len = w->q_len;
  p.x = kept.x;
  p.y = kept.y;
  p.has_num_threads = true;
  p.num_threads = threads;
  return attn_layer_forward(NULL, kept.layer, &p);
}

attn_status perf_bench_call(const perf_bench *bench) {
  const perf_workload *w = bench->workload;
  return w->kind == PERF_LAYER ? run_layer(w, bench->threads) : run_attention(w, bench->threads);
}

/* Also the warm-up. */
static const char *run_and_check(const perf_bench *bench) {
  const perf_workload *w = bench->workload;
  if (perf_bench_call(bench) != ATTN_OK) return attn_last_error();
  perf_arrays arrays = {kept.q, kept.k, kept.v, kept.o, kept.table};
  bool good = w->kind == PERF_LAYER ? perf_check_layer(w, &kept.weights, kept.x, kept.y)
                                    : perf_check_attention(w, &arrays);
  if (!good) return "wrong result: a last row differs from a computation in double";
  kept.checked_threads = bench->threads;
  return NULL;
}

const char *perf_bench_prepare(const perf_bench *bench) {
  const char *fault = prepare(bench->workload);
  if (fault) return fault;
  return kept.checked_threads == bench->threads ? NULL : run_and_check(bench);
}

/* What the machine can do, right before or after the calls. */
typedef struct perf_limits {
  double gflops, gbs;
} perf_limits;

static bool reads_memory(const perf_workload *w) {
  const double caches = 32e6;
  return w->kind == PERF_CACHED && perf_work_of(w).kv_bytes > caches;
}

/* The higher of these and of `other`. Bandwidth takes long: an old figure will do where it limits nothing. */
static perf_limits limits_now(const perf_bench *bench, perf_limits other) {
  static double latest[MAX_KEPT];
  double fresh = 0, *kept_gbs = bench->threads < MAX_KEPT ? &latest[bench->threads] : &fresh;
  const bool memory = reads_memory(bench->workload);
  const int64_t bytes =
      memory ? (int64_t)perf_work_of(bench->workload).kv_bytes : PERF_BANDWIDTH_BYTES;
  if (memory || *kept_gbs == 0) *kept_gbs = perf_bandwidth_gbs(bench->threads, bytes);
  double gflops = perf_peak_gflops(bench->threads), gbs = *kept_gbs;
  return (perf_limits){gflops > other.gflops ? gflops : other.gflops,
                       gbs > other.gbs ? gbs : other.gbs};
}

/* What the calls amount to, of what the machine can do. */
static void set_counters(perf_state *state, const perf_bench *bench, double seconds,
                         perf_limits limits) {
  perf_work work = perf_work_of(bench->workload);
  double gflops = 1e-9 * perf_flops(bench->workload) / seconds;
  double moved = bench->workload->kind == PERF_CACHED ? work.kv_bytes : work.bytes;
  double gbs = 1e-9 * moved / seconds;
  perf_counter(state, "GFLOPS", gflops);
  perf_counter(state, "peak", gflops / limits.gflops);
  perf_counter(state, "GBs", gbs);
  perf_counter(state, "bandwidth", gbs / limits.gbs);
  perf_counter(state, "FMAs", work.fmas);
  perf_counter(state, "exps", work.exps);
  perf_counter(state, "bytes", work.bytes);
}

/* Of the timed loop, per call; nothing where nothing can be counted. */
static void set_hardware_counters(perf_state *state, const perf_counts *before, double calls) {
  perf_counts after;
  if (!perf_counters_read(&after)) return;
  perf_counter(state, "cycles", (double)(after.cycles - before->cycles) / calls);
  perf_counter(state, "instructions", (double)(after.instructions - before->instructions) / calls);
}

static void set_phases(perf_state *state, uint64_t elapsed, int threads) {
  double share[PERF_PHASES];
  if (!perf_phases_built()) return;
  perf_phases_take(elapsed, threads, share);
  for (int i = 0; i < PERF_PHASES; i++) perf_counter(state, perf_phase_names[i], share[i]);
}

void perf_bench_run(perf_state *state, void *user) {
  const perf_bench *bench = user;
  const char *fault = perf_bench_prepare(bench);
  if (fault) {
    perf_fail(state, fault);
    return;
  }
  perf_limits limits = limits_now(bench, (perf_limits){0});
  double total = 0;
  int64_t calls = 0;
  perf_counts counts;
  bool counted = bench->threads == 1 && perf_counters_read(&counts);
  perf_phases_reset();
  uint64_t start_ticks = perf_phases_now();
  while (perf_keep_running(state)) {
    double start = perf_now();
    attn_status status = perf_bench_call(bench);
    total += perf_now() - start;
    if (status != ATTN_OK) {
      perf_fail(state, attn_last_error());
      return;
    }
    calls++;
  }
  uint64_t elapsed = perf_phases_now() - start_ticks;
  if (counted) set_hardware_counters(state, &counts, (double)calls);
  set_phases(state, elapsed, bench->threads);
  set_counters(state, bench, total / (double)calls, limits_now(bench, limits));
}
