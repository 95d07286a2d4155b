/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The promise of one order of arithmetic: the bits of a row depend on that row's inputs alone.
 * Not on threads, batch mates, other heads, how many rows follow, how the queries are cut into
 * calls, who runs the tasks in which order, the instruction set, or who computes the exponential. */

#include "exact.h"
#include "random.h"
#include <stdio.h>
#include <string.h>

static const uint64_t seed = 2001;

/* Short and long, few rows over many keys (more than one chunk of the merge tree), groups, unequal sizes. */
static const shape shapes[] = {
    {1, 2, 1, 37, 37, 16, 16},   {2, 4, 2, 130, 130, 32, 32}, {1, 3, 3, 300, 300, 24, 40},
    {1, 1, 1, 40, 1300, 64, 64}, {1, 8, 2, 5, 700, 64, 64},   {2, 1, 1, 1, 2100, 32, 32},
    {1, 2, 2, 600, 600, 64, 64}, {1, 6, 2, 50, 20, 8, 8},     {1, 1, 1, 3, 4700, 16, 16},
    {1, 2, 2, 33, 1025, 7, 5},   {1, 4, 1, 2, 9000, 64, 64},  {1, 1, 1, 20, 513, 300, 260}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static void threads_and_repeats(problem *p, const bits *want) {
  static const int32_t counts[] = {3, 1, 2, 7};
  for (size_t i = 0; i < (check_brief() ? 1 : 4); i++) {
    problem_run_threads(p, counts[i]);
    CHECK_SAME(p, want);
  }
  p->params.has_num_threads = false;
  problem_run(p);
  CHECK_SAME(p, want);
}

/* Calls of `sizes[0]`, `sizes[1]`, ... queries, round and round. */
static void split(problem *p, const bits *want, const int64_t *sizes, size_t count) {
  canary_fill(p->o, p->o_count);
  canary_fill(p->lse, p->lse_count);
  int64_t begin = 0;
  for (size_t n = 0; begin < p->params.q_len; n++) {
    int64_t end = begin + sizes[n % count];
    if (end > p->params.q_len) end = p->params.q_len;
    attn_params part = problem_rows(p, begin, end);
    if (part.kv_len < 0) part.kv_len = 0; /* rows that see no key */
    part.has_num_threads = true;
    part.num_threads = 1 + (int32_t)(n % 3);
    CHECK_OK(attn_forward(NULL, &part));
    begin = end;
  }
  CHECK_SAME(p, want);
}

static void splits(problem *p, const bits *want) {
  static const int64_t one[] = {1}, three[] = {3}, mixed[] = {17, 1, 64, 5}, big[] = {200, 2};
  split(p, want, mixed, 4);
  if (check_brief()) return;
  split(p, want, one, 1);
  split(p, want, three, 1);
  split(p, want, big, 2);
}

/* Tasks in random order, for that many runners, in a workspace that faults past its end. */
static void planned(problem *p, const bits *want, int32_t runners) {
  attn_params a = p->params;
  a.has_num_threads = true;
  a.num_threads = runners;
  attn_plan *plan = NULL;
  CHECK_OK(attn_plan_create(&a, &plan));
  if (!plan) return;
  int64_t count = attn_plan_task_count(plan);
  int64_t *order = check_alloc((size_t)count * sizeof(*order));
  uint64_t drawn = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t other = (int64_t)sm_below(seed + 5, &drawn, (uint64_t)i + 1);
    order[i] = order[other];
    order[other] = i;
  }
  size_t size = attn_plan_workspace_size(plan);
  void *workspace = check_alloc(size);
  /* A plan may be run again, also after half a run, and one in which a task ran too often: that comes first, when there
   * are no results of a whole run that could be taken for those of this. */
  for (int round = 0; round < 3; round++) {
    canary_fill(p->o, p->o_count);
    canary_fill(p->lse, p->lse_count);
    const int64_t done = round == 0 ? (count > 0 ? 5 : 0) : round == 1 ? count / 2 : 0;
    for (int64_t i = 0; i < done; i++)
      CHECK_OK(attn_plan_run_task(plan, round == 0 ? 0 : i, workspace, size));
    if (done > 0) attn_plan_reset(plan);
    for (int64_t i = 0; i < count; i++) {
      memset(workspace, 0xff, size); /* NaN: nothing may be expected in it */
      CHECK_OK(attn_plan_run_task(plan, order[i], workspace, size));
    }
    CHECK_SAME(p, want);
  }
  double cost = 0;
  for (int64_t i = 0; i < count; i++) cost += attn_plan_task_cost(plan, i);
  double pairs = (double)(p->o_count + p->q_count) * (double)p->params.kv_len;
  CHECK(cost >= 0 && cost < 1.2 * pairs);
  free(workspace);
  free(order);
  attn_plan_destroy(plan);
}

static void providers_and_sets(problem *p, const bits *want) {
  const char *home = attn_isa_name();
  CHECK_OK(attn_select(home, "sleef"));
  CHECK(strcmp(attn_exp_name(), "sleef") == 0);
  problem_run_threads(p, 2);
  CHECK_SAME(p, want);
  CHECK_OK(attn_select(home, "inline"));
  CHECK(strcmp(attn_exp_name(), "inline") == 0);
  for (int i = 0; isa_is_canonical(home) && attn_isa_compiled(i); i++) {
    const char *other = attn_isa_compiled(i);
    if (!isa_is_canonical(other) || !attn_isa_supported(other)) continue;
    CHECK_OK(attn_select(other, NULL));
    CHECK(strcmp(attn_isa_name(), other) == 0);
    problem_run_threads(p, 1);
    CHECK_SAME(p, want);
  }
  CHECK_OK(attn_select(home, NULL));
}

/* Every sequence of a batch, and every head, computed alone. */
static void batch_mates(shape s) {
  s.batch = 5;
  problem p = problem_random(s, seed);
  bits all = bits_of(&p, 3);
  canary_fill(p.o, p.o_count);
  canary_fill(p.lse, p.lse_count);
  for (int64_t b = 0; b < s.batch; b++) {
    attn_params a = p.params;
    a.batch = 1;
    params_move(&a, b, 0, 0, 0);
    CHECK_OK(attn_forward(NULL, &a));
  }
  CHECK_SAME(&p, &all);
  canary_fill(p.o, p.o_count);
  canary_fill(p.lse, p.lse_count);
  for (int64_t h = 0; h < s.q_heads; h++) {
    attn_params a = p.params;
    a.q_heads = a.kv_heads = 1;
    params_move(&a, 0, h, h / (s.q_heads / s.kv_heads), 0);
    CHECK_OK(attn_forward(NULL, &a));
  }
  CHECK_SAME(&p, &all);
  bits_free(&all);
  problem_free(&p);
}

/* Half of the value columns alone: they do not know of each other. */
static void value_columns(problem *p, const bits *want) {
  int64_t all = p->params.value_size, some = (all + 1) / 2;
  canary_fill(p->o, p->o_count);
  for (int64_t first = 0; first < all; first += some) {
    attn_params a = p->params;
    a.value_size = first + some <= all ? some : all - first;
    a.v.data = p->v + first;
    a.o.data = p->o + first;
    CHECK_OK(attn_forward(NULL, &a));
  }
  CHECK_BITS(p->o, want->o, p->o_count);
}

/* Digests of the bits that all instruction sets with FMA, on all machines, agree on: causal, and
 * not. A change of the canonical arithmetic changes them; then, and only then, the file is written
 * anew: test_exact --isa avx2 --digests > digests.inc */
static const uint64_t digests[SHAPES][2] = {
#include "digests.inc"
};

static uint64_t digest_of(problem *p) {
  problem_run_threads(p, 1);
  return digest(digest(DIGEST_START, p->o, p->o_count), p->lse, p->lse_count);
}

static void recorded(bool print) {
  for (int n = 0; n < SHAPES; n++) {
    problem p = problem_random(shapes[n], seed);
    uint64_t causal = digest_of(&p);
    p.params.causal = false;
    uint64_t all = digest_of(&p);
    if (print)
      printf("{0x%016llx, 0x%016llx},\n", (unsigned long long)causal, (unsigned long long)all);
    else
      CHECK(causal == digests[n][0] && all == digests[n][1]);
    problem_free(&p);
  }
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  if (argc == 2 && strcmp(argv[1], "--digests") == 0) {
    recorded(true);
    return 0;
  }
  if (isa_is_canonical(attn_isa_name())) recorded(false);
  for (int n = 0; n < SHAPES; n++) {
    for (int causal = 1; causal >= (check_brief() ? 1 : 0); causal--) {
      problem p = problem_random(shapes[n], seed);
      p.params.causal = causal != 0;
      bits want = bits_of(&p, 1);
      check_context(SHAPE_FORMAT "%s seed %llu", SHAPE_VALUES(shapes[n]), causal ? " causal" : "",
                    (unsigned long long)seed);
      threads_and_repeats(&p, &want);
      splits(&p, &want);
      if (!check_brief()) planned(&p, &want, 1);
      planned(&p, &want, 5);
      if (!check_brief()) planned(&p, &want, 2), planned(&p, &want, 32);
      value_columns(&p, &want);
      providers_and_sets(&p, &want);
      bits_free(&want);
      problem_free(&p);
    }
    if (!check_brief() || n % 3 == 0) batch_mates(shapes[n]);
  }
  return check_done();
}
