/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The projection kernel, y = x W + b, on the same register tile as attention: X is broadcast where
 * it lies, W comes in panels of V_TILE columns. One panel's run of ATTN_DOT_RUN rows stays in the
 * first cache level (24 KiB with AVX2) while all rows of X pass by. Where rows are few, those that do not
 * fill a tile run as a strip over several panels. Runs are joined by addition in
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

/* ---- strips: rows left over by the tiles ---- */

/* From this number of tiles on, one that repeats its last row costs less than strips save. */
enum { FEW_TILES = 8 };
/* Most panels that share a strip; three or four streams suffice to read memory as fast as it gets. */
enum { STRIP_PANELS = V_ROWS < 4 ? V_ROWS : 4 };

static int64_t tiles_up(int64_t rows) { return (rows + V_ROWS - 1) / V_ROWS; }
static int64_t strip_rows(int64_t rows) { return rows < FEW_TILES * V_ROWS ? rows % V_ROWS : 0; }

/* As many as the registers allow. */
V_INLINE int strip_panels(int rows) {
  return V_ROWS / rows < STRIP_PANELS ? V_ROWS / rows : STRIP_PANELS;
}

typedef struct strip {
  const float *x, *w, *bias; /* of this run; bias: at the last run and where there is one */
  int64_t x_row, w_panel;
  int64_t depth;
  int64_t panels;  /* that exist */
  int64_t columns; /* that exist */
  float *sums;
  float *y; /* NULL: this is not the last run */
  int64_t y_row;
  bool first; /* run */
} strip;

V_INLINE void strip_store(const strip *s, const v_f32 acc[], const int rows, const int panels) {
  V_UNROLL for (int p = 0; p < panels; p++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      const int64_t column = p * V_TILE + q * V_LANES;
      if (column >= s->columns) return;
      V_UNROLL for (int r = 0; r < rows; r++) {
        v_f32 sum = acc[(r * panels + p) * V_QUERIES + q];
        if (s->bias) sum = v_add(sum, v_load(s->bias + column));
        store_part(s->y + r * s->y_row + column, v_canonical_nan(sum), s->columns - column);
      }
    }
  }
}

/* One run of a strip of so many rows. */
V_INLINE void strip_run(const strip *s, const int rows) {
  const int panels = strip_panels(rows), vectors = rows * panels * V_QUERIES;
  v_f32 acc[V_ROWS * V_QUERIES];
  const float *left[V_ROWS], *right[STRIP_PANELS];
  V_UNROLL for (int r = 0; r < rows; r++) left[r] = s->x + r * s->x_row;
  V_UNROLL for (int p = 0; p < panels; p++) {
    right[p] = s->w + (p < s->panels ? p : s->panels - 1) * s->w_panel;
  }
  V_UNROLL for (int i = 0; i < vectors; i++) acc[i] = v_zero();
  strip_accumulate(acc, rows, panels, V_QUERIES, left, 1, right, V_TILE, s->depth);
  if (!s->first) {
    V_UNROLL for (int i = 0; i < vectors; i++) acc[i] =
        v_add(v_load(s->sums + i * V_LANES), acc[i]);
  }
  if (s->y) {
    strip_store(s, acc, rows, panels);
  } else {
    V_UNROLL for (int i = 0; i < vectors; i++) v_store(s->sums + i * V_LANES, acc[i]);
  }
}

/* A function for every number of rows, since it says what lies in which register. */
#define STRIP(rows)                                                                                \
  static V_NOINLINE void strip_##rows(const strip *s) { strip_run(s, rows); }
STRIP(1)
STRIP(2)
STRIP(3)
#if V_ROWS == 8
STRIP(4)
STRIP(5)
STRIP(6)
STRIP(7)
#endif

static void (*const strip_of[V_ROWS])(const strip *) = {
    NULL,    strip_1, strip_2, strip_3,
#if V_ROWS == 8
    strip_4, strip_5, strip_6, strip_7,
#endif
};

/* ---- a task ---- */

/* The rows of full tiles, or all, with one run of one panel. */
static void tiles_run(const attn_linear_task *task, int64_t tiles, int64_t column, int64_t k,
                      int64_t depth, float *sums) {
  const float *w = task->w + column * task->depth + k * V_TILE;
  const bool last = k + depth == task->depth;
  const float *bias = task->bias ? task->bias + column : NULL;
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

/* The rows of the strip with one run of its panels. */
static void rest_run(const attn_linear_task *task, int64_t rows, int64_t column, int64_t panels,
                     int64_t k, int64_t depth, float *sums) {
  const bool last = k + depth == task->depth;
  const int64_t row = task->rows - rows;
  const strip s = {.x = task->x + row * task->x_row + k,
                   .w = task->w + column * task->depth + k * V_TILE,
                   .bias = task->bias ? task->bias + column : NULL,
                   .x_row = task->x_row,
                   .w_panel = task->depth * V_TILE,
                   .depth = depth,
                   .panels = panels,
                   .columns = task->columns - column,
                   .sums = sums,
                   .y = last ? task->y + row * task->y_row + column : NULL,
                   .y_row = task->y_row,
                   .first = k == 0};
  strip_of[rows](&s);
}

size_t ATTN_NAME(linear_workspace)(int64_t rows) {
  const int64_t all = tiles_up(rows), few = all < FEW_TILES ? all : FEW_TILES;
  const int64_t tiles = all > few * STRIP_PANELS ? all : few * STRIP_PANELS;
  return (size_t)(tiles * V_ROWS * V_TILE) * sizeof(float);
}

void ATTN_NAME(linear)(const attn_linear_task *task, void *workspace) {
  PHASE_BEGIN(ticks);
  const int64_t rest = strip_rows(task->rows);
  const int64_t tiles = rest > 0 ? task->rows / V_ROWS : tiles_up(task->rows);
  const int64_t most = rest > 0 ? strip_panels((int)rest) : 1, panel_sums = tiles * V_ROWS * V_TILE;
  const int64_t all = (task->columns + V_TILE - 1) / V_TILE;
  float *sums = workspace;
  for (int64_t panel = 0; panel < all; panel += most) {
    const int64_t panels = all - panel < most ? all - panel : most, column = panel * V_TILE;
    for (int64_t k = 0; k < task->depth; k += ATTN_DOT_RUN) {
      const int64_t depth = task->depth - k < ATTN_DOT_RUN ? task->depth - k : ATTN_DOT_RUN;
      for (int64_t p = 0; p < panels; p++) {
        tiles_run(task, tiles, column + p * V_TILE, k, depth, sums + p * panel_sums);
      }
      if (rest > 0) rest_run(task, rest, column, panels, k, depth, sums + most * panel_sums);
    }
  }
  PHASE_NEXT(ticks, ATTN_PHASE_PROJECTIONS);
}
