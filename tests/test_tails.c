/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Every head size, value size and length: right by the oracle, with q, k, v, o, lse and the
 * workspace each against an unreadable page, first on one side, then on the other. Inputs are
 * read-only for the call. */

#include "guard.h"
#include "problem.h"
#include "random.h"
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 4001;

typedef struct fenced {
  guarded q, k, v, o, lse, workspace;
} fenced;

static guarded fence_input(const float *from, size_t count, guard_side side) {
  guarded g = guard_alloc(count * sizeof(float), side);
  memcpy(g.data, from, count * sizeof(float));
  guard_read_only(&g);
  return g;
}

static fenced fence(problem *p, guard_side side) {
  size_t workspace = 0;
  CHECK_OK(attn_workspace_size(&p->params, &workspace));
  fenced f = {fence_input(p->q, p->q_count, side),
              fence_input(p->k, p->k_count, side),
              fence_input(p->v, p->v_count, side),
              guard_alloc(p->o_count * sizeof(float), side),
              guard_alloc(p->lse_count * sizeof(float), side),
              guard_alloc(workspace, side)};
  attn_params *a = &p->params;
  a->q.data = f.q.data;
  a->k.data = f.k.data;
  a->v.data = f.v.data;
  a->o.data = f.o.data;
  a->lse.data = f.lse.data;
  a->workspace = f.workspace.data;
  a->workspace_size = workspace;
  canary_fill(f.o.data, p->o_count);
  canary_fill(f.lse.data, p->lse_count);
  memset(f.workspace.data, 0xff, workspace);
  return f;
}

static void unfence(fenced *f) {
  guarded *all[] = {&f->q, &f->k, &f->v, &f->o, &f->lse, &f->workspace};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    CHECK(guard_intact(all[i]));
    guard_free(all[i]);
  }
}

static void one(shape s, bool causal, int32_t threads) {
  problem p = problem_random(s, seed);
  p.params.causal = causal;
  p.params.has_num_threads = true;
  p.params.num_threads = threads;
  attn_params before = p.params;
  for (int side = GUARD_BEFORE; side <= GUARD_AFTER; side++) {
    check_context(SHAPE_FORMAT " %s, guards %s", SHAPE_VALUES(s), causal ? "causal" : "not causal",
                  side == GUARD_BEFORE ? "before" : "after");
    fenced f = fence(&p, (guard_side)side);
    CHECK_OK(attn_forward(NULL, &p.params));
    if (side == GUARD_BEFORE)
      problem_check(&p);
    else
      CHECK_BITS(p.params.o.data, p.o, p.o_count);
    memcpy(p.o, p.params.o.data, p.o_count * sizeof(float));
    unfence(&f);
    p.params = before;
  }
  problem_free(&p);
}

static void head_sizes(void) {
  for (int64_t d = 1; d <= 130; d += check_brief() ? 11 : 1) {
    one((shape){1, 1, 1, 1, 9, d, d}, true, 1);
    one((shape){1, 2, 1, 19, 19, d, d}, true, 2);
    one((shape){1, 1, 1, 7, 35, d, 131 - d}, false, 1); /* sizes are independent */
  }
}

static void lengths(void) {
  static const int64_t sizes[] = {3, 16, 33};
  for (int64_t t = 1; t <= 130; t += check_brief() ? 11 : 1) {
    for (int n = 0; n < 3; n++) one((shape){1, 1, 1, t, t, sizes[n], sizes[n]}, true, 1);
    one((shape){1, 2, 1, 1, t, 8, 8}, true, 1); /* one query after a cache */
    one((shape){1, 3, 3, t, 131 - t, 4, 5}, true, 2);
    one((shape){1, 1, 1, t, 12, 5, 4}, false, 1);
  }
}

/* Unequal head sizes, many lanes per key head, blocks and chunks of keys not filled, wide heads. */
static void others(void) {
  static const shape shapes[] = {
      {1, 2, 2, 5, 5, 6, 11},        {1, 2, 2, 5, 5, 11, 6},     {1, 1, 1, 4, 4, 3, 1},
      {2, 9, 3, 1, 5, 64, 64},       {1, 7, 7, 1, 13, 9, 5},     {1, 71, 1, 3, 20, 16, 16},
      {1, 1, 1, 3, 511, 8, 8},       {1, 1, 1, 3, 513, 8, 8},    {1, 2, 1, 2, 1537, 12, 20},
      {1, 1, 1, 385, 385, 8, 8},     {1, 2, 2, 4, 4, 512, 512},  {1, 1, 1, 5, 9, 257, 255},
      {1, 1, 1, 5, 9, 320, 320},     {1, 1, 1, 5, 9, 576, 512},  {1, 1, 1, 9, 9, 1024, 1024},
      {1, 2, 1, 40, 40, 1024, 1023}, {1, 1, 1, 33, 40, 1023, 1}, {1, 1, 1, 2, 40, 1, 1024},
      {3, 4, 2, 20, 31, 48, 40},     {1, 1, 1, 600, 600, 20, 20}};
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    one(shapes[i], true, 1);
    if (!check_brief()) one(shapes[i], false, 3);
  }
}

/* Every length right with NaN stored behind the last key, and between the rows. */
static void nan_behind(void) {
  enum { D = 20, STRIDE = 24, BEHIND = 64 };
  for (int64_t t = 1; t <= 130; t += check_brief() ? 11 : 1) {
    problem p = problem_random((shape){1, 1, 1, 3, t, D, D}, seed);
    size_t count = (size_t)((t + BEHIND) * STRIDE);
    float *k = check_floats(count), *v = check_floats(count);
    for (size_t i = 0; i < count; i++) k[i] = v[i] = NAN;
    for (int64_t j = 0; j < t; j++) {
      memcpy(k + j * STRIDE, p.k + j * D, D * sizeof(float));
      memcpy(v + j * STRIDE, p.v + j * D, D * sizeof(float));
    }
    p.params.k = (attn_input){k, 0, 0, STRIDE, 1};
    p.params.v = (attn_input){v, 0, 0, STRIDE, 1};
    for (int causal = 0; causal <= 1; causal++) {
      check_context("%lld keys, NaN behind them", (long long)t);
      p.params.causal = causal != 0;
      problem_run_threads(&p, 1);
      problem_check(&p);
    }
    free(k);
    free(v);
    problem_free(&p);
  }
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  head_sizes();
  lengths();
  others();
  nan_behind();
  return check_done();
}
