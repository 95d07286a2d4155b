/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* An attention problem with arrays of its own, so that a test says only what it is about. */
#ifndef ATTN_TESTS_PROBLEM_H
#define ATTN_TESTS_PROBLEM_H

#include "check.h"
#include "oracle.h"
#include <attn/attn.h>

typedef struct shape {
  int64_t batch, q_heads, kv_heads, q_len, kv_len, head_size, value_size;
} shape;

#define SHAPE_FORMAT "B%lld H%lld/%lld Tq%lld Tk%lld D%lld Dv%lld"
#define SHAPE_VALUES(s)                                                                            \
  (long long)(s).batch, (long long)(s).q_heads, (long long)(s).kv_heads, (long long)(s).q_len,     \
      (long long)(s).kv_len, (long long)(s).head_size, (long long)(s).value_size

/* All arrays are dense (batch, head, row, dim), as the views in `params` say; a test may point
 * these elsewhere. o and lse hold the canary until the problem is run. */
typedef struct problem {
  shape shape;
  attn_params params;
  float *q, *k, *v, *o, *lse;
  size_t q_count, k_count, v_count, o_count, lse_count;
} problem;

/* Value of an output that was not written: a NaN that the library never stores. */
#define CANARY_BITS 0x7fabcdefu

problem problem_new(shape s);
void problem_free(problem *p);

/* q, k, v from sm(seed), sm(seed + 1), sm(seed + 2), q times `factor`. */
void problem_fill(problem *p, uint64_t seed, double factor);
/* The usual thing: new and filled. */
problem problem_random(shape s, uint64_t seed);

void canary_fill(float *a, size_t count);
/* Whether all of it is still canary. */
bool canary_intact(const float *a, size_t count);

/* Runs it into fresh canaries and checks the status. Every element must have been written. */
void problem_run(problem *p);
/* The same with that many threads. */
void problem_run_threads(problem *p, int32_t threads);

/* Compares o and lse with the oracle: attention's tolerances. Returns the worst error of o. */
double problem_check(const problem *p);

/* Queries [begin, end) alone, with kv_len shortened so that a causal row sees the same keys:
 * writes into the same rows of o and lse. */
attn_params problem_rows(const problem *p, int64_t begin, int64_t end);

/* Makes all views of `a` begin at that sequence, heads and query row. */
void params_move(attn_params *a, int64_t batch, int64_t q_head, int64_t kv_head, int64_t row);

/* A copy of p's output to compare with later. */
float *copy_floats(const float *a, size_t count);

attn_input dense_input(const float *data, int64_t heads, int64_t rows, int64_t dims);
attn_output dense_output(float *data, int64_t heads, int64_t rows, int64_t dims);

#endif
