/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Faults that users of other attention libraries reported in public, as cases of our own: those that have to do
 * with lengths. (Malformed ones are in test_arguments.c, pages and caches in test_cache_cases.c.) */

#include "exact.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void fill(float *a, size_t count, float value) {
  for (size_t i = 0; i < count; i++) a[i] = value;
}

/* ---- lengths within one fixed buffer ---- */

/* Two sequences, all queries and keys alike, value t of key t; what lies behind a length is NaN. */
typedef struct fixed_buffer {
  const char *name;
  shape s;
  int32_t kv_lens[2];
  float key, first_value, value_step;
  float want[4]; /* per row, the same in all dimensions */
} fixed_buffer;

static const fixed_buffer fixed_buffers[] = {
    {"one diagonal for all sequences of a buffer (onnx/onnx#8068)",
     {2, 1, 1, 2, 6, 4, 4},
     {2, 5},
     0,
     1,
     1,
     {1, 1.5f, 2.5f, 3}},
    {"a sequence without keys gets the mean of the values (microsoft/onnxruntime#28904)",
     {2, 1, 1, 1, 4, 4, 4},
     {0, 4},
     0,
     100,
     0,
     {0, 100}},
    {"NaN behind a length reaches the output (Dao-AILab/flash-attention#1745)",
     {2, 1, 1, 1, 3, 64, 64},
     {1, 3},
     0.5f,
     1,
     1,
     {1, 2}}};

static void check_rows(const problem *p, const fixed_buffer *f) {
  const int64_t rows = f->s.batch * f->s.q_len, dims = f->s.value_size;
  for (int64_t row = 0; row < rows; row++) {
    const double want = (double)f->want[row];
    for (int64_t d = 0; d < dims; d++) CHECK_NEAR((double)p->o[row * dims + d], want, 1e-6 * want);
    if (f->kv_lens[row / f->s.q_len] == 0) CHECK(p->lse[row] == -INFINITY);
  }
}

static void lengths(const fixed_buffer *f) {
  check_context("%s", f->name);
  const shape s = f->s;
  problem p = problem_new(s);
  fill(p.q, p.q_count, f->key);
  fill(p.k, p.k_count, NAN);
  fill(p.v, p.v_count, NAN);
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t j = 0; j < f->kv_lens[b]; j++) {
      fill(p.k + (b * s.kv_len + j) * s.head_size, (size_t)s.head_size, f->key);
      fill(p.v + (b * s.kv_len + j) * s.value_size, (size_t)s.value_size,
           f->first_value + (float)j * f->value_step);
    }
  p.params.lengths.kv_lens = f->kv_lens;
  problem_run(&p);
  problem_check(&p);
  check_rows(&p, f);
  p.params.lengths.kv_lens = NULL; /* the same as calls of their own */
  canary_fill(p.o, p.o_count);
  for (int64_t b = 0; b < s.batch; b++) {
    attn_params a = p.params;
    a.batch = 1;
    a.kv_len = f->kv_lens[b];
    params_move(&a, b, 0, 0, 0);
    CHECK_OK(attn_forward(NULL, &a));
  }
  check_rows(&p, f);
  problem_free(&p);
}

/* ---- packed sequences ---- */

/* Lengths of 0 and 1 only, and queries of no more than one row. */
static void empty_members(void) {
  check_context("packed sequences of 0 and 1 rows (Dao-AILab/flash-attention#1537)");
  static const int32_t cu_q[] = {0, 0, 1, 1, 2}, cu_k[] = {0, 0, 3, 3, 8};
  problem p = problem_new((shape){1, 9, 3, 2, 8, 64, 64});
  for (int64_t n = 1; n < 4; n += 2)
    for (int64_t d = 0; d < 64; d++) {
      for (int64_t h = 0; h < 9; h++)
        p.q[(h * 2 + cu_q[n]) * 64 + d] = 0.25f * sm(31, (uint64_t)((n * 9 + h) * 64 + d));
      for (int64_t g = 0; g < 3; g++)
        for (int64_t t = 0; t < cu_k[n + 1] - cu_k[n]; t++) {
          const uint64_t from = (uint64_t)(((n * 3 + g) * 5 + t) * 64 + d);
          const int64_t to = (g * 8 + cu_k[n] + t) * 64 + d;
          p.k[to] = 0.25f * sm(32, from);
          p.v[to] = sm(33, from);
        }
    }
  p.params.batch = 4;
  p.params.has_scale = true;
  p.params.scale = 1;
  p.params.lengths.cu_seqlens_q = cu_q;
  p.params.lengths.cu_seqlens_k = cu_k;
  problem_run(&p);
  problem_check(&p);
  double sum = 0;
  for (size_t i = 0; i < p.o_count; i++) sum += (double)p.o[i];
  CHECK_NEAR(sum, -4.61760233131, 1e-4);
  CHECK_NEAR((double)p.lse[p.lse_count - 1], 1.71137813571, 1e-6);
  static const double last[] = {-0.22266656603, 0.144899988354, -0.133917335344, 0.0685930876785};
  for (size_t d = 0; d < 4; d++) CHECK_NEAR((double)p.o[p.o_count - 64 + d], last[d], 1e-6);
  check_context("packed sequences without a single row");
  static const int32_t none[] = {0, 0, 0, 0, 0};
  p.params.lengths.cu_seqlens_q = none;
  p.params.q_len = 0;
  canary_fill(p.o, p.o_count);
  canary_fill(p.lse, p.lse_count);
  CHECK_OK(attn_forward(NULL, &p.params));
  CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
  problem_free(&p);
}

/* ---- dropout ---- */

static void masks(void) {
  problem p = problem_random((shape){1, 3, 3, 130, 130, 16, 16}, 7102);
  p.params.dropout = (attn_dropout){.rate = 0.5, .seed = 42};
  bits want = bits_of(&p, 1);
  static const int32_t threads[] = {2, 4, 7}, cu[] = {0, 130};
  for (int packed = 0; packed < 2; packed++) {
    check_context("one mask for all thread counts and layouts (ooples/AiDotNet.Tensors#684)");
    p.params.lengths.cu_seqlens_q = packed ? cu : NULL;
    p.params.lengths.cu_seqlens_k = packed ? cu : NULL;
    for (size_t i = 0; i < 3; i++) {
      problem_run_threads(&p, threads[i]);
      CHECK_SAME(&p, &want);
    }
  }
  check_context("one mask for a prompt in two chunks (ooples/AiDotNet.Tensors#684)");
  p.params.lengths = (attn_lengths){0};
  canary_fill(p.o, p.o_count);
  canary_fill(p.lse, p.lse_count);
  const attn_params first = problem_rows(&p, 0, 64), second = problem_rows(&p, 64, 130);
  CHECK_OK(attn_forward(NULL, &first));
  CHECK_OK(attn_forward(NULL, &second));
  CHECK_SAME(&p, &want);
  bits_free(&want);
  problem_free(&p);
}

/* ---- positions and strides at their limits ---- */

/* A ring of 40 pages at a position that memory for all keys could not hold: equal scores give the mean of
 * the last 512 values. With one head a row at a time, with 40 a tile. */
static void far_positions(void) {
  enum { PAGES = 40, PAGE = 16, KEYS = 512, D = 8, HEADS = 40 };
  static float q[HEADS * D], o[HEADS * D], k[PAGES * PAGE * D], v[PAGES * PAGE * D];
  static const int32_t ends[] = {KEYS, 600, 100000, 16777217, INT32_MAX - 1, INT32_MAX};
  int32_t table[PAGES];
  for (int32_t i = 0; i < PAGES; i++) table[i] = (i * 7) % PAGES;
  for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
    const int32_t end = ends[i], start = end - KEYS;
    double mean[D] = {0};
    for (int64_t j = 0; j < PAGES * PAGE * D; j++) v[j] = NAN;
    for (int64_t key = start; key < end; key++) {
      float *row = v + (table[key / PAGE % PAGES] * PAGE + key % PAGE) * D;
      for (int d = 0; d < D; d++) {
        row[d] = (float)((key * 31 + d * 17) % 64);
        mean[d] += (double)row[d] / (double)KEYS;
      }
    }
    for (int heads = 1; heads <= HEADS; heads += HEADS - 1) {
      attn_params p = ATTN_PARAMS_INIT;
      p.batch = p.kv_heads = p.q_len = 1;
      p.q_heads = heads;
      p.kv_len = end;
      p.head_size = p.value_size = D;
      p.q = (attn_input){q, 0, D, D, 1};
      p.o = (attn_output){o, 0, D, D, 1};
      p.k = (attn_input){k, PAGE * D, 0, D, 1};
      p.v = (attn_input){v, PAGE * D, 0, D, 1};
      p.lengths.kv_starts = &start;
      p.pages = (attn_pages){table, PAGES, PAGES, PAGE, PAGES};
      check_context("%d heads at position %d", heads, (int)end);
      canary_fill(o, HEADS * D);
      CHECK_OK(attn_forward(NULL, &p));
      for (int n = 0; n < heads * D; n++) CHECK_NEAR((double)o[n], mean[n % D], 1e-4);
    }
  }
}

/* Keys in descending order of addresses, and a row alone as among others. */
static void backward(void) {
  problem p = problem_random((shape){1, 2, 1, 3, 200, 24, 24}, 7200);
  bits want = bits_of(&p, 1);
  float *k = malloc(p.k_count * sizeof(float)), *v = malloc(p.v_count * sizeof(float));
  for (int64_t j = 0; j < 200; j++) {
    memcpy(k + (199 - j) * 24, p.k + j * 24, 24 * sizeof(float));
    memcpy(v + (199 - j) * 24, p.v + j * 24, 24 * sizeof(float));
  }
  p.params.k.data = k + 199 * 24;
  p.params.v.data = v + 199 * 24;
  p.params.k.row_stride = p.params.v.row_stride = -24;
  check_context("negative row strides of keys");
  problem_run(&p);
  CHECK_SAME(&p, &want);
  free(k);
  free(v);
  bits_free(&want);
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  far_positions();
  backward();
  for (size_t i = 0; i < sizeof(fixed_buffers) / sizeof(*fixed_buffers); i++)
    lengths(&fixed_buffers[i]);
  empty_members();
  masks();
  return check_done();
}
