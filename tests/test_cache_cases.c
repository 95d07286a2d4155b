/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Caches: faults that users of other libraries reported in public, as cases of our own, and tokens that come
 * in however they like. */

#include "guard.h"
#include "problem.h"
#include "random.h"
#include <attn/cache.h>
#include <stdlib.h>
#include <string.h>

/* Arrays of a problem are the tokens: row t of batch entry b is token t of sequence b. */
static attn_cache_config config_of(const problem *p, int64_t sequences) {
  attn_cache_config c = ATTN_CACHE_CONFIG_INIT;
  c.kv_heads = p->shape.kv_heads;
  c.head_size = p->shape.head_size;
  c.has_value_size = true;
  c.value_size = p->shape.value_size;
  c.max_sequences = sequences;
  return c;
}

static attn_cache *cache_new(const problem *p, int64_t sequences, int64_t capacity) {
  attn_cache_config c = config_of(p, sequences);
  c.has_capacity = true;
  c.capacity = capacity;
  attn_cache *cache = NULL;
  CHECK_OK(attn_cache_create(&c, &cache));
  return cache;
}

static attn_cache *cache_paged(const problem *p, int64_t sequences, int64_t page_size,
                               int64_t num_pages) {
  attn_cache_config c = config_of(p, sequences);
  c.has_pages = true;
  c.page_size = page_size;
  c.num_pages = num_pages;
  attn_cache *cache = NULL;
  CHECK_OK(attn_cache_create(&c, &cache));
  return cache;
}

static attn_input rows_from(attn_input in, int64_t batch, int64_t row) {
  in.data = (const float *)in.data + batch * in.batch_stride + row * in.row_stride;
  return in;
}

/* Tokens [first, first + count) of batch entry `from`. */
static attn_status feed(attn_cache *cache, int32_t sequence, const problem *p, int64_t from,
                        int64_t first, int64_t count) {
  attn_cache_rows r = ATTN_CACHE_ROWS_INIT;
  r.batch = 1;
  r.sequences = &sequence;
  r.kv_len = count;
  r.k = rows_from(p->params.k, from, first);
  r.v = rows_from(p->params.v, from, first);
  return attn_cache_append(cache, &r);
}

/* To each of the first `batch` sequences the first lens[n] tokens of its batch entry; those lie `stride` apart. */
static attn_status feed_all(attn_cache *cache, const problem *p, int64_t batch, int64_t stride,
                            const int32_t *lens) {
  attn_cache_rows r = ATTN_CACHE_ROWS_INIT;
  r.batch = batch;
  r.kv_len = p->shape.kv_len;
  r.kv_lens = lens;
  r.k = p->params.k;
  r.v = p->params.v;
  r.k.batch_stride = r.v.batch_stride = stride;
  return attn_cache_append(cache, &r);
}

/* Attends to what the sequence has now, by queries [first, first + count) of batch entry `from`. */
static attn_status attend(const attn_cache *cache, int32_t sequence, problem *p, int64_t from,
                          int64_t first, int64_t count) {
  attn_params a = p->params;
  a.q_len = count;
  params_move(&a, from, 0, 0, first);
  const attn_status status = attn_cache_view(cache, 1, &sequence, NULL, 0, &a);
  return status ? status : attn_forward(NULL, &a);
}

static void fill_value(float *a, size_t count, float value) {
  for (size_t i = 0; i < count; i++) a[i] = value;
}

/* Everything in the cache's pages becomes NaN: nothing may be held yet. */
static void poison(attn_cache *cache) {
  attn_params p = ATTN_PARAMS_INIT;
  float *k, *v;
  CHECK_OK(attn_cache_view(cache, 1, NULL, NULL, 0, &p));
  memcpy(&k, &p.k.data, sizeof(k));
  memcpy(&v, &p.v.data, sizeof(v));
  fill_value(k, (size_t)(p.pages.num_pages * p.k.batch_stride), NAN);
  fill_value(v, (size_t)(p.pages.num_pages * p.v.batch_stride), NAN);
}

/* Row t of every head has `rows[t]` in all dims; one batch entry. */
static void expect_rows(const problem *p, const double *rows) {
  const shape *s = &p->shape;
  for (int64_t i = 0; i < s->batch * s->q_heads * s->q_len; i++)
    for (int64_t d = 0; d < s->value_size; d++)
      CHECK_NEAR((double)p->o[i * s->value_size + d], rows[i % s->q_len],
                 1e-6 * rows[i % s->q_len]);
}

/* ---- reported faults ---- */

/* A position that is not checked against the capacity lets an append write behind the cache. */
static void capacity_is_checked(void) {
  check_context("capacity is checked before anything is written (gittensor-ai-lab/sparkinfer#143)");
  problem p = problem_random((shape){1, 2, 2, 1, 13, 3, 5}, 301);
  attn_cache_config c = config_of(&p, 1);
  c.has_capacity = true;
  c.capacity = 8;
  size_t bytes = 0;
  CHECK_OK(attn_cache_bytes(&c, &bytes));
  for (int side = 0; side < 2; side++) {
    guarded memory = guard_alloc(bytes, side ? GUARD_AFTER : GUARD_BEFORE);
    c.memory = memory.data;
    c.memory_size = bytes;
    attn_cache *cache = NULL;
    CHECK_OK(attn_cache_create(&c, &cache));
    CHECK_OK(feed(cache, 0, &p, 0, 0, 5));
    unsigned char *before = check_alloc(bytes);
    memcpy(before, memory.data, bytes);
    CHECK_STATUS(feed(cache, 0, &p, 0, 5, 4), ATTN_INVALID_ARGUMENT);
    CHECK(strstr(attn_last_error(), "keys 5, new rows 4") && strstr(attn_last_error(), "8"));
    CHECK(memcmp(before, memory.data, bytes) == 0);
    CHECK_INT(attn_cache_length(cache, 0), 5);
    CHECK_OK(feed(cache, 0, &p, 0, 5, 3));
    CHECK_STATUS(feed(cache, 0, &p, 0, 8, 1), ATTN_INVALID_ARGUMENT);
    CHECK_INT(attn_cache_length(cache, 0), 8);
    CHECK_OK(attend(cache, 0, &p, 0, 0, 1));
    CHECK(guard_intact(&memory));
    attn_cache_destroy(cache);
    free(before);
    guard_free(&memory);
  }
  problem_free(&p);
}

/* A page table with fewer columns than the length needs is read past its end. */
static void table_is_wide_enough(void) {
  check_context("a table too short for the length is refused (Dao-AILab/flash-attention#2711)");
  problem p = problem_random((shape){1, 1, 1, 1, 48, 4, 4}, 302);
  attn_cache *cache = cache_paged(&p, 1, 16, 2);
  CHECK_OK(feed(cache, 0, &p, 0, 0, 32));
  CHECK_STATUS(feed(cache, 0, &p, 0, 32, 1), ATTN_INVALID_ARGUMENT);
  CHECK_INT(attn_cache_length(cache, 0), 32);
  CHECK_OK(attend(cache, 0, &p, 0, 0, 1));
  attn_cache_destroy(cache);

  /* The same table in the caller's hands, against an unreadable page. */
  guarded table = guard_alloc(2 * sizeof(int32_t), GUARD_AFTER);
  memcpy(table.data, (int32_t[]){2, 0}, 2 * sizeof(int32_t));
  attn_params a = p.params;
  a.pages = (attn_pages){table.data, 2, 2, 16, 3};
  a.k.batch_stride = a.v.batch_stride = 16 * 4;
  a.kv_len = 32;
  CHECK_OK(attn_forward(NULL, &a));
  a.kv_len = 33;
  canary_fill(p.o, p.o_count);
  CHECK_STATUS(attn_forward(NULL, &a), ATTN_INVALID_ARGUMENT);
  CHECK(canary_intact(p.o, p.o_count));
  guard_free(&table);
  problem_free(&p);
}

/* Slots behind the length hold whatever they hold; 0 times NaN is NaN. */
static void unused_slots(void) {
  check_context("NaN in unused slots (Dao-AILab/flash-attention#1745)");
  problem p = problem_new((shape){2, 1, 1, 1, 3, 64, 64});
  fill_value(p.q, p.q_count, 0.5f);
  fill_value(p.k, p.k_count, 0.5f);
  for (size_t i = 0; i < p.v_count; i++) p.v[i] = (float)(i / 64 % 3 + 1);
  for (int paged = 0; paged < 2; paged++) {
    attn_cache *cache = paged ? cache_paged(&p, 2, 2, 5) : cache_new(&p, 2, 7);
    poison(cache);
    CHECK_OK(feed(cache, 0, &p, 0, 0, 1));
    CHECK_OK(feed(cache, 1, &p, 1, 0, 3));
    attn_params a = p.params;
    CHECK_OK(attn_cache_view(cache, 2, NULL, NULL, 0, &a));
    CHECK_OK(attn_forward(NULL, &a));
    for (int64_t d = 0; d < 64; d++) {
      CHECK(p.o[d] == 1);
      CHECK_NEAR((double)p.o[64 + d], 2, 2e-6);
    }
    attn_cache_destroy(cache);
  }
  problem_free(&p);
}

/* Pages that follow each other in a sequence need not do so in memory. */
static void pages_in_any_order(void) {
  check_context("every page goes through the table (hw-native-sys/pypto#470)");
  enum { H = 2, T = 11, D = 8, PAGE = 4, PAGES = 6, FLOATS = PAGES * H * PAGE * D };
  static const int32_t tables[][3] = {{5, 2, 0}, {0, 1, 2}, {2, 1, 0}};
  problem p = problem_new((shape){1, H, H, 4, T, D, D});
  sm_fill(p.q, p.q_count, 117, 1);
  sm_fill(p.k, p.k_count, 118, 1);
  for (size_t i = 0; i < p.v_count; i++) p.v[i] = (float)(i / D % T);
  problem_run(&p);
  problem_check(&p);
  float *want = copy_floats(p.o, p.o_count), *lse = copy_floats(p.lse, p.lse_count);
  const attn_input k = p.params.k, v = p.params.v;
  for (int n = 0; n < 3; n++) {
    float pages[2][FLOATS];
    fill_value(pages[0], FLOATS, NAN);
    fill_value(pages[1], FLOATS, NAN);
    for (int h = 0; h < H; h++)
      for (int t = 0; t < T; t++) {
        const int at = ((tables[n][t / PAGE] * H + h) * PAGE + t % PAGE) * D;
        memcpy(&pages[0][at], p.k + (h * T + t) * D, D * sizeof(float));
        memcpy(&pages[1][at], p.v + (h * T + t) * D, D * sizeof(float));
      }
    p.params.k = (attn_input){pages[0], H * PAGE * D, PAGE * D, D, 1};
    p.params.v = (attn_input){pages[1], H * PAGE * D, PAGE * D, D, 1};
    p.params.pages = (attn_pages){tables[n], 3, 3, PAGE, PAGES};
    problem_run(&p);
    CHECK_BITS(p.o, want, p.o_count);
    CHECK_BITS(p.lse, lse, p.lse_count);
    p.params.k = k;
    p.params.v = v;
  }
  free(want);
  free(lse);
  problem_free(&p);
}

/* A window one off where the length reaches it. 7 keys to the left and the query's own are 8. */
static void window_boundary(void) {
  check_context("a ring where the length reaches the window (huggingface/transformers#37574)");
  enum { T = 13, W = 8 };
  static const int64_t page_sizes[] = {0, 1, 3, 16};
  double want[T];
  for (int t = 0; t < T; t++) want[t] = 10 + 0.125 * (t < W ? t / 2.0 : t - 3.5);
  CHECK(want[12] == 11.0625 && want[7] == 10.4375);
  for (int n = 0; n < 4; n++) {
    problem p = problem_new((shape){1, 1, 1, T, T, 4, 4});
    fill_value(p.q, p.q_count, 0);
    fill_value(p.k, p.k_count, 0);
    for (size_t i = 0; i < p.v_count; i++) p.v[i] = 10 + 0.125f * (float)(i / 4);
    attn_cache_config c = config_of(&p, 1);
    c.has_window = true;
    c.window = W;
    c.has_pages = page_sizes[n] > 0;
    c.page_size = page_sizes[n];
    c.num_pages = c.has_pages ? (W + c.page_size - 2) / c.page_size + 1 : 0; /* what 8 keys touch */
    attn_cache *cache = NULL;
    CHECK_OK(attn_cache_create(&c, &cache));
    poison(cache);
    CHECK_OK(feed(cache, 0, &p, 0, 0, 6));
    CHECK_OK(attend(cache, 0, &p, 0, 0, 6));
    for (int t = 6; t < T; t++) {
      CHECK_OK(feed(cache, 0, &p, 0, t, 1));
      CHECK_OK(attend(cache, 0, &p, 0, t, 1));
    }
    expect_rows(&p, want);
    CHECK_INT(attn_cache_length(cache, 0), T);
    attn_cache_destroy(cache);
    problem_free(&p);
  }
}

/* Offsets of packed rows that do not begin at 0, go back, or do not end at the total. */
static void offsets_are_checked(void) {
  check_context("malformed cu_seqlens (sgl-project/sgl-flash-attn#47)");
  static const struct {
    int64_t batch;
    int32_t cu[4];
    bool right;
  } offsets[] = {{2, {1, 4, 8}, false}, {3, {0, 5, 3, 8}, false}, {2, {0, 4, 7}, false},
                 {2, {0, 4, 9}, false}, {2, {0, -1, 8}, false},   {3, {0, 4, 4, 8}, true}};
  problem p = problem_random((shape){1, 1, 1, 8, 8, 4, 4}, 303);
  for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
    const attn_status want = offsets[i].right ? ATTN_OK : ATTN_INVALID_ARGUMENT;
    attn_cache *cache = cache_new(&p, 3, 8);
    attn_cache_rows r = ATTN_CACHE_ROWS_INIT;
    r.batch = offsets[i].batch;
    r.kv_len = 8;
    r.cu_seqlens_k = offsets[i].cu;
    r.k = p.params.k;
    r.v = p.params.v;
    CHECK_STATUS(attn_cache_append(cache, &r), want);
    CHECK(want == ATTN_OK || strstr(attn_last_error(), "cu_seqlens_k["));
    for (int64_t n = 0; n < r.batch; n++) {
      CHECK_INT(attn_cache_length(cache, n), want ? 0 : offsets[i].cu[n + 1] - offsets[i].cu[n]);
    }
    attn_cache_destroy(cache);
    for (int keys = 0; keys < 2; keys++) {
      attn_params a = p.params;
      a.batch = offsets[i].batch;
      *(keys ? &a.lengths.cu_seqlens_k : &a.lengths.cu_seqlens_q) = offsets[i].cu;
      if (keys) a.q_len = 1;
      a.q.batch_stride = a.k.batch_stride = a.v.batch_stride = 0;
      if (keys) a.o.batch_stride = a.o.row_stride, a.lse.batch_stride = 1;
      canary_fill(p.o, p.o_count);
      CHECK_STATUS(attn_forward(NULL, &a), want);
      CHECK(canary_intact(p.o, p.o_count) == (want != ATTN_OK));
    }
  }
  problem_free(&p);
}

/* A cache that is used again, or copied, remembers nothing of what it held. */
static void reset_and_fork(void) {
  check_context("reset between sequences, forks apart (awslabs/keys_values#45)");
  problem p = problem_random((shape){2, 4, 2, 9, 9, 6, 4}, 304);
  for (int paged = 0; paged < 2; paged++) {
    attn_cache *cache = paged ? cache_paged(&p, 2, 4, 8) : cache_new(&p, 2, 9);
    attn_cache *fresh = paged ? cache_paged(&p, 2, 4, 8) : cache_new(&p, 2, 9);
    CHECK_OK(feed(fresh, 0, &p, 1, 0, 4));
    CHECK_OK(attend(fresh, 0, &p, 1, 0, 4));
    float *want = copy_floats(p.o, p.o_count);
    CHECK_OK(feed(cache, 0, &p, 0, 0, 9));
    CHECK_OK(attn_cache_reset(cache, 0));
    CHECK_INT(attn_cache_length(cache, 0), 0);
    CHECK_OK(feed(cache, 0, &p, 1, 0, 4));
    canary_fill(p.o, p.o_count);
    CHECK_OK(attend(cache, 0, &p, 1, 0, 4));
    for (int64_t h = 0; h < 4; h++) {
      const int64_t at = (4 + h) * 9 * 4; /* batch entry 1 */
      CHECK_BITS(p.o + at, want + at, 4 * 4);
    }

    /* 5 common tokens, then each its own: as two caches that never met. */
    CHECK_OK(attn_cache_reset(cache, 0));
    CHECK_OK(attn_cache_reset(fresh, 0));
    CHECK_OK(feed(cache, 0, &p, 0, 0, 5));
    CHECK_OK(attn_cache_fork(cache, 0, 1));
    CHECK_OK(feed(cache, 0, &p, 0, 5, 4));
    CHECK_OK(feed(cache, 1, &p, 1, 5, 4));
    for (int32_t s = 0; s < 2; s++) {
      CHECK_OK(feed(fresh, s, &p, 0, 0, 5));
      CHECK_OK(feed(fresh, s, &p, s, 5, 4));
      canary_fill(p.o, p.o_count);
      CHECK_OK(attend(fresh, s, &p, s, 0, 9));
      memcpy(want, p.o, p.o_count * sizeof(float));
      canary_fill(p.o, p.o_count);
      CHECK_OK(attend(cache, s, &p, s, 0, 9));
      CHECK_BITS(p.o, want, p.o_count);
    }
    free(want);
    attn_cache_destroy(cache);
    attn_cache_destroy(fresh);
  }
  problem_free(&p);
}

/* Sequences without rows or keys among others: in one call as each alone. */
static void zero_lengths(void) {
  check_context("members of length 0 and 1 (Dao-AILab/flash-attention#1537)");
  static const int32_t cu_q[] = {0, 0, 1, 1, 2}, keys[] = {0, 3, 0, 5};
  problem p = problem_new((shape){1, 9, 3, 2, 5, 64, 64});
  sm_fill(p.q, p.q_count, 31, 0.25);
  sm_fill(p.k, p.k_count, 32, 0.25);
  sm_fill(p.v, p.v_count, 33, 1);
  p.params.has_scale = true;
  p.params.scale = 1;
  attn_cache *cache = cache_paged(&p, 4, 2, 5);
  CHECK_OK(feed_all(cache, &p, 4, 0, keys)); /* all get the same tokens */
  for (int32_t s = 0; s < 4; s++) {
    if (cu_q[s + 1] > cu_q[s]) CHECK_OK(attend(cache, s, &p, 0, cu_q[s], 1));
  }
  float *want = copy_floats(p.o, p.o_count);
  const attn_params plain = p.params;
  p.params.lengths.cu_seqlens_q = cu_q;
  CHECK_OK(attn_cache_view(cache, 4, NULL, NULL, 0, &p.params));
  problem_run(&p);
  CHECK_BITS(p.o, want, p.o_count);
  p.params = plain;
  free(want);
  attn_cache_destroy(cache);
  problem_free(&p);
}

/* Each sequence has its own diagonal; one without keys has rows of 0. */
static void lengths_of_their_own(void) {
  check_context("a diagonal per sequence (onnx/onnx#8068, microsoft/onnxruntime#28904)");
  static const int32_t keys[] = {2, 5, 0};
  static const double want[] = {1, 1.5, 2.5, 3, 0, 0};
  problem p = problem_new((shape){3, 1, 1, 2, 6, 4, 4});
  fill_value(p.q, p.q_count, 0);
  fill_value(p.k, p.k_count, 0);
  for (size_t i = 0; i < p.v_count; i++) p.v[i] = (float)(i / 4 % 6 + 1);
  attn_cache *cache = cache_new(&p, 3, 6);
  poison(cache);
  CHECK_OK(feed_all(cache, &p, 3, p.params.k.batch_stride, keys));
  CHECK_OK(attn_cache_view(cache, 3, NULL, NULL, 0, &p.params));
  problem_run(&p);
  for (size_t i = 0; i < p.o_count; i++)
    CHECK_NEAR((double)p.o[i], want[i / 4], 1e-6 * want[i / 4]);
  for (int i = 0; i < 6; i++) CHECK((p.lse[i] == -INFINITY) == (i >= 4));
  attn_cache_destroy(cache);
  problem_free(&p);
}

/* ---- however the tokens come in ---- */

static void any_split(void) {
  check_context("any split of a prompt");
  enum { T = 600 };
  static const int64_t steps[] = {1, 7, 128, 250, T};
  problem p = problem_random((shape){1, 4, 2, T, T, 16, 8}, 305);
  problem_run(&p);
  float *want = copy_floats(p.o, p.o_count), *lse = copy_floats(p.lse, p.lse_count);
  for (int n = check_brief() ? 2 : 0; n < 5; n++) {
    for (int64_t page = 0; page < 40; page += 13) {
      attn_cache *cache = page ? cache_paged(&p, 1, page, T / page + 1) : cache_new(&p, 1, T);
      canary_fill(p.o, p.o_count);
      canary_fill(p.lse, p.lse_count);
      for (int64_t t = 0; t < T; t += steps[n]) {
        const int64_t rows = t + steps[n] < T ? steps[n] : T - t;
        CHECK_OK(feed(cache, 0, &p, 0, t, rows));
        CHECK_OK(attend(cache, 0, &p, 0, t, rows));
      }
      CHECK_BITS(p.o, want, p.o_count);
      CHECK_BITS(p.lse, lse, p.lse_count);
      attn_cache_destroy(cache);
    }
  }
  free(want);
  free(lse);
  problem_free(&p);
}

/* Large enough for huge pages and for several threads to touch and to write. */
static void large(void) {
  check_context("a cache of some megabytes");
  enum { T = 3000 };
  problem p = problem_random((shape){1, 8, 8, 2, T, 64, 32}, 306);
  problem_run(&p);
  float *want = copy_floats(p.o, p.o_count);
  attn_cache_config c = config_of(&p, 2);
  c.has_capacity = c.has_num_threads = true;
  c.capacity = T;
  c.num_threads = 3;
  attn_cache *cache = NULL;
  CHECK_OK(attn_cache_create(&c, &cache));
  CHECK_OK(feed(cache, 1, &p, 0, 0, T));
  CHECK_OK(attend(cache, 1, &p, 0, 0, 2));
  CHECK_BITS(p.o, want, p.o_count);
  attn_params a = ATTN_PARAMS_INIT;
  CHECK_OK(attn_cache_view(cache, 1, NULL, NULL, 0, &a));
  CHECK((uintptr_t)a.k.data % 64 == 0 && (uintptr_t)a.v.data % 64 == 0);
  attn_cache_usage u = ATTN_CACHE_USAGE_INIT;
  CHECK_OK(attn_cache_get_usage(cache, &u));
  CHECK_INT(u.num_pages, 2);
  CHECK_INT(u.pages_in_use, 1);
  CHECK_INT(u.bytes_in_use, 8 * ((T + 15) / 16 * 16) * (64 + 32) * 4);
  CHECK(u.bytes >= 2 * u.bytes_in_use && u.bytes < 2 * u.bytes_in_use + 4096);
  attn_cache_destroy(cache);
  attn_cache_destroy(NULL);
  free(want);
  problem_free(&p);
}

/* The output of a problem, kv head by kv head: less than what counts as from memory. Caller frees. */
static float *heads_alone(const problem *p, const int32_t *kv_starts) {
  const int64_t group = p->shape.q_heads / p->shape.kv_heads;
  for (int64_t h = 0; h < p->shape.kv_heads; h++) {
    attn_params a = p->params;
    a.q_heads = group;
    a.kv_heads = 1;
    a.lengths.kv_starts = kv_starts;
    params_move(&a, 0, h * group, h, 0);
    CHECK_OK(attn_forward(NULL, &a));
  }
  return copy_floats(p->o, p->o_count);
}

/* More than a call takes for something that caches hold (STREAM_BYTES of engine/attention.c): kernels read it as streams,
 * in turns, which end in all ways. The same from arrays, and from less at a time. */
static void streamed(void) {
  static const struct {
    shape shape;
    int64_t page_size; /* 0: none */
  } cases[] = {
      {{1, 8, 8, 1, 1537, 64, 64}, 0},    {{1, 8, 8, 2, 1666, 64, 64}, 16},
      {{1, 12, 4, 1, 1535, 128, 128}, 0}, {{1, 16, 4, 1, 1666, 128, 128}, 16},
      {{1, 4, 4, 5, 1537, 128, 128}, 48}, {{1, 12, 4, 3, 1535, 128, 100}, 0},
      {{1, 2, 2, 1, 1666, 300, 300}, 16}, {{1, 8, 4, 2, 1537, 40, 300}, 0},
      {{1, 8, 8, 1, 1666, 100, 40}, 3},   {{1, 4, 4, 1, 2048, 256, 256}, 0},
      {{1, 2, 2, 1, 1025, 64, 640}, 0},   {{1, 4, 2, 3, 1025, 300, 640}, 16},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += check_brief() ? 5 : 1) {
    const shape s = cases[i].shape;
    const int64_t page = cases[i].page_size;
    const int64_t bytes = s.kv_len * (s.head_size + s.value_size) * 4, most = 5 << 20;
    check_context("streams " SHAPE_FORMAT " pages of %lld", SHAPE_VALUES(s), (long long)page);
    CHECK(bytes <= most && bytes * s.kv_heads > most);
    problem p = problem_random(s, 320 + i);
    float *want = heads_alone(&p, NULL);
    problem_run(&p);
    CHECK_BITS(p.o, want, p.o_count);
    attn_cache *cache =
        page ? cache_paged(&p, 1, page, (s.kv_len + page - 1) / page) : cache_new(&p, 1, s.kv_len);
    poison(cache);
    CHECK_OK(feed(cache, 0, &p, 0, 0, 700));
    CHECK_OK(feed(cache, 0, &p, 0, 700, s.kv_len - 700));
    CHECK_OK(attend(cache, 0, &p, 0, 0, s.q_len));
    CHECK_BITS(p.o, want, p.o_count);
    attn_cache_destroy(cache);
    free(want);
    problem_free(&p);
  }
}

/* `count` bytes at the end of a page before one that faults, or at the start of one behind such a page. */
static guarded guarded_copy(const void *from, size_t count, guard_side side) {
  guarded g = guard_alloc(count, side);
  memcpy(g.data, from, count);
  return g;
}

/* Streams end with the last key, and begin with the first that is there: no row, and no entry of the page table, before or
 * behind is read. */
static void streamed_edges(void) {
  enum { KEYS = 2 * 512 + 400, START = 40, PAGE = 16 };
  const int32_t start = START;
  problem p = problem_random((shape){1, 4, 4, 1, KEYS, 128, 128}, 340);
  float *want = heads_alone(&p, &start);
  attn_cache *cache = cache_paged(&p, 1, PAGE, KEYS / PAGE);
  CHECK_OK(feed(cache, 0, &p, 0, 0, KEYS));
  for (int side = 0; side < 2; side++) {
    check_context("streams %s a guard page", side ? "before" : "behind");
    attn_params a = p.params;
    const size_t skip = side ? 0 : START * 128; /* rows of the first head */
    guarded k = guarded_copy(p.k + skip, (p.k_count - skip) * sizeof(float),
                             side ? GUARD_AFTER : GUARD_BEFORE);
    guarded v = guarded_copy(p.v + skip, (p.v_count - skip) * sizeof(float),
                             side ? GUARD_AFTER : GUARD_BEFORE);
    a.k.data = (float *)k.data - skip;
    a.v.data = (float *)v.data - skip;
    a.lengths.kv_starts = &start;
    CHECK_OK(attn_forward(NULL, &a));
    CHECK_BITS(p.o, want, p.o_count);
    guard_free(&k);
    guard_free(&v);

    a = p.params;
    CHECK_OK(attn_cache_view(cache, 1, NULL, NULL, 0, &a));
    const size_t gone = START / PAGE, pages = KEYS / PAGE;
    guarded table = guarded_copy(a.pages.table + gone, (pages - gone) * sizeof(int32_t),
                                 side ? GUARD_AFTER : GUARD_BEFORE);
    a.pages.table = (const int32_t *)table.data - gone;
    a.lengths.kv_starts = &start;
    CHECK_OK(attn_forward(NULL, &a));
    CHECK_BITS(p.o, want, p.o_count);
    guard_free(&table);
  }
  attn_cache_destroy(cache);
  free(want);
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  capacity_is_checked();
  table_is_wide_enough();
  unused_slots();
  pages_in_any_order();
  window_boundary();
  offsets_are_checked();
  reset_and_fork();
  zero_lengths();
  lengths_of_their_own();
  any_split();
  large();
  streamed();
  streamed_edges();
  return check_done();
}
