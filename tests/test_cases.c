/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Faults that users of other attention libraries reported in public, as cases of our own. The
 * inputs are given by formula; the right answer by the oracle, by two figures that another
 * program computed, and where there is one by a closed form. (Lengths are in test_ragged_cases.c.) */

#include "problem.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>

/* An element: batch, head, row, dim, and its index in the dense (batch, head, row, dim) array. */
typedef struct at {
  int64_t b, h, t, d, flat;
} at;

typedef double (*formula)(at i);

typedef struct hand_case {
  const char *name, *report;
  shape s;
  formula q, k, v;
  bool has_scale;
  float scale;
  double out_sum, lse_last; /* sum over finite outputs, lse of the very last row */
  formula o, lse;           /* closed forms; NULL: the oracle alone */
} hand_case;

static double zero(at i) { return (void)i, 0; }
static double one(at i) { return (void)i, 1; }
static double key_index(at i) { return (double)i.t; }
static double half_row(at i) { return (double)i.t / 2; }
static double minus_infinity(at i) { return (void)i, -INFINITY; }
static double log_visible(at i) { return log((double)i.t + 1); }

#define SM(name, seed, factor)                                                                     \
  static double name(at i) { return (factor) * (double)sm(seed, (uint64_t)i.flat); }

/* ---- alignment ---- */
static double three_and_half(at i) { return (void)i, 3.5; }
static double ten_more(at i) { return 10 + 10 * (double)i.t; }
static double more_queries_o(at i) { return i.t == 3 ? 10 : i.t == 4 ? 15 : 0; }
static double more_queries_lse(at i) { return i.t == 3 ? 0 : i.t == 4 ? log(2) : -INFINITY; }

/* ---- range ---- */
static double very_negative_k(at i) { return i.t == 0 ? -1914.0625 : -1953.125; }
SM(r1_v, 41, 1)
static double r1_o(at i) { return (double)sm(41, (uint64_t)i.d); }
static double r1_lse(at i) { return (void)i, -245000 / sqrt(128); }
static double r3_qk(at i) { return (void)i, 133120; }
static double one_three(at i) { return i.t == 0 ? 1 : 3; }
static double two(at i) { return (void)i, 2; }
static double r3_lse(at i) { return (void)i, 133120.0 * 133120 * 8 + log(2); }
static double five_hundred(at i) { return (void)i, 500; }
static double minus_hundred(at i) { return (void)i, -100; }
static double r5_lse(at i) { return -2e5 + log((double)i.t + 1); }
static double r6_q(at i) {
  return i.t == 3 && i.h == 1 && i.d == 5 ? (double)NAN : (double)sm(43, (uint64_t)i.flat);
}
SM(r6_k, 44, 1)
SM(r6_v, 45, 1)
static double r8_k(at i) {
  static const double k[] = {0, -87, -87.5, -88, -88.1, -88.5, -100, -103.9, -104, -1000};
  return k[i.t];
}
static double r8_v(at i) { return i.t == 9 ? 1e38 : i.t == 0 ? 1 : 0; }
static double r11_k(at i) { return i.t == 0 && i.d == 0 ? (double)INFINITY : 0; }
static double nan_everywhere(at i) { return (void)i, (double)NAN; }

/* ---- scale ---- */
SM(s7_q, 57, 2)
SM(s7_k, 58, 2)
SM(s7_v, 59, 1)
SM(s8_q, 60, 8)
SM(s8_k, 61, 8)

/* ---- heads ---- */
static double head_number(at i) { return (double)i.h + 1; }
static double kv_head_number(at i) { return (double)(i.h / 2) + 1; }

/* ---- tails ---- */
static double t1_q(at i) { return i.d >= 64 ? 1 : 0; }
static double t1_k(at i) { return i.d < 64 ? 0 : i.t == 0 ? 1 : -1; }
static double t1_v(at i) { return i.t == 0 ? 1 + (double)i.d : 0; }
static double t1_o(at i) { return (1 + (double)i.d) / (1 + exp(-128 / sqrt(128))); }
SM(t3_q, 67, 0.5)
SM(t3_k, 68, 0.5)
SM(t3_v, 69, 1)
SM(t5_q, 73, 1)
SM(t5_k, 74, 1)
static double t5_v(at i) { return 100 * (double)i.t + (double)i.d; }
SM(t6_q, 75, 1)
SM(t6_k, 76, 1)
SM(t6_v, 77, 1)
SM(t8_q, 78, 1)
SM(t8_k, 79, 1)
SM(t8_v, 80, 1)
SM(t10_q, 84, 1)
SM(t10_k, 85, 1)

/* ---- layout (the strides themselves are in test_layout.c), rows that follow ---- */
SM(l1_q, 91, 1)
SM(l1_k, 92, 1)
SM(l1_v, 93, 1)
SM(p1_q, 131, 1)
SM(p1_k, 132, 1)
SM(p1_v, 133, 1)

#define DEFAULT_SCALE false, 0
#define NO_FIGURES NAN, NAN

static const hand_case cases[] = {
    {"one query after a cache sees all of it",
     "pytorch/pytorch#103082",
     {1, 1, 1, 1, 8, 4, 4},
     zero,
     zero,
     key_index,
     DEFAULT_SCALE,
     14.0,
     2.07944154168,
     three_and_half,
     NULL},
    {"more queries than keys stay bottom-right aligned",
     "ml-explore/mlx#2967",
     {1, 1, 1, 5, 2, 4, 4},
     zero,
     zero,
     ten_more,
     DEFAULT_SCALE,
     100.0,
     0.69314718056,
     more_queries_o,
     more_queries_lse},
    {"no keys at all",
     "Dao-AILab/flash-attention#978",
     {1, 1, 1, 3, 0, 4, 4},
     zero,
     zero,
     key_index,
     DEFAULT_SCALE,
     0.0,
     -INFINITY,
     zero,
     minus_infinity},
    {"scores far below zero",
     "flashinfer-ai/flashinfer#4267",
     {1, 1, 1, 1, 64, 128, 128},
     one,
     very_negative_k,
     r1_v,
     DEFAULT_SCALE,
     -5.72648489475,
     -21655.1451738,
     r1_o,
     r1_lse},
    {"scores near 1e11 that tie",
     "pytorch/pytorch#121558",
     {1, 1, 1, 1, 2, 64, 64},
     r3_qk,
     r3_qk,
     one_three,
     DEFAULT_SCALE,
     128.0,
     141767475201.0,
     two,
     r3_lse},
    {"scores below what others write for hidden keys",
     "TransformerLensOrg/TransformerLens#319",
     {1, 1, 1, 4, 4, 4, 4},
     five_hundred,
     minus_hundred,
     key_index,
     true,
     1.0f,
     12.0,
     -199998.613706,
     half_row,
     r5_lse},
    {"a NaN query touches its row alone",
     "pytorch/pytorch#141128",
     {1, 2, 2, 6, 6, 8, 8},
     r6_q,
     r6_k,
     r6_v,
     DEFAULT_SCALE,
     1.55137158573,
     1.6438057824,
     NULL,
     NULL},
    {"exp of scores from -87 down",
     "VcDevel/Vc#273",
     {1, 1, 1, 1, 10, 1, 1},
     one,
     r8_k,
     r8_v,
     true,
     1.0f,
     1.0,
     0.0,
     one,
     zero},
    {"an infinite score",
     "ikawrakow/ik_llama.cpp#1910",
     {1, 1, 1, 2, 2, 4, 4},
     one,
     r11_k,
     key_index,
     DEFAULT_SCALE,
     0.0,
     NAN,
     nan_everywhere,
     nan_everywhere},
    {"negative scale",
     "pytorch/pytorch#105202",
     {1, 2, 2, 3, 3, 8, 8},
     s7_q,
     s7_k,
     s7_v,
     true,
     -0.5f,
     1.96416650537,
     4.73290007701,
     NULL,
     NULL},
    {"scale 0 means uniform weights",
     "fla-org/flash-linear-attention#47",
     {1, 1, 1, 4, 4, 16, 16},
     s8_q,
     s8_k,
     key_index,
     true,
     0.0f,
     48.0,
     1.38629436112,
     half_row,
     log_visible},
    {"scale -1 means -1",
     "fla-org/flash-linear-attention#47",
     {1, 1, 1, 4, 4, 16, 16},
     s8_q,
     s8_k,
     key_index,
     true,
     -1.0f,
     NO_FIGURES,
     NULL,
     NULL},
    {"query heads repeat, not tile, the kv heads",
     "ekzhang/jax-js#180",
     {1, 4, 2, 1, 1, 4, 4},
     zero,
     zero,
     head_number,
     DEFAULT_SCALE,
     24.0,
     0.0,
     kv_head_number,
     zero},
    {"all 128 channels count",
     "triton-lang/triton#621",
     {1, 1, 1, 1, 2, 128, 128},
     t1_q,
     t1_k,
     t1_v,
     DEFAULT_SCALE,
     8255.89924115,
     5.65686645389,
     t1_o,
     NULL},
    {"wide heads",
     "flashinfer-ai/flashinfer#3297",
     {1, 2, 2, 4, 4, 512, 512},
     t3_q,
     t3_k,
     t3_v,
     DEFAULT_SCALE,
     -21.9723391328,
     1.44225021484,
     NULL,
     NULL},
    {"wide heads: 257",
     "",
     {1, 2, 2, 4, 4, 257, 257},
     t3_q,
     t3_k,
     t3_v,
     DEFAULT_SCALE,
     NO_FIGURES,
     NULL,
     NULL},
    {"wide heads: 576 and 512",
     "",
     {1, 2, 2, 4, 4, 576, 512},
     t3_q,
     t3_k,
     t3_v,
     DEFAULT_SCALE,
     NO_FIGURES,
     NULL,
     NULL},
    {"wide heads: 1024",
     "",
     {1, 2, 2, 4, 4, 1024, 1024},
     t3_q,
     t3_k,
     t3_v,
     DEFAULT_SCALE,
     NO_FIGURES,
     NULL,
     NULL},
    {"value size above head size",
     "lucidrains/flash-attention-jax#15",
     {1, 2, 2, 5, 5, 6, 11},
     t5_q,
     t5_k,
     t5_v,
     DEFAULT_SCALE,
     12212.4106066,
     1.40085443304,
     NULL,
     NULL},
    {"value size below head size",
     "lucidrains/flash-attention-jax#15",
     {1, 2, 2, 5, 5, 11, 6},
     t5_q,
     t5_k,
     t5_v,
     DEFAULT_SCALE,
     NO_FIGURES,
     NULL,
     NULL},
    {"value size 1",
     "lucidrains/flash-attention-jax#15",
     {1, 2, 2, 5, 5, 3, 1},
     t5_q,
     t5_k,
     t5_v,
     DEFAULT_SCALE,
     NO_FIGURES,
     NULL,
     NULL},
    {"rows of three",
     "google/XNNPACK#1003",
     {1, 1, 1, 3, 3, 3, 3},
     t6_q,
     t6_k,
     t6_v,
     DEFAULT_SCALE,
     NO_FIGURES,
     NULL,
     NULL},
    {"nine rows of 16",
     "PaddlePaddle/Paddle#19487",
     {1, 1, 1, 9, 9, 16, 16},
     t8_q,
     t8_k,
     t8_v,
     DEFAULT_SCALE,
     -3.04640937101,
     2.24427948685,
     NULL,
     NULL},
    {"39 keys",
     "pytorch/pytorch#169222",
     {1, 1, 1, 1, 39, 64, 64},
     t10_q,
     t10_k,
     one,
     DEFAULT_SCALE,
     64.0,
     3.75976260837,
     one,
     NULL},
    {"two heads of six rows",
     "pytorch/pytorch#187506",
     {1, 2, 2, 6, 6, 8, 8},
     l1_q,
     l1_k,
     l1_v,
     DEFAULT_SCALE,
     4.3120219983,
     2.07559638852,
     NULL,
     NULL},
    {"a chunk of twelve rows after twenty keys",
     "ml-explore/mlx#3573",
     {1, 4, 4, 12, 32, 64, 64},
     p1_q,
     p1_k,
     p1_v,
     DEFAULT_SCALE,
     -11.5329749419,
     3.57809602295,
     NULL,
     NULL},
};

static void fill(float *a, int64_t B, int64_t H, int64_t T, int64_t D, formula f) {
  int64_t n = 0;
  for (int64_t b = 0; b < B; b++)
    for (int64_t h = 0; h < H; h++)
      for (int64_t t = 0; t < T; t++)
        for (int64_t d = 0; d < D; d++, n++) a[n] = (float)f((at){b, h, t, d, n});
}

static problem build(const hand_case *c) {
  problem p = problem_new(c->s);
  fill(p.q, c->s.batch, c->s.q_heads, c->s.q_len, c->s.head_size, c->q);
  fill(p.k, c->s.batch, c->s.kv_heads, c->s.kv_len, c->s.head_size, c->k);
  fill(p.v, c->s.batch, c->s.kv_heads, c->s.kv_len, c->s.value_size, c->v);
  p.params.has_scale = c->has_scale;
  p.params.scale = c->scale;
  return p;
}

static void closed_forms(const hand_case *c, const problem *p, const oracle_result *r) {
  shape s = c->s;
  int64_t row = 0;
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t h = 0; h < s.q_heads; h++)
      for (int64_t t = 0; t < s.q_len; t++, row++) {
        if (c->lse) {
          double want = c->lse((at){b, h, t, 0, row});
          CHECK(oracle_error((double)p->lse[row], want, r->lse_unit[row]) <= 4);
        }
        for (int64_t d = 0; c->o && d < s.value_size; d++) {
          int64_t n = row * s.value_size + d;
          CHECK(oracle_error((double)p->o[n], c->o((at){b, h, t, d, n}), r->unit[row]) <= 8);
        }
      }
}

/* The two figures that come from elsewhere, against the oracle: the inputs are the same. */
static void figures(const hand_case *c, const problem *p, const oracle_result *r) {
  double sum = 0, size = 1;
  for (size_t i = 0; i < p->o_count; i++)
    if (isfinite(r->o[i])) sum += r->o[i], size += fabs(r->o[i]);
  if (!isnan(c->out_sum)) CHECK_NEAR(sum, c->out_sum, 1e-10 * size);
  double last = r->lse[p->lse_count - 1];
  if (!isnan(c->lse_last)) CHECK_NEAR(last, c->lse_last, 1e-10 * (1 + fabs(last)));
}

static void run(const hand_case *c) {
  check_context("%s (%s)", c->name, c->report);
  problem p = build(c);
  for (int32_t threads = 1; threads <= 3; threads += 2) {
    problem_run_threads(&p, threads);
    problem_check(&p);
    oracle_result r = oracle_attention(&p.params, false);
    closed_forms(c, &p, &r);
    figures(c, &p, &r);
    oracle_free(&r);
  }
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) run(&cases[i]);
  return check_done();
}
