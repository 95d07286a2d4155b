/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Values of few queries (rows.h). Part of attention.c. */
#ifndef ATTN_SIMD_ROW_VALUES_H
#define ATTN_SIMD_ROW_VALUES_H

#include "row_scores.h"

typedef void (*row_values_fn)(const float *weights, const float *v, int64_t v_row, int64_t n,
                              float *sums, int64_t sums_row);

/* Sums of `rows` rows and `vectors` vectors of columns move on by n keys. */
#define ROW_VALUES(rows, vectors)                                                                  \
  static V_NOINLINE void row_values_##rows##_##vectors(const float *weights, const float *v,       \
                                                       int64_t v_row, int64_t n, float *sums,      \
                                                       int64_t sums_row) {                         \
    v_f32 acc[(rows) * (vectors)];                                                                 \
    V_UNROLL for (int i = 0; i < (rows) * (vectors); i++) {                                        \
      acc[i] = v_load(sums + i / (vectors) * sums_row + i % (vectors) * V_LANES);                  \
    }                                                                                              \
    const float *left[rows];                                                                       \
    V_UNROLL for (int r = 0; r < (rows); r++) left[r] = weights + r * SCORES_ROW;                  \
    strip_accumulate(acc, rows, 1, vectors, left, 1, &v, v_row, n);                                \
    V_UNROLL for (int i = 0; i < (rows) * (vectors); i++) {                                        \
      v_store(sums + i / (vectors) * sums_row + i % (vectors) * V_LANES, acc[i]);                  \
    }                                                                                              \
  }
ROW_VALUES(1, 1)
ROW_VALUES(1, 2)
ROW_VALUES(1, 4)
ROW_VALUES(1, 8)
ROW_VALUES(2, 1)
ROW_VALUES(2, 2)
ROW_VALUES(2, 4)
ROW_VALUES(4, 1)
ROW_VALUES(4, 2)
ROW_VALUES(4, 3)

typedef struct values_part {
  int64_t vectors;
  row_values_fn add;
} values_part;

/* Widest first, for 1, 2 and 4 rows. */
static const values_part values_parts[3][4] = {
    {{8, row_values_1_8}, {4, row_values_1_4}, {2, row_values_1_2}, {1, row_values_1_1}},
    {{4, row_values_2_4}, {2, row_values_2_2}, {1, row_values_2_1}},
    {{3, row_values_4_3}, {2, row_values_4_2}, {1, row_values_4_1}}};

/* Columns behind the last whole vector. */
static void row_values_tail(const float *weights, const float *v, int64_t v_row, int64_t n,
                            float *sums, int64_t columns) {
  v_f32 acc = v_load(sums);
  for (int64_t k = 0; k < n; k++) {
    acc = v_fma(v_broadcast(weights + k), v_load_n(v + k * v_row, columns), acc);
  }
  v_store(sums, acc);
}

/* Rows whose values are computed together: 4, 2 or 1 of those left. */
static int64_t values_taken(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/* n keys for `take` rows, 1, 2 or 4, of which all see them. Eight accumulators or more where there is enough to do:
 * as many as hide the latency. */
static void values_rows(row_work *w, int64_t row, int64_t take, int64_t key, const float *v,
                        int64_t v_row, int64_t n) {
  const values_part *part = values_parts[take / 2];
  const float *weights = w->scores + row * SCORES_ROW + key;
  float *sums = w->sums + (key / ATTN_KEY_BLOCK * w->rows + row) * w->value_row;
  const int64_t size = w->task->value_size;
  int64_t d = 0;
  for (int64_t left = size / V_LANES; left > 0; left -= part->vectors) {
    /* Two and two rather than three and one, whose additions would wait for each other. */
    while (part->vectors > left || (part->vectors == 3 && left == 4)) part++;
    part->add(weights, v + d, v_row, n, sums + d, w->value_row);
    d += part->vectors * V_LANES;
    streams_pace(&w->asked, take, part->vectors * V_LANES * n);
  }
  for (int64_t r = 0; r < take && d < size; r++) {
    row_values_tail(weights + r * SCORES_ROW, v + d, v_row, n, sums + r * w->value_row + d,
                    size - d);
  }
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
