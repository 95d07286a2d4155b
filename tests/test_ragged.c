/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Random batches of unequal sequences: prompts, chunks of prompts and decodes, in all the ways in which
 * lengths and pages can say where they lie. Each is compared with the oracle, and bit for bit with other
 * ways to ask for the same: other layouts, single sequences, a few rows at a time, plans cut for more
 * threads than there are, tasks in any order, the smallest workspace, other instruction sets.
 *
 * usage: test_ragged [--isa NAME] [--full] [--brief] [CASE [COUNT]] */

#include "exact.h"
#include "ragged.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 7001;

/* ---- cases ---- */

/* One of the list; or near it. */
#define ONE_OF(d, list) list[pick(d, (int64_t)(sizeof(list) / sizeof(list[0])))]

static int64_t around(draws *d, int64_t n) { return n - 1 + pick(d, 3); }

/* Around the ends of blocks and chunks of keys, and in between. */
static int64_t any_len(draws *d) {
  static const int64_t ends[] = {128, 256, 384, 512, 1024, 1536, 2048};
  switch (pick(d, 6)) {
  case 0: return pick(d, 3);
  case 1: return pick(d, 20);
  case 2: return pick(d, 130);
  case 3: return pick(d, 2600);
  default: return around(d, ONE_OF(d, ends));
  }
}

static void sizes(ragged *r, draws *d) {
  static const int64_t common[] = {64, 32, 128, 16, 80},
                       odd[] = {1, 3, 5, 7, 8, 13, 17, 31, 33, 65},
                       long_heads[] = {255, 256, 257, 300};
  r->head_size = pick(d, 2) ? ONE_OF(d, common) : ONE_OF(d, odd);
  r->value_size = pick(d, 2) ? r->head_size : pick(d, 2) ? ONE_OF(d, common) : ONE_OF(d, odd);
  if (pick(d, 12) == 1) r->head_size = ONE_OF(d, long_heads);
  if (pick(d, 20) == 1) r->value_size = ONE_OF(d, long_heads);
}

/* Few rows over many keys. */
static void decode(ragged *r, int64_t n, draws *d) {
  r->q_len[n] = pick(d, 8) == 1 ? 0 : 1;
  r->kv_len[n] = any_len(d);
}

/* A chunk of a prompt, after what came before it. */
static void chunk(ragged *r, int64_t n, draws *d) {
  r->q_len[n] = 2 + pick(d, pick(d, 2) ? 60 : 6);
  r->kv_len[n] = r->q_len[n] + any_len(d);
}

static void prompt(ragged *r, int64_t n, draws *d) {
  r->q_len[n] = r->kv_len[n] = pick(d, 2) ? pick(d, 300) : any_len(d);
}

/* More rows than keys, nothing at all: whatever comes. */
static void whatever(ragged *r, int64_t n, draws *d) {
  r->q_len[n] = pick(d, 3) ? pick(d, 40) : 0;
  r->kv_len[n] = pick(d, 3) ? pick(d, 40) : any_len(d);
}

/* As many lanes as make the kernel for few rows, one tile, two of them; and one more or less. */
static void seam(ragged *r, draws *d) {
  static const int64_t lanes[] = {11, 12, 13, 15, 16, 17, 23, 24, 25, 47, 48, 49, 33, 3};
  const int64_t want = ONE_OF(d, lanes);
  int64_t group = 1 + pick(d, want);
  while (want % group != 0) group--;
  r->batch = 1 + pick(d, 2);
  r->kv_heads = 1 + pick(d, 2);
  r->q_heads = group * r->kv_heads;
  for (int64_t n = 0; n < r->batch; n++) {
    r->q_len[n] = want / group;
    r->kv_len[n] = pick(d, 2) ? r->q_len[n] + pick(d, 100) : any_len(d);
  }
}

static void sequences(ragged *r, draws *d) {
  static const int64_t groups[] = {1, 1, 2, 3, 4, 7, 8, 16};
  const int64_t kind = pick(d, 8);
  if (kind == 0) {
    seam(r, d);
    return;
  }
  r->batch = 1 + pick(d, RAGGED_MOST);
  r->kv_heads = 1 + pick(d, 3);
  r->q_heads = r->kv_heads * ONE_OF(d, groups);
  for (int64_t n = 0; n < r->batch; n++) {
    if (kind <= 3 || (kind == 4 && n > 0))
      decode(r, n, d);
    else if (kind <= 5)
      chunk(r, n, d);
    else if (kind == 6)
      prompt(r, n, d);
    else
      whatever(r, n, d);
  }
}

/* Keys that are gone: up to anywhere, all of them, or up to just behind the start of a block. */
static int64_t first_left(int64_t kv_len, draws *d) {
  const int64_t near = pick(d, kv_len / 128 + 1) * 128 + pick(d, 9);
  switch (pick(d, 5)) {
  case 0: return kv_len;
  case 1: return pick(d, kv_len + 1);
  default: return near < kv_len ? near : kv_len;
  }
}

static void options(ragged *r, draws *d) {
  static const float scales[] = {0.25f, -0.3f, 0, 1, 0.1f};
  static const double rates[] = {0.25, 0.5, 0.9, 1};
  r->causal = pick(d, 4) != 1;
  r->has_scale = pick(d, 2);
  r->scale = ONE_OF(d, scales);
  r->recorded = pick(d, 2);
  r->rate = pick(d, 4) == 1 ? ONE_OF(d, rates) : 0;
  r->prefix = pick(d, 2) * pick(d, 600);
  const bool gone = pick(d, 3) == 1;
  for (int64_t n = 0; n < r->batch && gone; n++)
    if (pick(d, 3)) r->kv_begin[n] = first_left(r->kv_len[n], d);
}

/* So many keys that they are read as from memory, not as from a cache: by whole chunks, parts of them, any sizes. */
static ragged draw_long(draws *d) {
  static const int64_t size[] = {128, 128, 64, 40, 7, 300};
  ragged r = {.seed = splitmix64(d->seed, d->count)};
  r.batch = pick(d, 3) ? 1 + pick(d, 2) : RAGGED_MOST;
  r.head_size = ONE_OF(d, size);
  r.value_size = pick(d, 2) ? r.head_size : ONE_OF(d, size);
  r.kv_heads = r.head_size + r.value_size > 128 ? 2 : 8;
  r.q_heads = r.kv_heads * (1 + pick(d, 5));
  const int64_t keys = (6 << 20) / 4 / (r.kv_heads * (r.head_size + r.value_size));
  for (int64_t n = 0; n < r.batch; n++) {
    r.q_len[n] = 1 + pick(d, 2) * pick(d, 8);
    r.kv_len[n] = keys / r.batch + pick(d, 600);
  }
  options(&r, d);
  for (int64_t n = 0; n < r.batch; n++) r.kv_begin[n] %= pick(d, 2) ? 40 : 600;
  return r;
}

/* So many rows that a task takes its tiles in several bands, which share packed keys; of large sizes not all of them. */
static ragged draw_bands(draws *d) {
  static const int64_t size[] = {16, 40, 7, 300};
  ragged r = {.seed = splitmix64(d->seed, d->count), .alone = true};
  attn_tile_sizes tile = {0};
  CHECK(attn_isa_tile_sizes(attn_isa_name(), &tile));
  const bool large = pick(d, 2);
  r.batch = large ? 1 : 1 + pick(d, 2);
  r.head_size = large ? 300 : ONE_OF(d, size);
  r.value_size = large || pick(d, 2) ? r.head_size : ONE_OF(d, size);
  r.kv_heads = large ? 1 : 1 + pick(d, 2);
  r.q_heads = r.kv_heads * (1 + pick(d, 8));
  for (int64_t n = 0; n < r.batch; n++) {
    const int64_t lanes = (17 + pick(d, large ? 2 : 20)) * tile.lanes - pick(d, tile.lanes);
    r.q_len[n] = lanes * r.kv_heads / r.q_heads;
    r.kv_len[n] = large        ? 780 + pick(d, 300)
                  : pick(d, 3) ? r.q_len[n] + pick(d, 400)
                               : 1 + pick(d, 1200);
  }
  options(&r, d);
  return r;
}

/* The first of the draws that is no more work than that. */
static ragged draw_case(draws *d, double most) {
  for (;;) {
    ragged r = {.seed = splitmix64(d->seed, d->count)};
    sequences(&r, d);
    sizes(&r, d);
    options(&r, d);
    if (ragged_cost(&r) <= most) return r;
  }
}

/* ---- results ---- */

typedef struct results {
  float *o, *lse;
  size_t o_count, lse_count;
} results;

static results results_new(const ragged *r) {
  results x = {.lse_count = (size_t)ragged_rows(r)};
  x.o_count = x.lse_count * (size_t)r->value_size;
  x.o = check_floats(x.o_count);
  x.lse = check_floats(x.lse_count);
  canary_fill(x.o, x.o_count);
  canary_fill(x.lse, x.lse_count);
  return x;
}

static void results_free(results *x) {
  free(x->o);
  free(x->lse);
}

static void same(const results *got, const results *want) {
  CHECK_BITS(got->o, want->o, want->o_count);
  CHECK_BITS(got->lse, want->lse, want->lse_count);
}

static void context(int64_t number, const ragged *r, const char *how, const laid *l) {
  check_context("case %lld, %s: H%lld/%lld D%lld Dv%lld%s rate %g%s scale %g, "
                "sequence 0: %lld rows, %lld keys from %lld; %s",
                (long long)number, how, (long long)r->q_heads, (long long)r->kv_heads,
                (long long)r->head_size, (long long)r->value_size, r->causal ? " causal" : "",
                r->rate, r->recorded ? " recorded" : "", r->has_scale ? (double)r->scale : NAN,
                (long long)r->q_len[0], (long long)r->kv_len[0], (long long)r->kv_begin[0],
                l->text);
}

/* ---- ways to run a call ---- */

/* By the library's threads, in scratch memory of its own or in exactly what it asks for. */
static void run_forward(laid *l, draws *d) {
  attn_params *a = &l->params;
  guarded workspace = {0};
  a->has_num_threads = true;
  a->num_threads = l->r->alone ? 1 : (int32_t)(1 + pick(d, 4));
  const bool own = pick(d, 2);
  if (own) {
    CHECK_OK(attn_workspace_size(a, &a->workspace_size));
    workspace = guard_alloc(a->workspace_size, GUARD_AFTER);
    memset(workspace.data, 0xff, a->workspace_size); /* NaN: nothing may be expected in it */
    a->workspace = workspace.data;
  }
  CHECK_OK(attn_forward(NULL, a));
  if (own) CHECK(guard_intact(&workspace));
  if (own) guard_free(&workspace);
}

/* Task by task, in any order, cut for many runners. */
static void run_plan(laid *l, draws *d) {
  static const int32_t runners[] = {1, 2, 3, 5, 16, 64};
  l->params.has_num_threads = true;
  l->params.num_threads = ONE_OF(d, runners);
  attn_plan *plan = NULL;
  CHECK_OK(attn_plan_create(&l->params, &plan));
  if (!plan) return;
  const int64_t count = attn_plan_task_count(plan);
  int64_t *order = check_alloc((size_t)count * sizeof(*order));
  for (int64_t i = 0; i < count; i++) {
    const int64_t other = pick(d, i + 1);
    order[i] = order[other];
    order[other] = i;
  }
  guarded workspace = guard_alloc(attn_plan_workspace_size(plan), GUARD_AFTER);
  for (int64_t i = 0; i < count; i++) {
    if (i % 4 == 0) memset(workspace.data, 0xff, workspace.size);
    CHECK_OK(attn_plan_run_task(plan, order[i], workspace.data, workspace.size));
  }
  CHECK(guard_intact(&workspace));
  guard_free(&workspace);
  free(order);
  attn_plan_destroy(plan);
}

static void run_part(int64_t number, const ragged *r, const part *p, const char *how, draws *d,
                     results *to) {
  laid l;
  laid_make(&l, r, p, d);
  context(number, r, how, &l);
  if (pick(d, 2))
    run_plan(&l, d);
  else
    run_forward(&l, d);
  laid_take(&l, to->o, to->lse);
  laid_free(&l);
}

/* ---- ways to ask ---- */

/* The whole batch, in some layout, with the oracle's opinion. */
static results against_oracle(int64_t number, const ragged *r, draws *d) {
  results x = results_new(r);
  const part all = part_all(r);
  laid l;
  laid_make(&l, r, &all, d);
  context(number, r, "oracle", &l);
  const bool drawn = r->rate > 0 && !r->recorded; /* by a mask that the oracle does not know */
  oracle_result truth = {0};
  if (!drawn) truth = oracle_attention(&l.params, false); /* before o takes the place of q */
  run_forward(&l, d);
  if (!drawn) {
    /* Of many rows of long sums, the worst drift further than the golden data's bounds: by sqrt(n/2). */
    const double drift = r->head_size > 128 ? 2 : 1;
    CHECK_NEAR(oracle_worst_o(&l.params, &truth), 0.0, 8 * drift);
    CHECK_NEAR(oracle_worst_lse(&l.params, &truth), 0.0, 4 * drift);
    oracle_free(&truth);
  }
  laid_take(&l, x.o, x.lse);
  laid_free(&l);
  return x;
}

static void whole(int64_t number, const ragged *r, const results *want, draws *d) {
  const part all = part_all(r);
  results x = results_new(r);
  run_part(number, r, &all, "whole", d, &x);
  same(&x, want);
  results_free(&x);
}

/* On other instruction sets, and with the other exponential. */
static void elsewhere(int64_t number, const ragged *r, const results *want, draws *d) {
  const char *home = attn_isa_name();
  CHECK_OK(attn_select(home, "sleef"));
  whole(number, r, want, d);
  for (int i = 0; isa_is_canonical(home) && attn_isa_compiled(i); i++) {
    const char *other = attn_isa_compiled(i);
    if (!isa_is_canonical(other) || !attn_isa_supported(other) || strcmp(other, home) == 0)
      continue;
    CHECK_OK(attn_select(other, "inline"));
    whole(number, r, want, d);
  }
  CHECK_OK(attn_select(home, "inline"));
}

/* Every sequence alone, dense and without lengths wherever that can be. */
static void singles(int64_t number, const ragged *r, const results *want) {
  draws plain = {0, 0};
  results x = results_new(r);
  for (int64_t n = 0; n < r->batch; n++) {
    const part one = {.count = 1, .n = {n}, .begin = {0}, .end = {r->q_len[n]}};
    run_part(number, r, &one, "singles", &plain, &x);
  }
  same(&x, want);
  results_free(&x);
}

/* So many rows next, of those that are left. */
static int64_t next_rows(int64_t left, draws *d) {
  const int64_t some = pick(d, 4) == 0 ? pick(d, 2) : pick(d, 3) ? pick(d, 20) : left;
  return some < left ? some : left;
}

/* Calls for a few rows of each sequence, until all are done; in other orders where nothing depends on it. */
static void chunks(int64_t number, const ragged *r, const results *want, draws *d) {
  enum { ROUNDS = 6 };
  results x = results_new(r);
  part p = part_all(r);
  const bool fixed = r->rate > 0 && !r->recorded; /* by the number of the sequence */
  for (int64_t i = p.count - 1; i > 0 && !fixed; i--) {
    const int64_t other = pick(d, i + 1), n = p.n[i];
    p.n[i] = p.n[other];
    p.n[other] = n;
  }
  for (int64_t s = 0; s < p.count; s++) p.end[s] = 0;
  for (int round = 1; round <= ROUNDS; round++) {
    int64_t all = 0;
    for (int64_t s = 0; s < p.count; s++) {
      const int64_t left = r->q_len[p.n[s]] - p.end[s];
      p.begin[s] = p.end[s];
      p.end[s] += round == ROUNDS ? left : next_rows(left, d);
      all += left;
    }
    if (all == 0) break;
    run_part(number, r, &p, "chunks", d, &x);
  }
  same(&x, want);
  results_free(&x);
}

static void run_case(int64_t number) {
  draws d = {splitmix64(seed, (uint64_t)number) | 1, 0};
  const bool long_one = number % 20 == 9, bands = number % 30 == 14;
  const ragged r = long_one ? draw_long(&d)
                   : bands  ? draw_bands(&d)
                            : draw_case(&d, check_full() ? 8e6 : 2e6);
  const bool drawn = r.rate > 0 && !r.recorded;
  results want = against_oracle(number, &r, &d);
  whole(number, &r, &want, &d);
  if (!long_one) elsewhere(number, &r, &want, &d);
  if (!drawn) singles(number, &r, &want);
  /* The generator counts positions from the last row, which only causal calls have in common. */
  if (!drawn || r.causal) chunks(number, &r, &want, &d);
  results_free(&want);
}

/* ---- the smallest workspace ---- */

enum { BEHIND = 0x5c };

/* Memory of that size that begins a byte behind a boundary, so that aligning it leaves one byte to spare; behind it
 * a pattern, and then a page that faults. */
static guarded barely(size_t size, char **workspace) {
  const guarded g = guard_alloc(size + 63 - size % 64, GUARD_AFTER);
  *workspace = g.data;
  CHECK_INT((uintptr_t)*workspace % 64, 1);
  memset(*workspace, BEHIND, g.size);
  memset(*workspace, 0xff, size); /* NaN: nothing may be expected in it */
  return g;
}

static void untouched_behind(guarded *g, const char *workspace, size_t size) {
  for (size_t i = size; i < g->size; i++) CHECK_INT(workspace[i], BEHIND);
  guard_free(g);
}

/* A single tile of queries, whose first key lies inside a block: as forward and as plan. */
static void single_tile(int64_t value_size, bool padded) {
  enum { ROWS = 20, KEYS = 300, SIZE = 64 };
  const int32_t first = 127;
  problem p = problem_random((shape){1, 1, 1, ROWS, KEYS, SIZE, value_size}, 9100);
  attn_params *a = &p.params;
  char *workspace;
  check_context("a workspace with a byte to spare, values of %lld, %s", (long long)value_size,
                padded ? "left padding" : "the first keys gone");
  if (padded) a->lengths.left_padding = &first;
  if (!padded) a->lengths.kv_starts = &first;
  problem_run_threads(&p, 1);
  float *want = copy_floats(p.o, p.o_count);

  CHECK_OK(attn_workspace_size(a, &a->workspace_size));
  guarded g = barely(a->workspace_size, &workspace);
  a->workspace = workspace;
  problem_run(&p);
  CHECK_BITS(p.o, want, p.o_count);
  untouched_behind(&g, workspace, a->workspace_size);

  attn_plan *plan = NULL;
  CHECK_OK(attn_plan_create(a, &plan));
  const size_t size = attn_plan_workspace_size(plan);
  g = barely(size, &workspace);
  canary_fill(p.o, p.o_count);
  for (int64_t i = 0; i < attn_plan_task_count(plan); i++) {
    CHECK_OK(attn_plan_run_task(plan, i, workspace, size));
  }
  CHECK_BITS(p.o, want, p.o_count);
  untouched_behind(&g, workspace, size);
  attn_plan_destroy(plan);
  free(want);
  problem_free(&p);
}

static void single_tiles(void) {
  static const int64_t value_sizes[] = {1, 7, 16, 17, 48, 64, 100, 128, 200};
  for (size_t i = 0; i < sizeof(value_sizes) / sizeof(value_sizes[0]); i++) {
    single_tile(value_sizes[i], false);
    single_tile(value_sizes[i], true);
  }
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  int64_t first = argc > 1 ? atoll(argv[1]) : 0, count = argc > 2 ? atoll(argv[2]) : 1;
  if (argc == 1) count = check_brief() ? 40 : check_full() ? 500 : 120;
  printf("seed %llu, cases %lld ... %lld\n", (unsigned long long)seed, (long long)first,
         (long long)(first + count - 1));
  if (argc == 1) single_tiles();
  for (int64_t number = first; number < first + count; number++) run_case(number);
  return check_done();
}
