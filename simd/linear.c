/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The projection kernel, y = x W + b, on the same register tile as attention: X is broadcast where
 * it lies, W comes in panels of V_TILE columns. One panel's run of ATTN_DOT_RUN rows stays in the
 * first cache level (24 KiB with AVX2) while all rows of X pass by. Runs are joined by addition in
 * order, the bias joins last (docs/numerics.md); sums wait in dense scratch, since the pieces of rows of
 * y lie pages apart, on few cache sets. Compiled once per instruction set. */

#include "body.h"
#include "phase.h"
#include "tile.h"
#include "vector_math.h"

V_INLINE void store_part(float *p, v_f32 a, int64_t n) {
  if (n >= V_LANES) {
    v_store(p, a);
  } else if (n > 0) {
    v_store_n(p, a, n);
  }
}

/* One run of one tile. `sums` is what earlier runs left; NULL at the first. */
V_INLINE void tile_run(tile_acc *acc, const float *const left[V_ROWS], const float *w,
                       int64_t depth, const float *sums) {
  tile_zero(acc);
  tile_accumulate_from(acc, 0, left, 1, w, depth);
  if (!sums) return;
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      acc->at[r][q] = v_add(v_load(sums + r * V_TILE + q * V_LANES), acc->at[r][q]);
    }
  }
}

/* Not inlined, this and the next: the accumulators need every register. */
static V_NOINLINE void tile_wait(const float *const left[V_ROWS], const float *w, int64_t depth,
                                 float *sums, bool first) {
  tile_acc acc;
  tile_run(&acc, left, w, depth, first ? NULL : sums);
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      v_store(sums + r * V_TILE + q * V_LANES, acc.at[r][q]);
    }
  }
}

/* The last run. `rows` and `columns` of the tile exist. */
static V_NOINLINE void tile_done(const float *const left[V_ROWS], const float *w, int64_t depth,
                                 const float *sums, const float *bias, float *y, int64_t y_row,
                                 int64_t rows, int64_t columns) {
  tile_acc acc;
  tile_run(&acc, left, w, depth, sums);
  V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
    v_f32 b = bias ? v_load(bias + q * V_LANES) : v_zero();
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      /* Without a bias nothing is added: -0 stays. */
      v_f32 sum = v_canonical_nan(bias ? v_add(acc.at[r][q], b) : acc.at[r][q]);
      if (r < rows) store_part(y + r * y_row + q * V_LANES, sum, columns - q * V_LANES);
    }
  }
}

/* All rows of x with one run of one panel. */
static void panel_run(const attn_linear_task *task, int64_t column, int64_t k, int64_t depth,
                      float *sums) {
  const float *w = task->w + column * task->depth + k * V_TILE;
  const bool last = k + depth == task->depth;
  const float *bias = task->bias ? task->bias + column : NULL;
  const int64_t tiles = (task->rows + V_ROWS - 1) / V_ROWS;
  for (int64_t i = 0; i < tiles; i++) {
    const float *left[V_ROWS];
    const int64_t row = i * V_ROWS, rows = task->rows - row;
    float *at = sums + row * V_TILE;
    tile_rows(left, task->x + row * task->x_row + k, task->x_row, rows);
    if (last) {
      tile_done(left, w, depth, k == 0 ? NULL : at, bias, task->y + row * task->y_row + column,
                task->y_row, rows, task->columns - column);
    } else {
      tile_wait(left, w, depth, at, k == 0);
    }
  }
}

size_t ATTN_NAME(linear_workspace)(int64_t rows) {
  return (size_t)((rows + V_ROWS - 1) / V_ROWS * V_ROWS * V_TILE) * sizeof(float);
}

void ATTN_NAME(linear)(const attn_linear_task *task, void *workspace) {
  PHASE_BEGIN(ticks);
  for (int64_t column = 0; column < task->columns; column += V_TILE) {
    for (int64_t k = 0; k < task->depth; k += ATTN_DOT_RUN) {
      const int64_t depth = task->depth - k < ATTN_DOT_RUN ? task->depth - k : ATTN_DOT_RUN;
      panel_run(task, column, k, depth, workspace);
    }
  }
  PHASE_NEXT(ticks, ATTN_PHASE_PROJECTIONS);
}
