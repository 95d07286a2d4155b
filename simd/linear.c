/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The projection kernel, y = x W + b, on the same register tile as attention: X is broadcast where
 * it lies, W comes in panels of V_TILE columns. One panel's run of ATTN_DOT_RUN rows stays in the
 * first cache level (24 KiB with AVX2) while all rows of X pass by. Where rows are few, those that do not
 * fill a tile run as a strip over several panels. Runs are joined by addition in order, the bias joins
 * last (docs/numerics.md); sums wait in dense scratch, since the pieces of rows of y lie pages apart, on
 * few cache sets. Compiled once per instruction set. */

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

/* W that is asked for during a run of a tile or a strip: so many cache lines every so many steps. */
typedef struct prefetch {
  const float *w;
  int64_t lines, steps;
} prefetch;

enum { LINE = 16 /* floats */ };

V_INLINE void prefetch_step(prefetch *p) {
  for (int64_t i = 0; i < p->lines; i++, p->w += LINE) __builtin_prefetch(p->w, 0, 2);
}

/* One run of a tile. */
typedef struct tile {
  const float *left[V_ROWS];
  const float *w;
  int64_t depth;
  const float *sums; /* of earlier runs; NULL at the first */
  prefetch next;
} tile;

V_INLINE void tile_run_ahead(tile_acc *acc, const tile *t) {
  const float *left[V_ROWS];
  prefetch next = t->next;
  V_UNROLL for (int r = 0; r < V_ROWS; r++) left[r] = t->left[r];
  for (int64_t k = 0; k < t->depth; k += next.steps) {
    const int64_t rest = t->depth - k, steps = rest < next.steps ? rest : next.steps;
    prefetch_step(&next);
    tile_accumulate_from(acc, 0, left, 1, t->w + k * V_TILE, steps);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) left[r] += steps;
  }
}

V_INLINE void tile_run(tile_acc *acc, const tile *t) {
  tile_zero(acc);
  if (t->next.lines == 0) {
    tile_accumulate_from(acc, 0, t->left, 1, t->w, t->depth);
  } else {
    tile_run_ahead(acc, t);
  }
  if (!t->sums) return;
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      acc->at[r][q] = v_add(v_load(t->sums + r * V_TILE + q * V_LANES), acc->at[r][q]);
    }
  }
}

/* Not inlined, this and the next: the accumulators need every register. */
static V_NOINLINE void tile_wait(const tile *t, float *sums) {
  tile_acc acc;
  tile_run(&acc, t);
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      v_store(sums + r * V_TILE + q * V_LANES, acc.at[r][q]);
    }
  }
}

/* The last run. `rows` and `columns` of the tile exist. */
static V_NOINLINE void tile_done(const tile *t, const float *bias, float *y, int64_t y_row,
                                 int64_t rows, int64_t columns) {
  const bool whole = rows >= V_ROWS && columns >= V_TILE; /* one branch, not one for every vector */
  tile_acc acc;
  tile_run(&acc, t);
  V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
    v_f32 b = bias ? v_load(bias + q * V_LANES) : v_zero();
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      /* Without a bias nothing is added: -0 stays. */
      v_f32 sum = v_canonical_nan(bias ? v_add(acc.at[r][q], b) : acc.at[r][q]);
      if (whole) {
        v_store(y + r * y_row + q * V_LANES, sum);
      } else if (r < rows) {
        store_part(y + r * y_row + q * V_LANES, sum, columns - q * V_LANES);
      }
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
  const float *x, *w, *bias; /* of this run; bias may be NULL */
  int64_t x_row, w_panel;
  int64_t depth;
  int64_t panels;  /* that exist */
  int64_t columns; /* that exist */
  float *sums;
  float *y; /* NULL: this is not the last run */
  int64_t y_row;
  bool first; /* run */
  prefetch next;
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
  prefetch next = s->next;
  for (int64_t k = 0; k < s->depth; k += next.steps) {
    const int64_t rest = s->depth - k, steps = rest < next.steps ? rest : next.steps;
    prefetch_step(&next);
    strip_accumulate(acc, rows, panels, V_QUERIES, left, 1, right, V_TILE, steps);
    V_UNROLL for (int r = 0; r < rows; r++) left[r] += steps;
    V_UNROLL for (int p = 0; p < panels; p++) right[p] += steps * V_TILE;
  }
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

_Static_assert(V_ROWS == 4 || V_ROWS == 8, "a strip for every number of rows left over");
static void (*const strip_of[V_ROWS])(const strip *) = {
    NULL,    strip_1, strip_2, strip_3,
#if V_ROWS == 8
    strip_4, strip_5, strip_6, strip_7,
#endif
};

/* ---- a task ---- */

/* One run of some panels. */
typedef struct run {
  const attn_linear_task *task;
  int64_t column, panels;
  int64_t k, depth;
  bool last;
  int64_t tiles; /* the rows of full tiles, or all */
  int64_t rest;  /* the rows of a strip after them */
} run;

/* What `parts` tiles or strips, one after the other, are to ask for during this run of the panel at `column`: its next
 * run, or the first of the panel in its place. W of fewer than 3 runs is taken to stay in the second cache level, or
 * near, where asking costs up to a fifth; a larger one comes 1.2 to 1.7 times as fast for up to 64 rows, and 1.04
 * times for 256 (Zen 3). Many lines at once would stand before what the tile itself waits for; few are no reason to
 * leave its loop. */
static prefetch next_run(const run *r, int64_t column, int64_t parts) {
  const attn_linear_task *task = r->task;
  const prefetch none = {.steps = ATTN_DOT_RUN};
  const int64_t next = r->last ? column + r->panels * V_TILE : column, k = r->k + r->depth;
  if (task->depth <= 2 * ATTN_DOT_RUN || next >= task->columns) return none;
  const int64_t steps = parts < FEW_TILES ? 16 : 64, lines = steps * V_TILE / LINE;
  return (prefetch){.w = task->w + next * task->depth + (r->last ? 0 : k * V_TILE),
                    .lines = (lines + parts - 1) / parts,
                    .steps = steps};
}

/* The rows of tiles with one panel. */
static void tiles_run(const run *r, int64_t column, float *sums) {
  const attn_linear_task *task = r->task;
  const float *bias = task->bias ? task->bias + column : NULL;
  tile t = {.w = task->w + column * task->depth + r->k * V_TILE,
            .depth = r->depth,
            .next = next_run(r, column, r->tiles)};
  for (int64_t i = 0; i < r->tiles; i++) {
    const int64_t row = i * V_ROWS, rows = task->rows - row;
    float *at = sums + row * V_TILE;
    tile_rows(t.left, task->x + row * task->x_row + r->k, task->x_row, rows);
    t.sums = r->k == 0 ? NULL : at;
    if (r->last) {
      tile_done(&t, bias, task->y + row * task->y_row + column, task->y_row, rows,
                task->columns - column);
    } else {
      tile_wait(&t, at);
    }
    if (t.next.lines > 0) t.next.w += t.next.lines * (ATTN_DOT_RUN / t.next.steps) * LINE;
  }
}

static void strip_of_run(const run *r, float *sums) {
  const attn_linear_task *task = r->task;
  const int64_t row = task->rows - r->rest;
  /* Strips of several panels read them as fast without. */
  const bool alone = r->tiles == 0 && strip_panels((int)r->rest) == 1;
  const strip s = {.x = task->x + row * task->x_row + r->k,
                   .w = task->w + r->column * task->depth + r->k * V_TILE,
                   .bias = task->bias ? task->bias + r->column : NULL,
                   .x_row = task->x_row,
                   .w_panel = task->depth * V_TILE,
                   .depth = r->depth,
                   .panels = r->panels,
                   .columns = task->columns - r->column,
                   .sums = sums,
                   .y = r->last ? task->y + row * task->y_row + r->column : NULL,
                   .y_row = task->y_row,
                   .first = r->k == 0,
                   .next = alone ? next_run(r, r->column, 1) : (prefetch){.steps = ATTN_DOT_RUN}};
  strip_of[r->rest](&s);
}

size_t ATTN_NAME(linear_workspace)(int64_t rows) {
  const int64_t all = tiles_up(rows), few = all < FEW_TILES ? all : FEW_TILES;
  const int64_t tiles = all > few * STRIP_PANELS ? all : few * STRIP_PANELS;
  return (size_t)(tiles * V_ROWS * V_TILE) * sizeof(float);
}

/* All runs of so many panels. */
static void panels_run(run *r, float *sums) {
  const attn_linear_task *task = r->task;
  const int64_t panel_sums = r->tiles * V_ROWS * V_TILE;
  for (r->k = 0; r->k < task->depth; r->k += r->depth) {
    const int64_t rest = task->depth - r->k;
    r->last = rest <= ATTN_DOT_RUN;
    r->depth = r->last ? rest : ATTN_DOT_RUN;
    for (int64_t p = 0; p < r->panels && r->tiles > 0; p++) {
      tiles_run(r, r->column + p * V_TILE, sums + p * panel_sums);
    }
    if (r->rest > 0) strip_of_run(r, sums + r->panels * panel_sums);
  }
}

void ATTN_NAME(linear)(const attn_linear_task *task, void *workspace) {
  PHASE_BEGIN(ticks);
  const int64_t rest = strip_rows(task->rows), most = rest > 0 ? strip_panels((int)rest) : 1;
  const int64_t panels = (task->columns + V_TILE - 1) / V_TILE;
  run r = {.task = task, .rest = rest, .tiles = tiles_up(task->rows) - (rest > 0)};
  for (int64_t panel = 0; panel < panels; panel += most) {
    r.column = panel * V_TILE;
    r.panels = panels - panel < most ? panels - panel : most;
    panels_run(&r, workspace);
  }
  PHASE_NEXT(ticks, ATTN_PHASE_PROJECTIONS);
}
