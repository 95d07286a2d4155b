/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Batches of unequal sequences: what they are apart from how they lie in memory, and ways to lay them out
 * and to ask for their rows. */
#ifndef ATTN_TESTS_RAGGED_H
#define ATTN_TESTS_RAGGED_H

#include "guard.h"
#include "problem.h"

enum { RAGGED_MOST = 8 }; /* sequences */

/* Every element follows from the seed and its logical place, so that all layouts hold the same. */
typedef struct ragged {
  uint64_t seed;
  int64_t batch, q_heads, kv_heads, head_size, value_size;
  int64_t q_len[RAGGED_MOST], kv_len[RAGGED_MOST];
  int64_t kv_begin[RAGGED_MOST]; /* keys before it are gone */
  int64_t prefix;                /* so many first keys are the same in all sequences */
  bool causal, has_scale;
  float scale;
  double rate;   /* of dropout */
  bool recorded; /* by a mask, not by the generator */
  bool alone;    /* by one thread, where a call and not a plan's tasks do the work */
} ragged;

/* Rows and their places in dense results: (head, row, dim) of one sequence behind the other. */
int64_t ragged_rows(const ragged *r);
int64_t ragged_row(const ragged *r, int64_t n, int64_t head, int64_t row);
/* Multiply-adds, causality not counted, and what it costs to lay the keys out. */
double ragged_cost(const ragged *r);

/* What one call is asked for: rows [begin, end) of some sequences, with the keys that there were when these
 * rows were the last. */
typedef struct part {
  int64_t count;
  int64_t n[RAGGED_MOST], begin[RAGGED_MOST], end[RAGGED_MOST];
} part;

part part_all(const ragged *r);

/* Numbers below a bound, one after the other; all 0 when there is no seed. */
typedef struct draws {
  uint64_t seed, count;
} draws;
int64_t pick(draws *d, int64_t bound);

/* Arrays of a call. What is no element of the part holds the canary, which is a NaN, or lies behind pages that
 * fault: reading it shows in the result. */
typedef struct laid {
  const ragged *r;
  part p;
  attn_params params;
  guarded memory[16];
  int count;
  guarded *o, *lse;
  int64_t keys[RAGGED_MOST], kv_begin[RAGGED_MOST], pad[RAGGED_MOST];
  char text[160]; /* how it lies */
} laid;

/* Draws a layout; without a seed, the plainest there is. */
void laid_make(laid *l, const ragged *r, const part *p, draws *d);
/* Moves what was computed to its places in dense results, and checks that nothing else was written. */
void laid_take(laid *l, float *o, float *lse);
void laid_free(laid *l);

#endif
