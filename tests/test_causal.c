/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Strict causality: what a query does not see changes no bit of its row, be it NaN or Inf; and
 * what it does see, it does see. */

#include "exact.h"
#include "golden.h"
#include "random.h"
#include <stdio.h>
#include <string.h>

static const uint64_t seed = 3001;

static const float poisons[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-42f};
enum { POISONS = sizeof(poisons) / sizeof(poisons[0]) };

static void poison_rows(float *a, int64_t groups, int64_t rows, int64_t dims, int64_t first,
                        float value) {
  for (int64_t g = 0; g < groups; g++)
    for (int64_t i = first * dims; i < rows * dims; i++) a[g * rows * dims + i] = value;
}

/* Rows [0, rows) of every head equal in bits. */
static void check_rows(const problem *p, const bits *want, int64_t rows) {
  for (int64_t bh = 0; bh < p->shape.batch * p->shape.q_heads; bh++) {
    int64_t row = bh * p->shape.q_len;
    CHECK_BITS(p->o + row * p->shape.value_size, want->o + row * p->shape.value_size,
               (size_t)(rows * p->shape.value_size));
    CHECK_BITS(p->lse + row, want->lse + row, (size_t)rows);
  }
}

/* Keys and values from `cut` on are poisoned: rows that see keys before `cut` only keep their bits,
 * the first row that sees the poisoned key does not. */
static void attention_cut(shape s, int64_t cut) {
  problem p = problem_random(s, seed);
  bits want = bits_of(&p, 2);
  int64_t blind = cut - (s.kv_len - s.q_len); /* rows that do not see key `cut` */
  if (blind < 0) blind = 0;
  for (int n = 0; n < POISONS; n++) {
    check_context(SHAPE_FORMAT " keys from %lld are %g, seed %llu", SHAPE_VALUES(s), (long long)cut,
                  (double)poisons[n], (unsigned long long)seed);
    poison_rows(p.k, s.batch * s.kv_heads, s.kv_len, s.head_size, cut, poisons[n]);
    poison_rows(p.v, s.batch * s.kv_heads, s.kv_len, s.value_size, cut, poisons[n]);
    problem_run_threads(&p, 1 + n % 3);
    check_rows(&p, &want, blind);
    /* 3e38 may give a score of -1e38, hence a weight of 0, hence nothing to see. */
    if (blind < s.q_len && fabsf(poisons[n]) != 3e38f)
      CHECK(float_bits(p.o[blind * s.value_size]) != float_bits(want.o[blind * s.value_size]));
    if (isnan(poisons[n]) && blind < s.q_len) {
      CHECK_INT(float_bits(p.o[blind * s.value_size]), 0x7fc00000);
      CHECK_INT(float_bits(p.lse[blind]), 0x7fc00000);
    }
  }
  bits_free(&want);
  problem_free(&p);
}

static void attention(void) {
  static const int64_t cuts[] = {1, 2, 7, 8, 15, 16, 17, 31, 63, 64, 127, 128, 129, 255, 257};
  for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i += check_brief() ? 4 : 1) {
    attention_cut((shape){1, 2, 1, 260, 260, 16, 24}, cuts[i]);
    attention_cut((shape){1, 1, 1, 60, 300, 8, 8}, 240 + cuts[i] % 60);
  }
  attention_cut((shape){1, 4, 2, 9, 1030, 32, 32}, 1025);
  attention_cut((shape){1, 1, 1, 530, 530, 32, 32}, 513);
  attention_cut((shape){1, 1, 1, 530, 530, 32, 32}, 511);
}

/* Only values poisoned, behind weights that are exactly 0 for being unseen. */
static void values_alone(void) {
  shape s = {1, 1, 1, 50, 50, 8, 8};
  problem p = problem_random(s, seed);
  bits want = bits_of(&p, 1);
  for (int64_t cut = 1; cut < s.kv_len; cut++) {
    problem_fill(&p, seed, 2);
    poison_rows(p.v, 1, s.kv_len, s.value_size, cut, cut % 2 ? INFINITY : NAN);
    check_context("values from %lld are not finite", (long long)cut);
    problem_run_threads(&p, 1);
    check_rows(&p, &want, cut);
    CHECK(isnan(p.o[cut * s.value_size]) || isinf(p.o[cut * s.value_size]));
    CHECK_BITS(p.lse, want.lse, p.lse_count);
  }
  bits_free(&want);
  problem_free(&p);
}

/* The worked example: prefix means, exactly; and a changed last row changes no earlier bit. */
static void worked_example(void) {
  float y[2][6], want[2][6];
  static const char *const files[] = {"nnx_example", "nnx_example_changed"};
  for (int n = 0; n < 2; n++) {
    check_context("%s", files[n]);
    golden_layer g = golden_layer_open(files[n]);
    attn_layer *layer = NULL;
    CHECK_OK(attn_layer_create_from_file(&g.config, g.params, NULL, true, &layer));
    attn_layer_params p = golden_layer_params(&g, y[n]);
    CHECK_OK(attn_layer_forward(NULL, layer, &p));
    float *expected = golden_floats(g.file, "expected");
    memcpy(want[n], expected, sizeof(want[n]));
    free(expected);
    attn_layer_destroy(layer);
    golden_layer_close(&g);
  }
  CHECK_BITS(y[0], want[0], 6);
  CHECK_BITS(y[1], y[0], 4);
  CHECK_NEAR((double)y[1][4], (double)want[1][4], 1e-5);
  CHECK_NEAR((double)y[1][5], (double)want[1][5], 1e-5);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  worked_example();
  attention();
  values_alone();
  return check_done();
}
