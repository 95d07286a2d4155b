/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The projection kernel, y = x W + b, on the same register tile as attention: X is broadcast where
 * it lies, W comes in panels of V_TILE columns. One panel's run of ATTN_DOT_RUN rows stays in the
 * first cache level (24 KiB with AVX2) while all rows of X pass by. Runs are joined by addition in
 * order, the bias joins last (docs/numerics.md). Compiled once per instruction set. */

#include "body.h"
#include "tile.h"

V_INLINE v_f32 load_part(const float *p, int64_t n) {
  return n >= V_LANES ? v_load(p) : n > 0 ? v_load_n(p, n) : v_zero();
}

V_INLINE void store_part(float *p, v_f32 a, int64_t n) {
  if (n >= V_LANES) {
    v_store(p, a);
  } else if (n > 0) {
    v_store_n(p, a, n);
  }
}

/* Adds a run to what earlier runs left in y, and the bias after the last. `columns` of the panel exist. */
V_INLINE void tile_join(const tile_acc *acc, float *y, int64_t y_row, int64_t rows, int64_t columns,
                        bool first, const float *bias) {
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    if (r >= rows) break;
    float *out = y + r * y_row;
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      const int64_t n = columns - q * V_LANES;
      v_f32 sum = acc->at[r][q];
      if (!first) sum = v_add(load_part(out + q * V_LANES, n), sum);
      if (bias) sum = v_add(sum, v_load(bias + q * V_LANES));
      store_part(out + q * V_LANES, sum, n);
    }
  }
}

/* Not inlined: the accumulators need every register. */
static V_NOINLINE void linear_tile(const float *const left[V_ROWS], const float *w, int64_t depth,
                                   float *y, int64_t y_row, int64_t rows, int64_t columns,
                                   bool first, const float *bias) {
  tile_acc acc;
  tile_zero(&acc);
  tile_accumulate_from(&acc, 0, left, 1, w, depth);
  tile_join(&acc, y, y_row, rows, columns, first, bias);
}

static void panel_run(const attn_linear_task *task, int64_t column, int64_t k, int64_t depth) {
  const float *w = task->w + (column * task->depth + k * V_TILE);
  const bool last = k + depth == task->depth;
  const float *bias = last && task->bias ? task->bias + column : NULL;
  for (int64_t row = 0; row < task->rows; row += V_ROWS) {
    const float *left[V_ROWS];
    const int64_t rows = task->rows - row < V_ROWS ? task->rows - row : V_ROWS;
    tile_rows(left, task->x + row * task->x_row + k, task->x_row, rows);
    linear_tile(left, w, depth, task->y + row * task->y_row + column, task->y_row, rows,
                task->columns - column, k == 0, bias);
  }
}

void ATTN_NAME(linear)(const attn_linear_task *task) {
  for (int64_t column = 0; column < task->columns; column += V_TILE) {
    for (int64_t k = 0; k < task->depth; k += ATTN_DOT_RUN) {
      const int64_t depth = task->depth - k < ATTN_DOT_RUN ? task->depth - k : ATTN_DOT_RUN;
      panel_run(task, column, k, depth);
    }
  }
}
