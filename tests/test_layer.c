/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The layer: every form of weights against the oracle, and the same promise of bits as attention:
 * not on threads, batch, rows that follow, strides, the instruction set or the exp provider. */

#include "exact.h"
#include "guard.h"
#include "random.h"
#include <attn/layer.h>
#include <stdio.h>
#include <string.h>

static const uint64_t seed = 7001;

typedef struct form {
  int64_t d_model, heads, kv_heads, head_size;
  bool fused, bias, transposed, causal;
  float scale; /* 0: the default */
} form;

typedef struct built {
  attn_layer_config config;
  attn_layer_weights weights;
  attn_layer *layer;
  float *arrays[10];
  int count;
} built;

static attn_weight make_weight(built *b, int64_t in, int64_t out, const form *f) {
  uint64_t at = seed + 10 * (uint64_t)b->count;
  float *kernel = check_floats((size_t)(in * out));
  sm_fill(kernel, (size_t)(in * out), at, 1.7 / sqrt((double)in));
  b->arrays[b->count++] = kernel;
  attn_weight w = {kernel, f->transposed ? 1 : out, f->transposed ? in : 1, NULL};
  if (f->bias) {
    float *bias = check_floats((size_t)out);
    sm_fill(bias, (size_t)out, at + 1, 0.5);
    b->arrays[b->count++] = bias;
    w.bias = bias;
  }
  return w;
}

static built build(const form *f) {
  built b = {.config = ATTN_LAYER_CONFIG_INIT, .weights = ATTN_LAYER_WEIGHTS_INIT};
  b.config.d_model = f->d_model;
  b.config.num_heads = f->heads;
  b.config.has_num_kv_heads = f->kv_heads != f->heads;
  b.config.num_kv_heads = f->kv_heads;
  b.config.has_head_size = f->head_size * f->heads != f->d_model;
  b.config.head_size = f->head_size;
  b.config.causal = f->causal;
  b.config.has_scale = f->scale != 0;
  b.config.scale = f->scale;
  int64_t nq = f->heads * f->head_size, nkv = f->kv_heads * f->head_size;
  if (f->fused) {
    b.weights.qkv = make_weight(&b, f->d_model, nq + 2 * nkv, f);
  } else {
    b.weights.q = make_weight(&b, f->d_model, nq, f);
    b.weights.k = make_weight(&b, f->d_model, nkv, f);
    b.weights.v = make_weight(&b, f->d_model, nkv, f);
  }
  b.weights.out = make_weight(&b, nq, f->d_model, f);
  CHECK_OK(attn_layer_create(&b.config, &b.weights, &b.layer));
  return b;
}

static void demolish(built *b) {
  attn_layer_destroy(b->layer);
  for (int i = 0; i < b->count; i++) free(b->arrays[i]);
  *b = (built){0};
}

/* Runs dense x through the layer into fresh memory. */
static float *run(const attn_layer *layer, int64_t width, int64_t batch, int64_t len,
                  const float *x, int32_t threads) {
  size_t count = (size_t)(batch * len * width);
  float *y = check_floats(count);
  canary_fill(y, count);
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.batch = batch;
  p.len = len;
  p.x = x;
  p.y = y;
  p.has_num_threads = threads > 0;
  p.num_threads = threads;
  CHECK_OK(attn_layer_forward(NULL, layer, &p));
  return y;
}

static double check_oracle(const built *b, int64_t batch, int64_t len, const float *x,
                           const float *got) {
  double *y, *unit, worst = 0;
  oracle_layer(&b->config, &b->weights, batch, len, x, NULL, &y, &unit);
  int64_t width = b->config.d_model;
  for (int64_t i = 0; i < batch * len * width; i++)
    worst = fmax(worst, oracle_error((double)got[i], y[i], unit[i / width]));
  CHECK_NEAR(worst, 0.0, 16.0);
  free(y);
  free(unit);
  return worst;
}

static void check_form(const form *f, int64_t batch, int64_t len) {
  check_context("d_model %lld, heads %lld/%lld of %lld, %s%s%s, B%lld T%lld", (long long)f->d_model,
                (long long)f->heads, (long long)f->kv_heads, (long long)f->head_size,
                f->fused ? "fused" : "separate", f->bias ? "" : ", no bias",
                f->transposed ? ", (out, in)" : "", (long long)batch, (long long)len);
  built b = build(f);
  if (!b.layer) {
    demolish(&b);
    return;
  }
  size_t count = (size_t)(batch * len * f->d_model);
  float *x = check_floats(count);
  sm_fill(x, count, seed + 999, 1.5);
  float *y = run(b.layer, f->d_model, batch, len, x, 2);
  check_oracle(&b, batch, len, x, y);
  free(y);
  free(x);
  demolish(&b);
}

static void forms(void) {
  static const form list[] = {
      {24, 4, 4, 6, true, true, false, true, 0},     {24, 4, 4, 6, false, true, false, true, 0},
      {24, 4, 2, 6, true, true, false, true, 0},     {24, 4, 1, 10, false, true, false, true, 0},
      {24, 4, 4, 6, true, false, false, true, 0},    {24, 4, 2, 9, false, false, true, true, 0},
      {24, 4, 4, 6, true, true, true, false, 0},     {24, 4, 4, 6, false, true, true, true, 0.3f},
      {24, 4, 4, 6, false, true, false, true, -1.f}, {1, 1, 1, 1, true, true, false, true, 0},
      {300, 3, 3, 100, true, true, false, true, 0},  {17, 17, 17, 1, true, true, false, true, 0},
      {7, 3, 1, 130, false, true, false, true, 0},   {515, 1, 1, 515, true, true, false, true, 0}};
  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    check_form(&list[i], 1, 1);
    check_form(&list[i], 2, 13);
    check_form(&list[i], 1, 40);
  }
  for (int64_t d = 1; d <= 70; d += check_brief() ? 9 : 1) {
    form f = {d, 1, 1, d, d % 2 == 0, d % 3 != 0, d % 5 == 0, true, 0};
    check_form(&f, 1 + d % 2, 1 + d % 11);
  }
}

/* Bits of (batch, len) rows against every other way of computing them. */
static void same_bits(const form *f, int64_t batch, int64_t len, double factor) {
  check_context("same bits: d_model %lld heads %lld B%lld T%lld", (long long)f->d_model,
                (long long)f->heads, (long long)batch, (long long)len);
  built b = build(f);
  int64_t width = f->d_model;
  size_t count = (size_t)(batch * len * width);
  float *x = check_floats(count);
  sm_fill(x, count, 137, factor);
  float *want = run(b.layer, width, batch, len, x, 1);
  static const int32_t threads[] = {0, 2, 3, 4, 5, 6, 8, 16};
  for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i += check_brief() ? 3 : 1) {
    float *y = run(b.layer, width, batch, len, x, threads[i]);
    CHECK_BITS(y, want, count);
    free(y);
  }
  for (int64_t n = 0; n < batch; n++) /* each sequence alone, and its first rows alone */
    for (int64_t t = 1; t <= len; t += t < 12 && !check_brief() ? 1 : 13) {
      float *y = run(b.layer, width, 1, t, x + n * len * width, 1 + (int32_t)(t % 3));
      CHECK_BITS(y, want + n * len * width, (size_t)(t * width));
      free(y);
    }
  free(want);
  free(x);
  demolish(&b);
}

/* One element of a projection, in the order of docs/numerics.md. */
static float project(const float *x, int64_t depth, const attn_weight *w, int64_t column) {
  const bool fused = isa_is_canonical(attn_isa_name());
  float sum = 0;
  for (int64_t k = 0; k < depth;) {
    float run = 0;
    for (int64_t end = k + 256; k < end && k < depth; k++) {
      const float a = x[k];
      const float b = ((const float *)w->kernel)[k * w->in_stride + column * w->out_stride];
      run = fused ? fmaf(a, b, run) : a * b + run;
    }
    sum = k <= 256 ? run : sum + run;
  }
  return w->bias ? sum + ((const float *)w->bias)[column] : sum;
}

/* Every number of rows, shared by tiles and strips in ever other ways, against a loop. A sequence of one key has
 * that key's value as its attention. Rows stand against unreadable pages. */
static void row_counts(const form *f) {
  enum { ROWS = 70 };
  built b = build(f);
  const int64_t d = f->d_model, size = f->head_size;
  float *x = check_floats((size_t)(ROWS * d)), *want = check_floats((size_t)(ROWS * d));
  float *value = check_floats((size_t)size);
  sm_fill(x, (size_t)(ROWS * d), seed + 5, 1.5);
  for (int64_t r = 0; r < ROWS; r++) {
    for (int64_t i = 0; i < size; i++) value[i] = project(x + r * d, d, &b.weights.v, i);
    for (int64_t i = 0; i < d; i++) want[r * d + i] = project(value, size, &b.weights.out, i);
  }
  for (int64_t rows = 1; rows <= ROWS; rows += check_brief() && rows > 8 ? 7 : 1) {
    check_context("%lld rows, d_model %lld", (long long)rows, (long long)d);
    const size_t bytes = (size_t)(rows * d) * sizeof(float);
    const guard_side side = rows % 3 ? GUARD_AFTER : GUARD_BEFORE;
    guarded in = guard_alloc(bytes, side), out = guard_alloc(bytes, side);
    memcpy(in.data, x, bytes);
    guard_read_only(&in);
    attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
    p.batch = rows;
    p.len = 1;
    p.x = in.data;
    p.y = out.data;
    p.has_num_threads = true;
    p.num_threads = 1 + (int32_t)(rows % 3);
    CHECK_OK(attn_layer_forward(NULL, b.layer, &p));
    CHECK_BITS(p.y, want, (size_t)(rows * d));
    CHECK(guard_intact(&in) && guard_intact(&out));
    guard_free(&in);
    guard_free(&out);
  }
  free(value);
  free(want);
  free(x);
  demolish(&b);
}

/* Other instruction sets and exp providers; and a layer keeps what it was created with. */
static void sets_and_providers(void) {
  const form f = {96, 6, 2, 16, true, true, false, true, 0};
  const char *home = attn_isa_name();
  enum { LEN = 70 };
  float *x = check_floats(LEN * 96);
  sm_fill(x, LEN * 96, seed, 2);
  built b = build(&f);
  float *want = run(b.layer, 96, 1, LEN, x, 1);
  check_context("layers of other instruction sets");
  for (int i = 0; attn_isa_compiled(i); i++) {
    const char *other = attn_isa_compiled(i);
    if (!attn_isa_supported(other)) continue;
    CHECK_OK(attn_select(other, NULL));
    float *kept = run(b.layer, 96, 1, LEN, x, 2);
    CHECK_BITS(kept, want, LEN * 96);
    free(kept);
    if (!isa_is_canonical(home) || !isa_is_canonical(other)) continue;
    built o = build(&f);
    float *y = run(o.layer, 96, 1, LEN, x, 1);
    CHECK_BITS(y, want, LEN * 96);
    free(y);
    demolish(&o);
  }
  CHECK_OK(attn_select(home, "sleef"));
  built s = build(&f);
  float *y = run(s.layer, 96, 1, LEN, x, 1);
  CHECK_BITS(y, want, LEN * 96);
  free(y);
  demolish(&s);
  CHECK_OK(attn_select(home, NULL));
  free(want);
  free(x);
  demolish(&b);
}

/* Rows with gaps between them, in place, and later rows that are not finite. */
static void strides_and_poison(void) {
  enum { B = 2, T = 21, D = 36, ROW = D + 5, SEQUENCE = T * ROW + 3 };
  const form f = {D, 3, 3, 12, true, true, false, true, 0};
  built b = build(&f);
  float *x = check_floats(B * T * D);
  sm_fill(x, B * T * D, seed, 1.5);
  float *want = run(b.layer, D, B, T, x, 1);
  float in[B * SEQUENCE], out[B * SEQUENCE];
  canary_fill(out, B * SEQUENCE);
  canary_fill(in, B * SEQUENCE);
  for (int64_t r = 0; r < B * T; r++)
    memcpy(in + r / T * SEQUENCE + r % T * ROW, x + r * D, D * sizeof(float));
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.batch = B;
  p.len = T;
  p.has_strides = true;
  p.x_batch_stride = p.y_batch_stride = SEQUENCE;
  p.x_row_stride = p.y_row_stride = ROW;
  p.x = in;
  for (int in_place = 0; in_place < 2; in_place++) {
    check_context("strided rows%s", in_place ? ", in place" : "");
    p.y = in_place ? in : out;
    CHECK_OK(attn_layer_forward(NULL, b.layer, &p));
    size_t written = 0;
    for (int64_t i = 0; i < B * SEQUENCE; i++) written += float_bits(p.y[i]) != CANARY_BITS;
    CHECK_INT(written, B * T * D);
    for (int64_t r = 0; r < B * T; r++)
      CHECK_BITS(p.y + r / T * SEQUENCE + r % T * ROW, want + r * D, D);
  }
  static const float poisons[] = {NAN, INFINITY, -INFINITY, 3e38f};
  for (int n = 0; n < 4; n++)
    for (int64_t cut = 1; cut < T; cut += 3) {
      check_context("x rows from %lld are %g", (long long)cut, (double)poisons[n]);
      float *bad = copy_floats(x, B * T * D);
      for (int64_t s = 0; s < B; s++)
        for (int64_t i = (s * T + cut) * D; i < (s + 1) * T * D; i++) bad[i] = poisons[n];
      float *y = run(b.layer, D, B, T, bad, 2);
      for (int64_t s = 0; s < B; s++)
        CHECK_BITS(y + s * T * D, want + s * T * D, (size_t)(cut * D));
      CHECK(!isfinite(y[cut * D]));
      free(y);
      free(bad);
    }
  free(want);
  free(x);
  demolish(&b);
}

/* The layer draws the mask that attention draws. */
static void dropout(void) {
  enum { B = 2, H = 3, T = 24, D = 30 };
  const form f = {D, H, H, 10, true, true, false, true, 0};
  built b = build(&f);
  float *x = check_floats(B * T * D), y[2][B * T * D];
  sm_fill(x, B * T * D, seed, 1.5);
  problem p = problem_new((shape){B, H, H, T, T, 1, T});
  memset(p.q, 0, p.q_count * sizeof(float));
  memset(p.k, 0, p.k_count * sizeof(float));
  for (size_t i = 0; i < p.v_count; i++) p.v[i] = i / T % T == i % T;
  p.params.dropout = (attn_dropout){.rate = 0.4, .seed = 77, .offset = 5};
  problem_run(&p);
  uint8_t *mask = check_alloc(p.o_count);
  for (size_t i = 0; i < p.o_count; i++) mask[i] = p.o[i] != 0;
  attn_layer_params a = ATTN_LAYER_PARAMS_INIT;
  a.batch = B;
  a.len = T;
  a.x = x;
  for (int recorded = 0; recorded < 2; recorded++) {
    a.y = y[recorded];
    a.dropout = (attn_dropout){.rate = 0.4, .seed = 77, .offset = 5};
    if (recorded) a.dropout.keep = (attn_keep_mask){mask, H * T * T, T * T, T, 1};
    CHECK_OK(attn_layer_forward(NULL, b.layer, &a));
  }
  check_context("dropout of the layer");
  CHECK_BITS(y[0], y[1], B * T * D);
  double *want, *unit;
  oracle_layer(&b.config, &b.weights, B, T, x, &a.dropout, &want, &unit);
  double worst = 0;
  for (int i = 0; i < B * T * D; i++)
    worst = fmax(worst, oracle_error((double)y[0][i], want[i], unit[i / D]));
  CHECK_NEAR(worst, 0.0, 16.0);
  a.dropout.deterministic = true;
  a.y = y[1];
  CHECK_OK(attn_layer_forward(NULL, b.layer, &a));
  float *without = run(b.layer, D, B, T, x, 1);
  CHECK_BITS(y[1], without, B * T * D);
  free(without);
  free(want);
  free(unit);
  free(mask);
  problem_free(&p);
  free(x);
  demolish(&b);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  forms();
  same_bits(&(form){128, 8, 8, 16, true, true, false, true, 0}, 2, 3, 11);
  same_bits(&(form){56, 37, 37, 4, true, true, false, true, 0}, 1, 77, 1); /* 56 -> 444 */
  same_bits(&(form){336, 6, 6, 56, false, true, false, true, 0}, 5, 9, 1);
  same_bits(&(form){64, 4, 1, 16, false, false, false, true, 0}, 2, 150, 1);
  row_counts(&(form){70, 1, 1, 53, false, true, false, true, 0});
  row_counts(&(form){600, 1, 1, 101, false, false, false, true, 0});
  row_counts(&(form){29, 1, 1, 1021, false, true, true, true, 0});
  sets_and_providers();
  strides_and_poison();
  dropout();
  return check_done();
}
