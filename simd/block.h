/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* One block of keys for one tile of queries: scores, softmax, values. Part of attention.c, which
 * says how it all hangs together; included there and nowhere else. */
#ifndef ATTN_SIMD_BLOCK_H
#define ATTN_SIMD_BLOCK_H

#include "packed.h"
#include "phase.h"
#include "prefetch.h"
#include "states.h"
#include "tile.h"
#include "tree.h"
#include "vector_math.h"

/* Tiles of a band, which share every block of keys: it costs as much to fetch, where it does not stay in the second
 * cache level, as a third of a tile to compute. */
enum { MIN_TILES = 4, MAX_TILES = 16 };

/* Something for every first vector of a tile that is computed, and a table of functions by it. */
#if V_QUERIES == 3
#define FROM_EACH(define) define(0) define(1) define(2)
#define FROM_TABLE(name) {name##_0, name##_1, name##_2}
#else
_Static_assert(V_QUERIES == 2, "FROM_EACH and FROM_TABLE know tiles of 2 or 3 vectors");
#define FROM_EACH(define) define(0) define(1)
#define FROM_TABLE(name) {name##_0, name##_1}
#endif

/* ---- state of a tile: per lane a maximum m, a sum l, and value_size unnormalised values ---- */

static int64_t padded(int64_t value_size) {
  const int64_t to = V_ROWS > V_LANES ? V_ROWS : V_LANES;
  return (value_size + to - 1) / to * to;
}

static int64_t tile_floats(int64_t value_size) { return (padded(value_size) + 2) * V_TILE; }

static float *tile_max(float *state) { return state; }
static float *tile_sum(float *state) { return state + V_TILE; }
static float *tile_values(float *state) { return state + 2 * V_TILE; }

typedef struct tile {
  /* Of the task's numbering, at the end of the tile. What is missing of whole tiles is missing in a task's first one,
   * which sees fewest keys; whole vectors of padding take no part in scores, softmax and products. */
  int64_t lane, lanes;
  int from;              /* first vector with lanes */
  int32_t limit[V_TILE]; /* last key that a lane sees; never decreases */
  float *query;          /* head_size x V_TILE, transposed, sign of the scale folded in */
  tree chunks;
  float factor[V_TILE]; /* rescale factors of the block in work */
  float block_max[V_TILE];
} tile;

static int64_t tile_pad(const tile *t) { return V_TILE - t->lanes; }

typedef struct work {
  const attn_attention_task *task;
  float *scores;  /* ATTN_KEY_BLOCK x V_TILE, becomes the weights */
  float *dropout; /* the shape of the scores; NULL without dropout */
  packed_keys packed;
  upcoming upcoming;
  int64_t reach; /* keys that any lane of the band sees; nothing behind is read */
  float weight_scale;
  bool exp_sleef;
  int64_t tiles; /* of the band */
  tile tile[MAX_TILES];
} work;

/* ---- visibility of a key block ---- */

/* Vector q of a tile sees keys [begin, whole[q]) of the block in all its lanes, [whole[q], end[q]) in
 * some, those of padding alone none. Relative to the block's first key and cut to its length. */
typedef struct view {
  int64_t begin;
  int64_t whole[V_QUERIES], end[V_QUERIES];
  int32_t limit[V_TILE];
} view;

static void view_block(view *see, const tile *t, int64_t key, int64_t begin, int64_t keys) {
  see->begin = begin;
  if (t->limit[t->from * V_LANES] >= key + keys - 1) {
    for (int i = 0; i < V_TILE; i++) see->limit[i] = (int32_t)keys - 1;
    for (int q = 0; q < V_QUERIES; q++) see->whole[q] = see->end[q] = q < t->from ? begin : keys;
    return;
  }
  for (int i = 0; i < V_TILE; i++) see->limit[i] = (int32_t)clamp(t->limit[i] - key, -1, keys - 1);
  for (int q = 0; q < V_QUERIES; q++) {
    see->whole[q] = clamp(see->limit[q * V_LANES] + 1, begin, keys);
    see->end[q] = clamp(see->limit[q * V_LANES + V_LANES - 1] + 1, begin, keys);
  }
}

/* Those of vector q. */
V_INLINE v_i32 limits_of(const int32_t limit[V_TILE], int q) {
  v_i32 limits;
  memcpy(&limits, limit + q * V_LANES, sizeof(limits));
  return limits;
}

/* ---- scores ---- */

/* One run of the dot products of V_ROWS rows with vectors [from, V_QUERIES), stored `row` apart, or added to
 * the runs before it; with `top`, the sums' maximum joins it. */
V_INLINE void scores_run(const int from, const float *const left[V_ROWS], int64_t step,
                         const float *query, int64_t n, bool join, float *scores, int64_t row,
                         float *top) {
  tile_acc acc;
  tile_zero(&acc);
  tile_accumulate_from(&acc, from, left, step, query, n);
  if (join) {
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      V_UNROLL for (int q = from; q < V_QUERIES; q++) {
        acc.at[r][q] = v_add(v_load(scores + r * row + q * V_LANES), acc.at[r][q]);
      }
    }
  }
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = from; q < V_QUERIES; q++) {
      v_store(scores + r * row + q * V_LANES, acc.at[r][q]);
    }
  }
  if (!top) return;
  V_UNROLL for (int q = from; q < V_QUERIES; q++) {
    v_f32 m = v_load(top + q * V_LANES);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) m = v_max(acc.at[r][q], m);
    v_store(top + q * V_LANES, m);
  }
}

/* Terms of the run from d on. */
static int64_t run_terms(int64_t size, int64_t d) {
  return size - d < ATTN_DOT_RUN ? size - d : ATTN_DOT_RUN;
}

V_INLINE void scores_tile(const int from, const float *left[V_ROWS], int64_t step,
                          const float *query, int64_t size, float *scores, float *top) {
  for (int64_t d = 0; d < size; d += ATTN_DOT_RUN) {
    const int64_t n = run_terms(size, d);
    scores_run(from, left, step, query, n, d > 0, scores, V_TILE, d + n == size ? top : NULL);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) left[r] += n * step;
    query += n * V_TILE;
  }
}

/* Keys [key, key + rows) of the block for a tile: their first elements; returns from one element to the next. */
V_INLINE int64_t key_rows(const float *left[V_ROWS], const key_block *block, int64_t key,
                          int64_t rows) {
  if (!block->interleaved) {
    tile_rows(left, block->k + key * block->k_row, block->k_row, rows);
    return block->k_dim;
  }
  tile_rows(left, block->k + attn_interleaved_at(key, block->k_row), 1, rows);
  return ATTN_KEY_GROUP;
}
_Static_assert(ATTN_KEY_GROUP % V_ROWS == 0, "groups are whole tiles of keys");

/* Vectors [from, V_QUERIES) of the scores of keys from `key` on, tile by tile, until one begins at `end` or
 * behind; returns where. Their maximum joins `top`, unless it is NULL. */
V_INLINE int64_t scores_span(const int from, work *w, const tile *t, const key_block *block,
                             int64_t key, int64_t end, float *top) {
  for (int64_t rows; key < end; key += rows) {
    const float *left[V_ROWS];
    rows = clamp(block->keys - key, 0, V_ROWS - key % V_ROWS); /* of one group */
    const int64_t step = key_rows(left, block, key, rows);
    prefetch_upcoming(&w->upcoming, w->task, &w->packed, block, w->reach);
    float *scores = w->scores + key * V_TILE;
    if (block->interleaved && rows == V_ROWS) {
      side_by_side(left);
      scores_tile(from, left, ATTN_KEY_GROUP, t->query, w->task->head_size, scores, top);
    } else {
      scores_tile(from, left, step, t->query, w->task->head_size, scores, top);
    }
  }
  return key;
}

/* Not inlined: the accumulators need every register. All keys in one call: one for every tile cost 2 to 4 %. */
#define SCORES_SPAN(from)                                                                          \
  static V_NOINLINE int64_t scores_span_##from(work *w, const tile *t, const key_block *block,     \
                                               int64_t key, int64_t end, float *top) {             \
    return scores_span(from, w, t, block, key, end, top);                                          \
  }
FROM_EACH(SCORES_SPAN)

typedef int64_t (*scores_span_fn)(work *w, const tile *t, const key_block *block, int64_t key,
                                  int64_t end, float *top);
static const scores_span_fn scores_span_from[] = FROM_TABLE(scores_span);

/* Scores of a block, and in t->block_max their maximum over visible keys. */
static void scores_block(work *w, tile *t, const view *see, const key_block *block) {
  for (int q = 0; q < V_QUERIES; q++) v_store(t->block_max + q * V_LANES, v_set1(-INFINITY));
  int from = t->from;
  const int64_t last = see->end[V_QUERIES - 1], seen = see->whole[from];
  /* Tiles of keys that all lanes see; from there on the maximum is taken by mask. */
  const int64_t whole = seen == block->keys ? seen : seen / V_ROWS * V_ROWS;
  const int64_t edge = scores_span_from[from](w, t, block, see->begin, whole, t->block_max);
  for (int64_t key = edge; key < last;) {
    while (see->end[from] <= key) from++;
    key = scores_span_from[from](w, t, block, key, see->end[from], NULL);
  }
  for (int q = 0; q < V_QUERIES; q++) {
    v_f32 m = v_load(t->block_max + q * V_LANES);
    for (int64_t key = edge; key < see->end[q]; key++) {
      v_mask sees = v_ge_i(limits_of(see->limit, q), v_set1_i((int32_t)key));
      m = v_select(sees, v_max(v_load(w->scores + key * V_TILE + q * V_LANES), m), m);
    }
    v_store(t->block_max + q * V_LANES, m);
  }
}

/* ---- softmax ---- */

/* Weights of V_EXP_GROUP keys of one vector, from s[i * V_TILE]. */
V_INLINE void weights_group(v_f32 p[V_EXP_GROUP], const float *s, v_f32 m, v_f32 scale,
                            const bool sleef) {
  V_EACH(i) p[i] = v_mul(v_sub(v_load(s + i * V_TILE), m), scale);
  if (sleef) {
    V_EACH(i) p[i] = v_exp2_sleef(p[i]);
  } else {
    v_exp2_group(p);
  }
}

/* Weights of one vector, in place; returns their sum, by key index modulo ATTN_WEIGHT_SUMS. */
V_INLINE v_f32 weights_vector(float *s, int64_t begin, int64_t whole, int64_t end, v_i32 limit,
                              v_f32 m, v_f32 scale, const bool sleef) {
  v_f32 sum[ATTN_WEIGHT_SUMS];
  V_UNROLL for (int i = 0; i < ATTN_WEIGHT_SUMS; i++) sum[i] = v_zero();
  int64_t key = begin / ATTN_WEIGHT_SUMS * ATTN_WEIGHT_SUMS;
  if (key < begin) whole = 0; /* a block whose first keys are not there: all by mask */
  for (; key + ATTN_WEIGHT_SUMS <= whole; key += ATTN_WEIGHT_SUMS) {
    V_UNROLL for (int g = 0; g < ATTN_WEIGHT_SUMS; g += V_EXP_GROUP) {
      float *at = s + (key + g) * V_TILE;
      v_f32 p[V_EXP_GROUP];
      weights_group(p, at, m, scale, sleef);
      V_EACH(i) v_store(at + i * V_TILE, p[i]);
      V_EACH(i) sum[g + i] = v_add(sum[g + i], p[i]);
    }
  }
  /* Keys outside add the 0 of no lane seeing them; the score rows exist. */
  for (; key < end; key += ATTN_WEIGHT_SUMS) {
    V_UNROLL for (int g = 0; g < ATTN_WEIGHT_SUMS; g += V_EXP_GROUP) {
      float *at = s + (key + g) * V_TILE;
      v_f32 p[V_EXP_GROUP];
      weights_group(p, at, m, scale, sleef);
      V_EACH(i) {
        v_mask seen = v_ge_i(limit, v_set1_i((int32_t)(key + g + i)));
        p[i] = key + g + i < begin ? v_zero() : v_keep(seen, p[i]);
        v_store(at + i * V_TILE, p[i]);
        sum[g + i] = v_add(sum[g + i], p[i]);
      }
    }
  }
  V_UNROLL for (int n = ATTN_WEIGHT_SUMS / 2; n > 0; n /= 2) {
    V_UNROLL for (int i = 0; i < n; i++) sum[i] = v_add(sum[i], sum[i + n]);
  }
  return sum[0];
}

/* Scores become weights; the running maximum and sum move on; t->factor rescales the values. */
V_INLINE void softmax_block(const work *w, tile *t, const view *see, float *state,
                            const bool sleef) {
  const v_f32 scale = v_set1(w->weight_scale);
  for (int q = t->from; q < V_QUERIES; q++) {
    const int at = q * V_LANES;
    v_f32 old = v_load(tile_max(state) + at);
    v_f32 m = v_max(v_load(t->block_max + at), old);
    v_f32 safe = finite_max(m);
    v_f32 factor = rescale_factor(old, safe, scale);
    v_f32 sum = weights_vector(w->scores + at, see->begin, see->whole[q], see->end[q],
                               limits_of(see->limit, q), safe, scale, sleef);
    v_store(tile_max(state) + at, m);
    v_store(tile_sum(state) + at, v_fma(v_load(tile_sum(state) + at), factor, sum));
    v_store(t->factor + at, factor);
  }
}

static V_NOINLINE void softmax_inline(const work *w, tile *t, const view *see, float *state) {
  softmax_block(w, t, see, state, false);
}

static V_NOINLINE void softmax_sleef(const work *w, tile *t, const view *see, float *state) {
  softmax_block(w, t, see, state, true);
}

static void dropout_block(const work *w, const tile *t, const view *see, int64_t key) {
  const int64_t keys = see->end[V_QUERIES - 1];
  w->task->dropout(w->task->dropout_user, t->lane, t->lanes, 1, key, keys, V_TILE,
                   w->dropout + tile_pad(t));
  for (int q = 0; q < V_QUERIES; q++) {
    for (int64_t j = see->begin; j < see->end[q]; j++) {
      const int64_t at = j * V_TILE + q * V_LANES;
      /* By choice, not by product: a dropped NaN is dropped. */
      v_f32 p = v_keep(v_lt(v_zero(), v_load(w->dropout + at)), v_load(w->scores + at));
      v_store(w->scores + at, p);
    }
  }
}

/* ---- values ---- */

/* O <- O rescaled + this block's sum; `first`: there is nothing yet. */
V_INLINE void values_join(tile_acc *acc, float *o, const float *factor, bool first) {
  V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
    v_f32 f = v_load(factor + q * V_LANES);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      float *at = o + r * V_TILE + q * V_LANES;
      v_store(at, first ? acc->at[r][q] : v_fma(v_load(at), f, acc->at[r][q]));
    }
  }
}

/* V_ROWS rows of O, with vectors [from, V_QUERIES), for keys that all their lanes see. */
V_INLINE void values_whole(const int from, const float *const left[V_ROWS], int64_t step,
                           const float *weights, int64_t keys, float *o, const float *factor,
                           bool first) {
  tile_acc acc;
  tile_zero(&acc);
  tile_accumulate_from(&acc, from, left, step, weights, keys);
  values_join(&acc, o, factor, first);
}

/* One step of the staircase: keys [begin, see->end[q]), which vectors behind q see whole and vector q by mask. */
V_INLINE void values_step(tile_acc *acc, const int q, const view *see, int64_t begin,
                          const float *const left[V_ROWS], int64_t step, const float *weights) {
  const float *at[V_ROWS];
  V_UNROLL for (int r = 0; r < V_ROWS; r++) at[r] = left[r] + begin * step;
  tile_accumulate_masked(acc, q, at, step, weights + begin * V_TILE, see->end[q] - begin,
                         limits_of(see->limit, q), (int32_t)begin);
}

/* Keys that vectors [from, V_QUERIES) see whole. */
V_INLINE void values_from(tile_acc *acc, const int from, const view *see,
                          const float *const left[V_ROWS], int64_t step, const float *weights) {
  const float *at[V_ROWS];
  V_UNROLL for (int r = 0; r < V_ROWS; r++) at[r] = left[r] + see->begin * step;
  tile_accumulate_from(acc, from, at, step, weights + see->begin * V_TILE,
                       see->whole[from] - see->begin);
}

/* The same for a block at an edge: on the diagonal, or with keys that are not there. */
V_INLINE void values_edge(const int from, const float *const left[V_ROWS], int64_t step,
                          const float *weights, const view *see, float *o, const float *factor,
                          bool first) {
  tile_acc acc;
  tile_zero(&acc);
  values_from(&acc, from, see, left, step, weights);
  values_step(&acc, from, see, see->whole[from], left, step, weights);
  if (from < 1) values_step(&acc, 1, see, see->end[0], left, step, weights);
#if V_QUERIES > 2
  if (from < 2) values_step(&acc, 2, see, see->end[1], left, step, weights);
#endif
  values_join(&acc, o, factor, first);
}

/* Not inlined: the accumulators need every register. */
#define VALUES(from)                                                                               \
  static V_NOINLINE void values_whole_##from(const float *const left[V_ROWS], int64_t step,        \
                                             const float *weights, int64_t keys, float *o,         \
                                             const float *factor, bool first) {                    \
    values_whole(from, left, step, weights, keys, o, factor, first);                               \
  }                                                                                                \
  static V_NOINLINE void values_edge_##from(const float *const left[V_ROWS], int64_t step,         \
                                            const float *weights, const view *see, float *o,       \
                                            const float *factor, bool first) {                     \
    values_edge(from, left, step, weights, see, o, factor, first);                                 \
  }
FROM_EACH(VALUES)

typedef void (*values_whole_fn)(const float *const left[V_ROWS], int64_t step, const float *weights,
                                int64_t keys, float *o, const float *factor, bool first);
typedef void (*values_edge_fn)(const float *const left[V_ROWS], int64_t step, const float *weights,
                               const view *see, float *o, const float *factor, bool first);
static const values_whole_fn values_whole_from[] = FROM_TABLE(values_whole);
static const values_edge_fn values_edge_from[] = FROM_TABLE(values_edge);

static void values_block(const work *w, const tile *t, const view *see, float *values,
                         const key_block *block, bool first) {
  const int64_t size = w->task->value_size;
  const bool whole = see->begin == 0 && see->whole[t->from] == block->keys;
  for (int64_t d = 0; d < size; d += V_ROWS, values += V_ROWS * V_TILE) {
    const float *left[V_ROWS];
    const float *panel = block->v + d / VALUE_PANEL * block->v_panel;
    tile_rows(left, panel + d % VALUE_PANEL * block->v_dim, block->v_dim, size - d);
    if (whole) {
      values_whole_from[t->from](left, block->v_row, w->scores, block->keys, values, t->factor,
                                 first);
    } else {
      values_edge_from[t->from](left, block->v_row, w->scores, see, values, t->factor, first);
    }
  }
}

/* ---- one block, one tile ---- */

static void block_step(work *w, tile *t, const key_block *block, bool first) {
  view see;
  view_block(&see, t, block->key, block->begin, block->keys);
  if (see.end[V_QUERIES - 1] == see.begin) return;
  float *state = tree_state(&t->chunks, t->chunks.depth);
  PHASE_BEGIN(ticks);
  scores_block(w, t, &see, block);
  PHASE_NEXT(ticks, ATTN_PHASE_SCORES);
  if (w->exp_sleef) {
    softmax_sleef(w, t, &see, state);
  } else {
    softmax_inline(w, t, &see, state);
  }
  if (w->dropout) dropout_block(w, t, &see, block->key);
  PHASE_NEXT(ticks, ATTN_PHASE_SOFTMAX);
  values_block(w, t, &see, tile_values(state), block, first);
  PHASE_NEXT(ticks, ATTN_PHASE_VALUES);
}

#endif
