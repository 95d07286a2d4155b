/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Dropout: the mask is a pure function of (seed, offset, batch, head, query position, key), kept
 * weights are scaled by 1/(1 - rate), and the log-sum-exp does not notice. (What the recorded
 * masks of the golden files give is in test_golden_layer.c.) */

#include "exact.h"
#include "guard.h"
#include "random.h"
#include <stdio.h>
#include <string.h>

enum { N = 64 };

static void set_dropout(problem *p, double rate, uint64_t seed, uint64_t offset) {
  p->params.dropout =
      (attn_dropout){.rate = rate, .deterministic = false, .seed = seed, .offset = offset};
}

/* All scores 0, so every weight is the same; values the identity: element j of an output row is
 * nonzero exactly when the weight of key j was kept. At most 1024 keys. */
static problem mask_problem(int64_t batch, int64_t heads, int64_t rows, int64_t keys) {
  problem p = problem_new((shape){batch, heads, 1, rows, keys, 1, keys});
  memset(p.q, 0, p.q_count * sizeof(float));
  memset(p.k, 0, p.k_count * sizeof(float));
  memset(p.v, 0, p.v_count * sizeof(float));
  for (int64_t b = 0; b < batch; b++)
    for (int64_t j = 0; j < keys; j++) p.v[(b * keys + j) * keys + j] = 1;
  p.params.causal = false;
  return p;
}

static uint8_t *mask_of(problem *p) {
  problem_run(p);
  uint8_t *mask = check_alloc(p->o_count);
  for (size_t i = 0; i < p->o_count; i++) mask[i] = p->o[i] != 0;
  return mask;
}

static double agreement(const uint8_t *a, const uint8_t *b, size_t count) {
  size_t same = 0;
  for (size_t i = 0; i < count; i++) same += a[i] == b[i];
  return (double)same / (double)count;
}

/* The share of kept weights is within five standard deviations of 1 - rate, overall and by row and
 * by key. */
static void share(void) {
  static const double rates[] = {1e-3, 0.1, 0.25, 0.5, 0.9, 0.999};
  problem p = mask_problem(1, 4, 512, 512);
  for (size_t n = 0; n < sizeof(rates) / sizeof(rates[0]); n += check_brief() ? 3 : 1) {
    double rate = rates[n], variance = rate * (1 - rate);
    set_dropout(&p, rate, 11, n);
    uint8_t *mask = mask_of(&p);
    double by_row[2048] = {0}, by_key[512] = {0}, all = 0;
    for (size_t i = 0; i < p.o_count; i++) {
      by_row[i / 512] += mask[i];
      by_key[i % 512] += mask[i];
      all += mask[i];
    }
    check_context("share of kept weights at rate %g", rate);
    CHECK_NEAR(all, (1 - rate) * (double)p.o_count, 5 * sqrt(variance * (double)p.o_count));
    for (int i = 0; i < 2048; i++)
      CHECK_NEAR(by_row[i], (1 - rate) * 512, 6 * sqrt(variance * 512) + 3);
    for (int i = 0; i < 512; i++)
      CHECK_NEAR(by_key[i], (1 - rate) * 2048, 6 * sqrt(variance * 2048) + 3);
    free(mask);
  }
  problem_free(&p);
}

/* Masks of all heads, batches, seeds and offsets are pairwise unrelated. */
static void unrelated(void) {
  static const struct {
    uint64_t seed, offset;
  } draws[] = {{0, 0},
               {0, 1},
               {1, 0},
               {1, 1},
               {1, UINT64_C(1) << 32},
               {1 + (UINT64_C(1) << 32), 0},
               {UINT64_MAX, 0},
               {0, UINT64_MAX}};
  enum { DRAWS = sizeof(draws) / sizeof(draws[0]), HEADS = 8, MASKS = DRAWS * HEADS };
  problem p = mask_problem(2, 4, N, N);
  uint8_t *masks = check_alloc((size_t)MASKS * N * N);
  for (int n = 0; n < DRAWS; n++) {
    set_dropout(&p, 0.5, draws[n].seed, draws[n].offset);
    uint8_t *mask = mask_of(&p);
    memcpy(masks + (size_t)n * HEADS * N * N, mask, (size_t)HEADS * N * N);
    free(mask);
    uint8_t *again = mask_of(&p); /* and a function: the same once more */
    CHECK(memcmp(again, masks + (size_t)n * HEADS * N * N, (size_t)HEADS * N * N) == 0);
    free(again);
  }
  for (int a = 0; a < MASKS; a++)
    for (int b = 0; b < a; b++) {
      check_context("masks %d and %d", a, b);
      CHECK_NEAR(agreement(masks + (size_t)a * N * N, masks + (size_t)b * N * N, N * N), 0.5, 0.05);
    }
  /* Rows of one mask, and a mask and itself moved by one or by four keys. */
  size_t all = (size_t)MASKS * N * N;
  check_context("neighbours");
  static const size_t moves[] = {1, 2, 3, 4, 8, N, 2 * N, N + 1};
  for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
    CHECK_NEAR(agreement(masks, masks + moves[i], all - moves[i]), 0.5,
               6 * 0.5 / sqrt((double)all));
  free(masks);
  problem_free(&p);
}

/* Zero scores, ones as values: a row is the number of kept keys over (1 - rate) times all keys. */
static void scaling(void) {
  enum { ROWS = 256, KEYS = 4096, D = 8 };
  problem p = problem_new((shape){1, 1, 1, ROWS, KEYS, D, D});
  memset(p.q, 0, p.q_count * sizeof(float));
  memset(p.k, 0, p.k_count * sizeof(float));
  for (size_t i = 0; i < p.v_count; i++) p.v[i] = 1;
  p.params.causal = false;
  check_context("rate 0.25 over 4096 equal keys");
  bits without = bits_of(&p, 2);
  set_dropout(&p, 0.25, 5, 0);
  problem_run(&p);
  double mean = 0;
  for (int i = 0; i < ROWS; i++) {
    double kept = (double)p.o[i * D] * 3072;
    CHECK_NEAR(kept, nearbyint(kept), 1e-6 * 3072);
    mean += (double)p.o[i * D] / (double)ROWS;
  }
  CHECK_NEAR(mean, 1, 0.003);
  CHECK_BITS(p.lse, without.lse, p.lse_count);
  set_dropout(&p, 0, 5, 0);
  problem_run(&p);
  CHECK_SAME(&p, &without);
  set_dropout(&p, 0.25, 5, 0);
  p.params.dropout.deterministic = true;
  problem_run(&p);
  CHECK_SAME(&p, &without);
  set_dropout(&p, 1, 5, 0);
  problem_run(&p);
  for (size_t i = 0; i < p.o_count; i++) CHECK_INT(float_bits(p.o[i]), 0);
  CHECK_BITS(p.lse, without.lse, p.lse_count);
  bits_free(&without);
  problem_free(&p);
}

/* The mean over many seeds approaches the result without dropout. */
static void mean_over_seeds(void) {
  const int seeds = check_brief() ? 300 : 4000;
  const double rate = 0.3;
  problem p = problem_random((shape){1, 2, 1, 12, 12, 8, 3}, 6001);
  memset(p.q, 0, p.q_count * sizeof(float)); /* weights 1/(i + 1) */
  oracle_result r = oracle_attention(&p.params, false);
  double *sum = check_alloc(p.o_count * sizeof(double));
  for (size_t i = 0; i < p.o_count; i++) sum[i] = 0;
  for (uint64_t seed = 0; seed < (uint64_t)seeds; seed++) {
    set_dropout(&p, rate, seed, 0);
    problem_run_threads(&p, 1);
    for (size_t i = 0; i < p.o_count; i++) sum[i] += (double)p.o[i];
  }
  check_context("mean over %d seeds", seeds);
  for (size_t i = 0; i < p.o_count; i++) {
    size_t row = i / 3 % 12, d = i % 3;
    double square = 0, w = 1 / (double)(row + 1);
    for (size_t j = 0; j <= row; j++)
      square += w * w * (double)p.v[j * 3 + d] * (double)p.v[j * 3 + d];
    CHECK_NEAR(sum[i] / seeds, r.o[i], 5 * sqrt(rate / (1 - rate) * square / seeds) + 1e-6);
  }
  free(sum);
  oracle_free(&r);
  problem_free(&p);
}

/* Threads, cuts of the queries, and heads alone do not move the mask. */
static void same_bits(shape s, bool causal) {
  static const int64_t cuts[][2] = {{64, 66}, {1, 1}, {17, 5}, {200, 3}};
  problem p = problem_random(s, 6101);
  p.params.causal = causal;
  set_dropout(&p, 0.5, 42, 7);
  bits want = bits_of(&p, 1);
  for (int32_t threads = 2; threads <= 7; threads += check_brief() ? 4 : 1) {
    check_context(SHAPE_FORMAT " dropout, %d threads", SHAPE_VALUES(s), threads);
    problem_run_threads(&p, threads);
    CHECK_SAME(&p, &want);
  }
  for (size_t n = 0; n < sizeof(cuts) / sizeof(cuts[0]); n++) {
    /* Without causality all queries see all keys: a cut is not a shorter key sequence, and the
     * position of a query would change. */
    if (!causal) break;
    check_context(SHAPE_FORMAT " dropout, queries cut %lld + %lld", SHAPE_VALUES(s),
                  (long long)cuts[n][0], (long long)cuts[n][1]);
    canary_fill(p.o, p.o_count);
    canary_fill(p.lse, p.lse_count);
    int64_t begin = 0;
    for (int turn = 0; begin < s.q_len; turn ^= 1) {
      int64_t end = begin + cuts[n][turn] < s.q_len ? begin + cuts[n][turn] : s.q_len;
      attn_params part = problem_rows(&p, begin, end);
      CHECK_OK(attn_forward(NULL, &part));
      begin = end;
    }
    CHECK_SAME(&p, &want);
  }
  bits_free(&want);
  problem_free(&p);
}

/* The generator's mask, recorded and fed back, gives the same bits; in any layout; and entries of
 * unseen keys are not read: the mask lies backwards, and past row 0's only key the page faults. */
static void recorded(bool causal) {
  enum { H = 3, T = 50 };
  problem masks = mask_problem(1, H, T, T);
  set_dropout(&masks, 0.3, 9, 0);
  uint8_t *mask = mask_of(&masks);
  problem p = problem_random((shape){1, H, 1, T, T, 16, 24}, 6201);
  p.params.causal = causal;
  set_dropout(&p, 0.3, 9, 0);
  bits want = bits_of(&p, 1);
  check_context("recorded mask");
  p.params.dropout.seed = 1;
  p.params.dropout.keep = (attn_keep_mask){mask, H * T * T, T * T, T, 1};
  problem_run(&p);
  CHECK_SAME(&p, &want);
  problem_check(&p);
  size_t size = (size_t)(T - 1) * T * H + (size_t)((causal ? 0 : T - 1) * H) + H;
  guarded g = guard_alloc(size, GUARD_AFTER);
  uint8_t *data = (uint8_t *)g.data + (size_t)(T - 1) * T * H; /* row 0 comes last */
  for (int64_t h = 0; h < H; h++)
    for (int64_t i = 0; i < T; i++)
      for (int64_t j = 0; j <= (causal ? i : T - 1); j++)
        data[h - i * T * H + j * H] = (uint8_t)(200 * mask[(h * T + i) * T + j]);
  p.params.dropout.keep = (attn_keep_mask){data, 0, 1, -T * H, H};
  check_context("recorded mask against a guard page");
  for (int32_t threads = 1; threads <= 3; threads++) {
    problem_run_threads(&p, threads);
    CHECK_SAME(&p, &want);
  }
  CHECK(guard_intact(&g));
  guard_free(&g);
  free(mask);
  bits_free(&want);
  problem_free(&p);
  problem_free(&masks);
}

/* The stream does not change between versions or machines. */
static void stream(void) {
  problem p = mask_problem(2, 2, N, N);
  set_dropout(&p, 0.5, UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210));
  problem_run(&p);
  uint64_t hash = digest(DIGEST_START, p.o, p.o_count);
  check_context("digest of a mask: %016llx", (unsigned long long)hash);
  CHECK(hash == UINT64_C(0xcf7dba808c1aa5d5));
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  share();
  unrelated();
  scaling();
  mean_over_seeds();
  same_bits((shape){1, 3, 3, 130, 130, 64, 64}, true);
  same_bits((shape){1, 3, 1, 130, 130, 16, 16}, true);
  same_bits((shape){2, 4, 2, 5, 1300, 8, 8}, true);
  same_bits((shape){2, 4, 2, 40, 700, 8, 8}, false);
  recorded(true);
  recorded(false);
  stream();
  return check_done();
}
