/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Values of few queries (rows.h). Part of attention.c. */
#ifndef ATTN_SIMD_ROW_VALUES_H
#define ATTN_SIMD_ROW_VALUES_H

#include "row_scores.h"

/* What is left to do of n keys of V, which are added to the sums of some rows. They are a few at a time, and all columns of
 * them, so what is not a multiply-add counts. */
typedef struct row_values {
  const float *weights; /* rows are SCORES_ROW apart */
  const float *v;
  int64_t v_row, n;
  float *sums;
  int64_t sums_row;
  int64_t vectors; /* of columns */
  streams *ahead;
} row_values;

V_INLINE void row_sums_load(v_f32 acc[], const int rows, const int vectors, const row_values *a) {
  const float *from = a->sums;
  V_UNROLL for (int r = 0; r < rows; r++, from += a->sums_row) {
    V_FORGET(from);
    V_UNROLL for (int i = 0; i < vectors; i++) acc[r * vectors + i] = v_load(from + i * V_LANES);
  }
}

V_INLINE void row_sums_store(const v_f32 acc[], const int rows, const int vectors,
                             const row_values *a) {
  float *to = a->sums;
  V_UNROLL for (int r = 0; r < rows; r++, to += a->sums_row) {
    V_FORGET(to);
    V_UNROLL for (int i = 0; i < vectors; i++) v_store(to + i * V_LANES, acc[r * vectors + i]);
  }
}

V_INLINE void row_values_key(v_f32 acc[], const int rows, const int vectors, const float *weights,
                             const float *v) {
  const float *left[V_ROWS];
  V_UNROLL for (int r = 0; r < rows; r++) left[r] = weights + r * SCORES_ROW;
  strip_accumulate(acc, rows, 1, vectors, left, 0, &v, 0, 1);
}

/* The n keys, for the next `vectors` vectors of columns. */
V_INLINE void row_values_part(const int rows, const int vectors, const row_values *a) {
  enum { STEP = 4, ACCUMULATORS = 12 /* 4 x 3, 1 x 8 */ };
  const int floats = vectors * V_LANES;
  const float *weights = a->weights, *v = a->v;
  int64_t n = a->n;
  v_f32 acc[ACCUMULATORS];
  row_sums_load(acc, rows, vectors, a);
  for (; n >= STEP; n -= STEP, weights += STEP) {
    V_UNROLL for (int k = 0; k < STEP; k++, v += a->v_row) {
      V_FORGET(v);
      row_values_key(acc, rows, vectors, weights + k, v);
      streams_prefetch(a->ahead, floats * (k + 1) / STREAMS_LINE - floats * k / STREAMS_LINE);
    }
    /* Half a line too many, which is a line in every other step. */
    if (floats * STEP % STREAMS_LINE && n / STEP % 2) streams_prefetch(a->ahead, 1);
  }
  for (; n > 0; n--, v += a->v_row) row_values_key(acc, rows, vectors, weights++, v);
  row_sums_store(acc, rows, vectors, a);
}

/* Columns, `vectors` vectors at a time, while so many are left. Two and two rather than three and one, whose additions
 * would wait for each other. */
V_INLINE void row_values_parts(const int rows, const int vectors, row_values *a) {
  while (a->vectors >= vectors && !(vectors == 3 && a->vectors == 4)) {
    row_values_part(rows, vectors, a);
    a->v += vectors * V_LANES;
    a->sums += vectors * V_LANES;
    a->vectors -= vectors;
  }
}

V_INLINE row_values row_values_of(row_work *w, int64_t row, int64_t key, const float *v,
                                  int64_t v_row, int64_t n) {
  row_values a;
  a.weights = w->scores + row * SCORES_ROW + key;
  a.v = v;
  a.v_row = v_row;
  a.n = n;
  a.sums = w->sums + (key / ATTN_KEY_BLOCK * w->rows + row) * w->value_row;
  a.sums_row = w->value_row;
  a.vectors = w->task->value_size / V_LANES;
  a.ahead = &w->ahead;
  return a;
}

/* n keys of the span from `key` on, which lie at v. */
V_INLINE void row_values_all(const int rows, const int widest, row_work *w, int64_t row,
                             int64_t key, const float *v, int64_t v_row, int64_t n) {
  row_values a = row_values_of(w, row, key, v, v_row, n);
  row_values_parts(rows, widest, &a);
  if (widest > 4) row_values_parts(rows, 4, &a);
  row_values_parts(rows, 2, &a);
  row_values_parts(rows, 1, &a);
}

/* For one, two and four rows. Eight accumulators or more where there is enough to do: as many as hide the latency. */
static V_NOINLINE void row_values_1(row_work *w, int64_t row, int64_t key, const float *v,
                                    int64_t v_row, int64_t n) {
  row_values_all(1, 8, w, row, key, v, v_row, n);
}

static V_NOINLINE void row_values_2(row_work *w, int64_t row, int64_t key, const float *v,
                                    int64_t v_row, int64_t n) {
  row_values_all(2, 4, w, row, key, v, v_row, n);
}

static V_NOINLINE void row_values_4(row_work *w, int64_t row, int64_t key, const float *v,
                                    int64_t v_row, int64_t n) {
  row_values_all(4, 3, w, row, key, v, v_row, n);
}

/* The same for the columns behind the last whole vector, of one row. */
static void row_values_tail(row_work *w, int64_t row, int64_t key, const float *v, int64_t v_row,
                            int64_t n) {
  const row_values a = row_values_of(w, row, key, v, v_row, n);
  const int64_t from = a.vectors * V_LANES, columns = w->task->value_size - from;
  v_f32 acc = v_load(a.sums + from);
  for (int64_t k = 0; k < n; k++) {
    acc = v_fma(v_broadcast(a.weights + k), v_load_n(v + k * v_row + from, columns), acc);
  }
  v_store(a.sums + from, acc);
}

/* Rows whose values are computed together: 4, 2 or 1 of those left. */
static int64_t values_taken(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/* n keys for `take` rows, 1, 2 or 4, of which all see them. */
static void values_rows(row_work *w, int64_t row, int64_t take, int64_t key, const float *v,
                        int64_t v_row, int64_t n) {
  const int64_t size = w->task->value_size;
  streams_grant(&w->ahead, take, size * n);
  (take == 4 ? row_values_4 : take == 2 ? row_values_2 : row_values_1)(w, row, key, v, v_row, n);
  streams_settle(&w->ahead);
  if (size % V_LANES == 0) return;
  for (int64_t r = row; r < row + take; r++) row_values_tail(w, r, key, v, v_row, n);
}

/* Keys [key, key + n) of the span, which lie at v: what all rows of a few see, then the rest one by one. */
static void values_keys(row_work *w, int64_t key, const float *v, int64_t v_row, int64_t n) {
  for (int64_t r = 0, take; r < w->rows; r += take) {
    take = values_taken(w->rows - r);
    const int64_t common = clamp(w->end[r] - key, 0, n); /* later rows see no fewer */
    if (common > 0) values_rows(w, r, take, key, v, v_row, common);
    for (int64_t i = r + 1; i < r + take; i++) {
      const int64_t own = clamp(w->end[i] - key, 0, n);
      if (own > common) {
        values_rows(w, i, 1, key + common, v + common * v_row, v_row, own - common);
      }
    }
  }
}

/* O <- O rescaled + the sums of block i; `first`: there is nothing yet. */
static void values_add(const row_work *w, int64_t i, float *state, bool first) {
  for (int64_t r = 0; r < w->rows; r++) {
    const v_f32 f = v_set1(w->factor[i][r]);
    const float *b = w->sums + (i * w->rows + r) * w->value_row;
    float *o = form_values(&w->form, state, r);
    for (int64_t d = 0; d < w->value_row; d += V_LANES) {
      v_store(o + d, first ? v_load(b + d) : v_fma(v_load(o + d), f, v_load(b + d)));
    }
  }
}

#endif
