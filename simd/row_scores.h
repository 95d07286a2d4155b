/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Scores of few queries (rows.h), and what the parts of that kernel work on. Part of attention.c. */
#ifndef ATTN_SIMD_ROW_SCORES_H
#define ATTN_SIMD_ROW_SCORES_H

#include "block.h"
#include "streams.h"

/* Measured on Zen 3, AVX2, 24 lanes a tile, keys in rows. From a cache, 9 rows are 1.2 times as fast as in a tile, 12 the same, 16,
 * two of a tile's three vectors, 0.9. From memory and in pages, which this kernel reads where they lie, 12 are 1.3 times as
 * fast, 16 the same. Transposing for the register tile pays from 4 rows on (3: 5 % slower, 4: the same to 10 % faster,
 * 8: 15 %). What is measured of the rest is in docs/performance.md. */
enum {
  NEAR_ROWS = V_TILE / 2,
  MAX_ROWS = V_TILE * 2 / 3,
  ROWS_ROOM = (MAX_ROWS + 15) / 16 * 16,
  SPAN_BLOCKS = ATTN_KEY_CHUNK / ATTN_KEY_BLOCK,
  SCORES_ROW = ATTN_KEY_CHUNK + 16, /* a group of lanes may end behind the span */
  STAGE_KEYS = 64,                  /* that are loaded together where blocks do not take turns */
  STAGE_PART = 16,                  /* of them, whose values are added together */
  TURN_TERMS = 32,                  /* of interleaved keys */
  TURN_FLOATS = 1024, /* of the values of a block, for 4 rows; the first level holds 8192 */
  TURN_KEYS = 16,     /* at most */
  PANEL_ROWS = 4
};
_Static_assert(SPAN_BLOCKS *ATTN_KEY_BLOCK == ATTN_KEY_CHUNK && (int)SPAN_BLOCKS == (int)STREAMS,
               "the blocks of a chunk are the streams");
_Static_assert(ATTN_KEY_BLOCK % STAGE_KEYS == 0 && STAGE_KEYS % STAGE_PART == 0 &&
                   ATTN_KEY_BLOCK % TURN_KEYS == 0,
               "what is added together is of one block");
_Static_assert((int)LINE_FLOATS == (int)ATTN_KEY_GROUP, "a term of a group is a line");

typedef struct row_work {
  const attn_attention_task *task;
  float *query;                       /* rows x query_row, sign of the scale folded in */
  float *scores;                      /* rows x SCORES_ROW, becomes the weights */
  float *sums;                        /* blocks of the span x rows x value_row: their values */
  float *keep;                        /* rows x SCORES_ROW; NULL without dropout */
  float *near;                        /* room for a copy of a block of K and V */
  float *panel;                       /* V_TILE keys, transposed, a run of their columns */
  float *few;                         /* V_LANES keys, the last repeated, where a run has fewer */
  int64_t rows, query_row, value_row; /* value_row as in a state */
  int64_t reach;                      /* keys that any row sees; nothing behind is read */
  int64_t span;                       /* keys whose blocks are computed together */
  key_run page;                       /* the one last looked up, from page_key on */
  int64_t page_key;
  int32_t last[ROWS_ROOM]; /* last key that a row sees; -1: none */
  int32_t end[ROWS_ROOM];  /* of the span in work: keys before it are seen */
  float max[SPAN_BLOCKS][ROWS_ROOM], sum[SPAN_BLOCKS][ROWS_ROOM], factor[SPAN_BLOCKS][ROWS_ROOM];
  bool exp_sleef;
  state_form form;
  tree chunks;
  streams ahead; /* prefetched, at the pace of computing */
} row_work;

/* ---- scores ---- */

/* Four columns of V_LANES keys at a time, so that the sums of several groups of keys take turns within what a processor
 * looks ahead: squares of V_LANES columns take 1.1 times as long. */
V_INLINE void key_columns(v_f32 column[4], const float *k, int64_t k_row, const int part) {
  V_FORGET(k_row);
  v_load_columns(column, k, k_row, part);
}

/* The last ones, fewer than V_COLUMNS, stored `row` apart. */
static void key_columns_end(float *columns, int64_t row, const float *k, int64_t k_row,
                            int64_t terms) {
  v_f32 square[V_LANES];
  V_UNROLL for (int i = 0; i < V_LANES; i++) square[i] = v_load_n(k + i * k_row, terms);
  v_transpose(square);
  V_UNROLL for (int i = 0; i < V_COLUMNS; i++) {
    if (i < terms) v_store(columns + i * row, square[i]);
  }
}

/* Dot products of `rows` queries with `groups` groups of V_LANES keys: one run of n terms, stored or added
 * to the runs before it. */
V_INLINE void row_scores(const int rows, const int groups, row_work *w, const float *k,
                         int64_t k_row, const float *query, int64_t n, bool join, float *scores) {
  const float *q[V_ROWS];
  tile_rows(q, query, w->query_row, w->rows);
  v_f32 acc[8], column[4];
  V_UNROLL for (int i = 0; i < rows * groups; i++) acc[i] = v_zero();
  streams_grant(&w->ahead, w->rows, groups * V_LANES * n);
  int64_t d = 0;
  for (; d + V_COLUMNS <= n; d += V_COLUMNS) {
    V_UNROLL for (int part = 0; part < V_COLUMNS / 4; part++) {
      V_UNROLL for (int g = 0; g < groups; g++) {
        key_columns(column, k + g * V_LANES * k_row + d, k_row, part);
        V_UNROLL for (int i = 0; i < 4; i++) {
          V_UNROLL for (int r = 0; r < rows; r++) {
            v_f32 *sum = &acc[r * groups + g];
            *sum = v_fma(column[i], v_broadcast(q[r] + d + part * 4 + i), *sum);
          }
        }
      }
      streams_prefetch(&w->ahead, (groups * 4 * V_LANES + STREAMS_LINE - 1) / STREAMS_LINE);
    }
  }
  streams_settle(&w->ahead);
  if (d < n) {
    V_UNROLL for (int g = 0; g < groups; g++) {
      float columns[V_COLUMNS * V_LANES];
      key_columns_end(columns, V_LANES, k + g * V_LANES * k_row + d, k_row, n - d);
      for (int64_t i = 0; i < n - d; i++) {
        V_UNROLL for (int r = 0; r < rows; r++) {
          v_f32 *sum = &acc[r * groups + g];
          *sum = v_fma(v_load(columns + i * V_LANES), v_broadcast(q[r] + d + i), *sum);
        }
      }
    }
  }
  V_UNROLL for (int r = 0; r < rows; r++) {
    V_UNROLL for (int g = 0; g < groups; g++) {
      float *to = scores + r * SCORES_ROW + g * V_LANES;
      v_store(to, join ? v_add(v_load(to), acc[r * groups + g]) : acc[r * groups + g]);
    }
  }
}

typedef void (*row_scores_fn)(row_work *w, const float *k, int64_t k_row, const float *query,
                              int64_t n, bool join, float *scores);

#define ROW_SCORES(rows, groups)                                                                   \
  static V_NOINLINE void row_scores_##rows##_##groups(row_work *w, const float *k, int64_t k_row,  \
                                                      const float *query, int64_t n, bool join,    \
                                                      float *scores) {                             \
    row_scores(rows, groups, w, k, k_row, query, n, join, scores);                                 \
  }
ROW_SCORES(1, 4)
ROW_SCORES(1, 1)
ROW_SCORES(2, 4)
ROW_SCORES(2, 1)
_Static_assert(V_ROWS % 4 == 0, "scores of three rows have room for a fourth");
ROW_SCORES(4, 2)
ROW_SCORES(4, 1)

/* Rows whose scores are computed together: 4, 2 or 1 of those left, three as four. */
static int64_t scores_taken(int64_t left) { return left > 2 ? 4 : left; }

/* Few rows, of which three are taken for four: several groups of keys together, or one. */
static void scores_direct(row_work *w, const float *k, int64_t k_row, int groups, float *scores) {
  static const row_scores_fn by_rows[3][2] = {{row_scores_1_1, row_scores_1_4},
                                              {row_scores_2_1, row_scores_2_4},
                                              {row_scores_4_1, row_scores_4_2}};
  const int64_t size = w->task->head_size;
  const int kind = (int)scores_taken(w->rows) / 2, together = kind == 2 ? 2 : 4;
  for (int64_t d = 0; d < size; d += ATTN_DOT_RUN) {
    const int64_t n = run_terms(size, d);
    for (int g = 0, step; g < groups; g += step) {
      const bool several = groups - g >= together;
      step = several ? together : 1;
      by_rows[kind][several](w, k + g * V_LANES * k_row + d, k_row, w->query + d, n, d > 0,
                             scores + g * V_LANES);
    }
  }
}

/* Of V_ROWS queries with vectors [from, V_QUERIES) of the panel. Not inlined: the accumulators need every register. */
#define PANEL_SCORES(from)                                                                         \
  static V_NOINLINE void panel_scores_##from(const float *const left[V_ROWS], const float *panel,  \
                                             int64_t n, bool join, float *scores) {                \
    scores_run(from, left, 1, panel, n, join, scores, SCORES_ROW, NULL);                           \
  }
FROM_EACH(PANEL_SCORES)

typedef void (*panel_scores_fn)(const float *const left[V_ROWS], const float *panel, int64_t n,
                                bool join, float *scores);
static const panel_scores_fn panel_scores_from[] = FROM_TABLE(panel_scores);

/* Several rows, `groups` groups of keys, a tile of them at most: these are transposed once, for the register tile. */
static void scores_panel(row_work *w, const float *k, int64_t k_row, int groups, float *scores) {
  const int64_t size = w->task->head_size;
  const int from = V_QUERIES - groups; /* the last vectors of the tile */
  for (int64_t d = 0; d < size; d += ATTN_DOT_RUN) {
    const int64_t n = run_terms(size, d);
    int64_t c = 0;
    streams_grant(&w->ahead, w->rows, groups * V_LANES * n);
    for (; c + V_COLUMNS <= n; c += V_COLUMNS) {
      for (int g = 0; g < groups; g++) {
        v_f32 column[4];
        const float *at = k + g * V_LANES * k_row + d + c;
        float *to = w->panel + c * V_TILE + (from + g) * V_LANES;
        V_UNROLL for (int part = 0; part < V_COLUMNS / 4; part++) {
          key_columns(column, at, k_row, part);
          V_UNROLL for (int i = 0; i < 4; i++) v_store(to + (part * 4 + i) * V_TILE, column[i]);
        }
      }
      streams_prefetch(&w->ahead, V_QUERIES * V_COLUMNS * V_LANES / STREAMS_LINE);
    }
    streams_settle(&w->ahead);
    if (c < n) {
      for (int g = 0; g < groups; g++) {
        key_columns_end(w->panel + c * V_TILE + (from + g) * V_LANES, V_TILE,
                        k + g * V_LANES * k_row + d + c, k_row, n - c);
      }
    }
    for (int64_t r = 0; r < w->rows; r += V_ROWS) {
      const float *left[V_ROWS];
      tile_rows(left, w->query + r * w->query_row + d, w->query_row, w->rows - r);
      panel_scores_from[from](left, w->panel, n, d > 0, scores + r * SCORES_ROW - from * V_LANES);
    }
  }
}

/* Groups of interleaved keys that are computed together: enough sums to hide the latency, but no more than streams. */
#define GROUP_VECTORS (ATTN_KEY_GROUP / V_LANES)
#define GROUPS_FILLING(rows) (8 / ((rows) * GROUP_VECTORS))
#define GROUPS_TOGETHER(rows)                                                                      \
  (GROUPS_FILLING(rows) < 1 ? 1 : GROUPS_FILLING(rows) > STREAMS ? STREAMS : GROUPS_FILLING(rows))

/* Groups of keys that are read in turn, and where row 0 has their scores. */
typedef struct group_list {
  int64_t groups;
  const float *k[STREAMS];
  float *scores[STREAMS];
} group_list;

/* Terms [d, d + n) of the dot products of `rows` queries with groups of interleaved keys: a part of the first run,
 * which goes on where the part before has left it, or a whole run, added to those before. */
V_INLINE void group_scores(const int rows, const int groups, row_work *w, int64_t row,
                           const group_list *list, int64_t first, int64_t d, int64_t n) {
  enum { STEP = 4 };
  const int vectors = groups * GROUP_VECTORS;
  const bool resume = d % ATTN_DOT_RUN > 0;
  const int64_t real = rows < w->rows - row ? rows : w->rows - row;
  const float *q[V_ROWS], *keys[STREAMS];
  float *to[STREAMS];
  tile_rows(q, w->query + row * w->query_row + d, w->query_row, w->rows - row);
  V_UNROLL for (int g = 0; g < groups; g++) {
    keys[g] = list->k[first + g] + d * ATTN_KEY_GROUP;
    to[g] = list->scores[first + g] + row * SCORES_ROW;
  }
  streams_grant(&w->ahead, real, groups * n * ATTN_KEY_GROUP);
  v_f32 acc[4 * GROUP_VECTORS > 8 ? 4 * GROUP_VECTORS : 8];
  V_UNROLL for (int r = 0; r < rows; r++) {
    V_UNROLL for (int i = 0; i < vectors; i++) {
      const float *at = to[i / GROUP_VECTORS] + r * SCORES_ROW + i % GROUP_VECTORS * V_LANES;
      acc[r * vectors + i] = resume ? v_load(at) : v_zero();
    }
  }
  for (; n >= STEP && streams_granted(&w->ahead); n -= STEP) {
    strip_accumulate(acc, rows, groups, GROUP_VECTORS, q, 1, keys, ATTN_KEY_GROUP, STEP);
    V_UNROLL for (int r = 0; r < rows; r++) q[r] += STEP;
    V_UNROLL for (int g = 0; g < groups; g++) keys[g] += STEP * ATTN_KEY_GROUP;
    streams_prefetch(&w->ahead, groups * STEP / STREAMS);
  }
  streams_settle(&w->ahead);
  strip_accumulate(acc, rows, groups, GROUP_VECTORS, q, 1, keys, ATTN_KEY_GROUP, n);
  V_UNROLL for (int r = 0; r < rows; r++) {
    V_UNROLL for (int i = 0; i < vectors; i++) {
      float *at = to[i / GROUP_VECTORS] + r * SCORES_ROW + i % GROUP_VECTORS * V_LANES;
      const v_f32 sum = acc[r * vectors + i];
      v_store(at, d > 0 && !resume ? v_add(v_load(at), sum) : sum);
    }
  }
}

typedef void (*group_scores_fn)(row_work *w, int64_t row, const group_list *list, int64_t first,
                                int64_t d, int64_t n);

#define GROUP_SCORES(rows)                                                                         \
  static V_NOINLINE void group_scores_##rows##_one(                                                \
      row_work *w, int64_t row, const group_list *list, int64_t first, int64_t d, int64_t n) {     \
    group_scores(rows, 1, w, row, list, first, d, n);                                              \
  }                                                                                                \
  static V_NOINLINE void group_scores_##rows##_some(                                               \
      row_work *w, int64_t row, const group_list *list, int64_t first, int64_t d, int64_t n) {     \
    group_scores(rows, GROUPS_TOGETHER(rows), w, row, list, first, d, n);                          \
  }
GROUP_SCORES(1)
GROUP_SCORES(2)
GROUP_SCORES(4)

/* The same for all rows and groups. */
static void scores_groups(row_work *w, const group_list *list, int64_t d, int64_t n) {
#define ONE_AND_SOME(rows)                                                                         \
  {GROUPS_TOGETHER(rows) > 1 ? group_scores_##rows##_one : group_scores_##rows##_some,             \
   group_scores_##rows##_some}
  static const group_scores_fn by_rows[3][2] = {ONE_AND_SOME(1), ONE_AND_SOME(2), ONE_AND_SOME(4)};
#undef ONE_AND_SOME
  static const int together[3] = {GROUPS_TOGETHER(1), GROUPS_TOGETHER(2), GROUPS_TOGETHER(4)};
  for (int64_t r = 0, take; r < w->rows; r += take) {
    take = scores_taken(w->rows - r);
    const int64_t kind = take / 2;
    for (int64_t g = 0, step; g < list->groups; g += step) {
      const bool several = list->groups - g >= together[kind];
      step = several ? together[kind] : 1;
      by_rows[kind][several](w, r, list, g, d, n);
    }
  }
}

/* A run of keys. Fewer than there are lanes are copied, the last one repeated; else the last group overlaps the
 * one before it rather than reach behind the run. */
static void scores_keys(row_work *w, const float *k, int64_t k_row, int64_t keys, float *scores) {
  const bool panel = w->rows >= PANEL_ROWS;
  const int64_t most = panel ? V_QUERIES : 4, size = w->task->head_size;
  void (*const some)(row_work *, const float *, int64_t, int, float *) =
      panel ? scores_panel : scores_direct;
  if (keys < V_LANES) {
    for (int64_t i = 0; i < V_LANES; i++) {
      const float *from = k + (i < keys ? i : keys - 1) * k_row;
      memcpy(w->few + i * size, from, (size_t)size * sizeof(float));
    }
    some(w, w->few, size, 1, scores);
    return;
  }
  int64_t j = 0;
  for (int64_t groups; j + V_LANES <= keys; j += groups * V_LANES) {
    groups = clamp((keys - j) / V_LANES, 1, most);
    some(w, k + j * k_row, k_row, (int)groups, scores + j);
  }
  if (j < keys) some(w, k + (keys - V_LANES) * k_row, k_row, 1, scores + keys - V_LANES);
}

#endif
