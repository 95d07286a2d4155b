/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The attention kernel: one body, compiled once per instruction set.
 *
 * Query rows lie in the lanes. A tile is V_TILE lanes; up to MAX_TILES tiles of one task walk the
 * keys together, so that a block of K and V is fetched once for all of them. Per key block and tile:
 *
 *   scores   S[key][lane] = sum_d K[key][d] Qt[d][lane]      K broadcast where it lies
 *   softmax  vertical: maximum, exp2 and sum never cross lanes
 *   values   O[d][lane]  += sum_key V[key][d] S[key][lane]   V broadcast where it lies
 *
 * Causality: lane limits never decrease from lane to lane, so at any key a tile has some vectors
 * that do not see it (skipped), at most one that sees it in part (masked), and the rest whole.
 *
 * The order of additions is the canonical one of docs/numerics.md; nothing here may depend on
 * V_LANES, V_QUERIES or V_ROWS but speed. May not know: engine/, OpenMP, the public headers. */

#include "body.h"
#include "math.h"
#include "tile.h"

enum { MAX_TILES = ATTN_TASK_TILES };

/* ---- state of a tile: per lane a maximum m, a sum l, and value_size unnormalised values ---- */

static int64_t padded(int64_t value_size) {
  const int64_t to = V_ROWS > V_LANES ? V_ROWS : V_LANES;
  return (value_size + to - 1) / to * to;
}

static int64_t state_floats(int64_t value_size) { return (padded(value_size) + 2) * V_TILE; }

static float *state_max(float *state) { return state; }
static float *state_sum(float *state) { return state + V_TILE; }
static float *state_values(float *state) { return state + 2 * V_TILE; }

typedef struct tile {
  int64_t lane, lanes;   /* of the task's numbering; the rest of the tile is padding */
  int32_t limit[V_TILE]; /* last key that a lane sees; never decreases */
  float *query;          /* head_size x V_TILE, transposed, sign of the scale folded in */
  float *stack;          /* states waiting for their right sibling, then the one in work */
  int64_t depth;         /* states on the stack */
  float factor[V_TILE];  /* rescale factors of the block in work */
  float block_max[V_TILE];
} tile;

typedef struct work {
  const attn_attention_task *task;
  float *scores;  /* ATTN_KEY_BLOCK x V_TILE, becomes the weights */
  float *near;    /* room for a block of K and one of V; NULL: read where they lie */
  float *dropout; /* the shape of the scores; NULL without dropout */
  int64_t reach;  /* keys that any lane sees; nothing behind is read */
  float weight_scale, lse_scale;
  bool exp_sleef;
  int64_t tiles;
  tile tile[MAX_TILES];
} work;

static float *tile_state(const work *w, const tile *t, int64_t i) {
  return t->stack + i * state_floats(w->task->value_size);
}

/* ---- visibility of a key block ---- */

/* Vector q of a tile sees keys [0, whole[q]) of the block in all its lanes, [whole[q], end[q]) in
 * some. Relative to the block's first key and cut to its length. */
typedef struct view {
  int64_t whole[V_QUERIES], end[V_QUERIES];
  int32_t limit[V_TILE];
} view;

static int64_t clamp(int64_t a, int64_t low, int64_t high) {
  return a < low ? low : a > high ? high : a;
}

static void view_block(view *see, const tile *t, int64_t key, int64_t keys) {
  if (t->limit[0] >= key + keys - 1) {
    for (int i = 0; i < V_TILE; i++) see->limit[i] = (int32_t)keys - 1;
    for (int q = 0; q < V_QUERIES; q++) see->whole[q] = see->end[q] = keys;
    return;
  }
  for (int i = 0; i < V_TILE; i++) see->limit[i] = (int32_t)clamp(t->limit[i] - key, -1, keys - 1);
  for (int q = 0; q < V_QUERIES; q++) {
    see->whole[q] = clamp(see->limit[q * V_LANES] + 1, 0, keys);
    see->end[q] = clamp(see->limit[q * V_LANES + V_LANES - 1] + 1, 0, keys);
  }
}

V_INLINE v_i32 view_limit(const view *see, int q) {
  v_i32 limit;
  memcpy(&limit, see->limit + q * V_LANES, sizeof(limit));
  return limit;
}

/* ---- the keys of a block ---- */

typedef struct key_block {
  int64_t key, keys;
  const float *k, *v;
  int64_t k_row, k_dim, v_row, v_dim;
  int64_t ahead; /* keys before this one have been prefetched */
} key_block;

static void copy_rows(float *to, const float *from, int64_t row, int64_t dim, int64_t size,
                      int64_t rows) {
  for (int64_t j = 0; j < rows; j++, to += size, from += row) {
    if (dim == 1) {
      memcpy(to, from, (size_t)size * sizeof(float));
    } else {
      for (int64_t d = 0; d < size; d++) to[d] = from[d * dim];
    }
  }
}

/* Rows with gaps between them are copied close together, since strides of whole pages put every
 * row on the same few cache sets; several tiles then share the copy. */
static key_block block_begin(const work *w, int64_t key, int64_t keys) {
  const attn_attention_task *task = w->task;
  const int64_t size = task->head_size, value_size = task->value_size;
  key_block b = {key,
                 keys,
                 task->k + key * task->k_row,
                 task->v + key * task->v_row,
                 task->k_row,
                 task->k_dim,
                 task->v_row,
                 task->v_dim,
                 key + keys};
  if (w->near && (b.k_row != size || b.k_dim != 1)) {
    copy_rows(w->near, b.k, b.k_row, b.k_dim, size, keys);
    b.k = w->near, b.k_row = size, b.k_dim = 1;
  }
  if (w->near && (b.v_row != value_size || b.v_dim != 1)) {
    float *near = w->near + ATTN_KEY_BLOCK * size;
    copy_rows(near, b.v, b.v_row, b.v_dim, value_size, keys);
    b.v = near, b.v_row = value_size, b.v_dim = 1;
  }
  return b;
}

static void prefetch_row(const float *p, int64_t size) {
  for (int64_t d = 0; d < size; d += 16) __builtin_prefetch(p + d, 0, 2);
}

/* One key of the next block on its way to the second cache level; called at intervals. */
static void block_prefetch(const work *w, key_block *b) {
  if (b->ahead >= w->reach || b->ahead >= b->key + 2 * ATTN_KEY_BLOCK) return;
  prefetch_row(w->task->k + b->ahead * w->task->k_row, w->task->head_size);
  prefetch_row(w->task->v + b->ahead * w->task->v_row, w->task->value_size);
  b->ahead++;
}

/* ---- scores ---- */

/* One run of the dot products of V_ROWS keys with vectors [from, V_QUERIES), stored, or added to the
 * runs before it; with `top`, the sums' maximum joins it. */
V_INLINE void scores_run(const int from, const float *const left[V_ROWS], int64_t step,
                         const float *query, int64_t n, bool join, float *scores, float *top) {
  tile_acc acc;
  tile_zero(&acc);
  tile_accumulate_from(&acc, from, left, step, query, n);
  if (join) {
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      V_UNROLL for (int q = from; q < V_QUERIES; q++) {
        acc.at[r][q] = v_add(v_load(scores + r * V_TILE + q * V_LANES), acc.at[r][q]);
      }
    }
  }
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = from; q < V_QUERIES; q++) {
      v_store(scores + r * V_TILE + q * V_LANES, acc.at[r][q]);
    }
  }
  if (!top) return;
  V_UNROLL for (int q = from; q < V_QUERIES; q++) {
    v_f32 m = v_load(top + q * V_LANES);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) m = v_max(acc.at[r][q], m);
    v_store(top + q * V_LANES, m);
  }
}

/* Not inlined: the accumulators need every register. */
#define SCORES_RUN(from)                                                                           \
  static V_NOINLINE void scores_run_##from(const float *const left[V_ROWS], int64_t step,          \
                                           const float *query, int64_t n, bool join,               \
                                           float *scores, float *top) {                            \
    scores_run(from, left, step, query, n, join, scores, top);                                     \
  }
SCORES_RUN(0)
SCORES_RUN(1)
#if V_QUERIES > 2
SCORES_RUN(2)
#endif

static void scores_tile(int from, const float *left[V_ROWS], int64_t step, const float *query,
                        int64_t size, float *scores, float *top) {
  for (int64_t d = 0; d < size; d += ATTN_DOT_RUN) {
    const int64_t n = size - d < ATTN_DOT_RUN ? size - d : ATTN_DOT_RUN;
    float *last = d + n == size ? top : NULL;
    if (from == 0) scores_run_0(left, step, query, n, d > 0, scores, last);
    if (from == 1) scores_run_1(left, step, query, n, d > 0, scores, last);
#if V_QUERIES > 2
    if (from == 2) scores_run_2(left, step, query, n, d > 0, scores, last);
#endif
    for (int r = 0; r < V_ROWS; r++) left[r] += n * step;
    query += n * V_TILE;
  }
}

/* Scores of a block, and in t->block_max their maximum over visible keys. */
static void scores_block(const work *w, tile *t, const view *see, key_block *block) {
  const int64_t keys = block->keys;
  for (int q = 0; q < V_QUERIES; q++) v_store(t->block_max + q * V_LANES, v_set1(-INFINITY));
  const int64_t last = see->end[V_QUERIES - 1];
  int64_t edge = last; /* from here on the maximum is taken by mask */
  int from = 0;
  for (int64_t key = 0; key < last; key += V_ROWS) {
    const float *left[V_ROWS];
    const int64_t rows = keys - key < V_ROWS ? keys - key : V_ROWS;
    const bool whole = key + rows <= see->whole[0];
    if (!whole && edge == last) edge = key;
    while (see->end[from] <= key) from++;
    tile_rows(left, block->k + key * block->k_row, block->k_row, rows);
    block_prefetch(w, block);
    float *scores = w->scores + key * V_TILE;
    scores_tile(from, left, block->k_dim, t->query, w->task->head_size, scores,
                whole ? t->block_max : NULL);
  }
  for (int q = 0; q < V_QUERIES; q++) {
    v_f32 m = v_load(t->block_max + q * V_LANES);
    for (int64_t key = edge; key < see->end[q]; key++) {
      v_mask seen = v_ge_i(view_limit(see, q), v_set1_i((int32_t)key));
      m = v_select(seen, v_max(v_load(w->scores + key * V_TILE + q * V_LANES), m), m);
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

/* exp2((m - to) * scale), and 0 where m is -inf: no visible key so far. */
V_INLINE v_f32 rescale_factor(v_f32 m, v_f32 to, v_f32 scale) {
  v_f32 d = v_mul(v_sub(m, to), scale);
  return v_drop(v_eq(m, v_set1(-INFINITY)), v_exp2(d));
}

/* A maximum that may be subtracted: a row of scores that are all -inf weighs nothing, not NaN. */
V_INLINE v_f32 finite_max(v_f32 m) { return v_select(v_eq(m, v_set1(-INFINITY)), v_zero(), m); }

/* Weights of one vector, in place; returns their sum, by key index modulo ATTN_WEIGHT_SUMS. */
V_INLINE v_f32 weights_vector(float *s, int64_t whole, int64_t end, v_i32 limit, v_f32 m,
                              v_f32 scale, const bool sleef) {
  v_f32 sum[ATTN_WEIGHT_SUMS];
  V_UNROLL for (int i = 0; i < ATTN_WEIGHT_SUMS; i++) sum[i] = v_zero();
  int64_t key = 0;
  for (; key + ATTN_WEIGHT_SUMS <= whole; key += ATTN_WEIGHT_SUMS) {
    V_UNROLL for (int g = 0; g < ATTN_WEIGHT_SUMS; g += V_EXP_GROUP) {
      float *at = s + (key + g) * V_TILE;
      v_f32 p[V_EXP_GROUP];
      weights_group(p, at, m, scale, sleef);
      V_EACH(i) v_store(at + i * V_TILE, p[i]);
      V_EACH(i) sum[g + i] = v_add(sum[g + i], p[i]);
    }
  }
  /* Keys past the end add the 0 of no lane seeing them; the score rows exist. */
  for (; key < end; key += ATTN_WEIGHT_SUMS) {
    V_UNROLL for (int g = 0; g < ATTN_WEIGHT_SUMS; g += V_EXP_GROUP) {
      float *at = s + (key + g) * V_TILE;
      v_f32 p[V_EXP_GROUP];
      weights_group(p, at, m, scale, sleef);
      V_EACH(i) {
        v_mask seen = v_ge_i(limit, v_set1_i((int32_t)(key + g + i)));
        p[i] = v_keep(seen, p[i]);
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
  for (int q = 0; q < V_QUERIES; q++) {
    const int at = q * V_LANES;
    v_f32 old = v_load(state_max(state) + at);
    v_f32 m = v_max(v_load(t->block_max + at), old);
    v_f32 safe = finite_max(m);
    v_f32 factor = rescale_factor(old, safe, scale);
    v_f32 sum = weights_vector(w->scores + at, see->whole[q], see->end[q], view_limit(see, q), safe,
                               scale, sleef);
    v_store(state_max(state) + at, m);
    v_store(state_sum(state) + at, v_fma(v_load(state_sum(state) + at), factor, sum));
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
  w->task->dropout(w->task->dropout_user, t->lane, t->lanes, key, keys, V_TILE, w->dropout);
  for (int q = 0; q < V_QUERIES; q++) {
    for (int64_t j = 0; j < see->end[q]; j++) {
      const int64_t at = j * V_TILE + q * V_LANES;
      v_f32 f = v_load(w->dropout + at);
      /* By choice, not by product: a dropped NaN is dropped. */
      v_f32 p = v_drop(v_eq(f, v_zero()), v_mul(v_load(w->scores + at), f));
      v_store(w->scores + at, p);
    }
  }
}

/* ---- values ---- */

V_INLINE void values_load(tile_acc *acc, const float *o, const float *factor, bool first) {
  if (first) {
    tile_zero(acc);
    return;
  }
  V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
    v_f32 f = v_load(factor + q * V_LANES);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      acc->at[r][q] = v_mul(v_load(o + r * V_TILE + q * V_LANES), f);
    }
  }
}

V_INLINE void values_store(const tile_acc *acc, float *o) {
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) {
      v_store(o + r * V_TILE + q * V_LANES, acc->at[r][q]);
    }
  }
}

/* V_ROWS rows of O, for keys that every lane sees. `first`: there is nothing to rescale yet. */
static V_NOINLINE void values_whole(const float *const left[V_ROWS], int64_t step,
                                    const float *weights, int64_t keys, float *o,
                                    const float *factor, bool first) {
  tile_acc acc;
  values_load(&acc, o, factor, first);
  tile_accumulate_from(&acc, 0, left, step, weights, keys);
  values_store(&acc, o);
}

/* One step of the staircase: keys [begin, see->end[from]), which vectors behind `from` see whole and
 * vector `from` by mask. */
V_INLINE void values_step(tile_acc *acc, const int from, const view *see, int64_t begin,
                          const float *const left[V_ROWS], int64_t step, const float *weights) {
  const float *at[V_ROWS];
  V_UNROLL for (int r = 0; r < V_ROWS; r++) at[r] = left[r] + begin * step;
  tile_accumulate_masked(acc, from, at, step, weights + begin * V_TILE, see->end[from] - begin,
                         view_limit(see, from), (int32_t)begin);
}

/* The same for a block on the diagonal. */
static V_NOINLINE void values_edge(const float *const left[V_ROWS], int64_t step,
                                   const float *weights, const view *see, float *o,
                                   const float *factor, bool first) {
  tile_acc acc;
  values_load(&acc, o, factor, first);
  tile_accumulate_from(&acc, 0, left, step, weights, see->whole[0]);
  values_step(&acc, 0, see, see->whole[0], left, step, weights);
  values_step(&acc, 1, see, see->end[0], left, step, weights);
#if V_QUERIES > 2
  values_step(&acc, 2, see, see->end[1], left, step, weights);
#endif
  values_store(&acc, o);
}

static void values_block(const work *w, const tile *t, const view *see, float *values,
                         const key_block *block, bool first) {
  const int64_t size = w->task->value_size;
  for (int64_t d = 0; d < size; d += V_ROWS, values += V_ROWS * V_TILE) {
    const float *left[V_ROWS];
    tile_rows(left, block->v + d * block->v_dim, block->v_dim, size - d);
    if (see->whole[0] == block->keys) {
      values_whole(left, block->v_row, w->scores, block->keys, values, t->factor, first);
    } else {
      values_edge(left, block->v_row, w->scores, see, values, t->factor, first);
    }
  }
}

/* ---- one block, one tile ---- */

static void block_step(const work *w, tile *t, key_block *block, bool first) {
  view see;
  view_block(&see, t, block->key, block->keys);
  if (see.end[V_QUERIES - 1] == 0) return;
  float *state = tile_state(w, t, t->depth);
  scores_block(w, t, &see, block);
  if (w->exp_sleef) {
    softmax_sleef(w, t, &see, state);
  } else {
    softmax_inline(w, t, &see, state);
  }
  if (w->dropout) dropout_block(w, t, &see, block->key);
  values_block(w, t, &see, state_values(state), block, first);
}

/* ---- chunks and their merge tree ---- */

static void state_clear(float *state) {
  for (int q = 0; q < V_QUERIES; q++) {
    v_store(state_max(state) + q * V_LANES, v_set1(-INFINITY));
    v_store(state_sum(state) + q * V_LANES, v_zero());
  }
}

/* left <- left merged with right. A lane without visible keys on one side keeps the other's. */
static void state_merge(const work *w, float *left, const float *right_state) {
  const v_f32 scale = v_set1(w->weight_scale);
  float *right = (float *)right_state; /* read only */
  const int64_t rows = padded(w->task->value_size);
  for (int q = 0; q < V_QUERIES; q++) {
    const int at = q * V_LANES;
    v_f32 ml = v_load(state_max(left) + at), mr = v_load(state_max(right) + at);
    v_f32 m = v_max(mr, ml), safe = finite_max(m);
    v_f32 fl = rescale_factor(ml, safe, scale), fr = rescale_factor(mr, safe, scale);
    v_store(state_max(left) + at, m);
    v_f32 sl = v_load(state_sum(left) + at), sr = v_load(state_sum(right) + at);
    v_store(state_sum(left) + at, v_fma(sr, fr, v_mul(sl, fl)));
    float *ol = state_values(left) + at;
    const float *or = state_values(right) + at;
    for (int64_t d = 0; d < rows; d++, ol += V_TILE, or += V_TILE) {
      v_store(ol, v_fma(v_load(or), fr, v_mul(v_load(ol), fl)));
    }
  }
}

/* The state in work becomes leaf or subtree number i; complete pairs merge. */
static void stack_push(const work *w, tile *t, int64_t i) {
  t->depth++;
  for (; i & 1; i >>= 1) {
    t->depth--;
    state_merge(w, tile_state(w, t, t->depth - 1), tile_state(w, t, t->depth));
  }
}

/* What is left merges from the right: an absent right sibling is the identity. */
static void stack_finish(const work *w, tile *t) {
  for (; t->depth > 1; t->depth--) {
    state_merge(w, tile_state(w, t, t->depth - 2), tile_state(w, t, t->depth - 1));
  }
}

static void chunk_step(work *w, int64_t chunk, bool *seen) {
  const int64_t begin = chunk * ATTN_KEY_CHUNK;
  const int64_t end = clamp(w->reach, begin, begin + ATTN_KEY_CHUNK);
  for (int64_t i = 0; i < w->tiles; i++) {
    seen[i] = w->tile[i].limit[V_TILE - 1] >= begin;
    if (seen[i]) state_clear(tile_state(w, &w->tile[i], w->tile[i].depth));
  }
  for (int64_t key = begin; key < end; key += ATTN_KEY_BLOCK) {
    key_block block = block_begin(w, key, clamp(end - key, 0, ATTN_KEY_BLOCK));
    for (int64_t i = 0; i < w->tiles; i++) {
      if (seen[i]) block_step(w, &w->tile[i], &block, key == begin);
    }
  }
  for (int64_t i = 0; i < w->tiles; i++) {
    if (seen[i]) stack_push(w, &w->tile[i], chunk - w->task->chunk_begin);
  }
}

/* ---- in and out ---- */

/* Where the lanes of a tile are in an array; padding lanes repeat the last one. */
static void lane_offsets(const attn_attention_task *task, const tile *t, int64_t row_stride,
                         int64_t head_stride, int64_t at[V_TILE]) {
  int64_t row = t->lane / task->group, head = t->lane % task->group;
  for (int64_t i = 0; i < V_TILE; i++) {
    at[i] = row * row_stride + head * head_stride;
    if (i + 1 >= t->lanes) continue;
    if (++head == task->group) {
      head = 0;
      row++;
    }
  }
}

V_INLINE v_f32 load_strided(const float *p, int64_t stride, int64_t n) {
  if (stride == 1) return n >= V_LANES ? v_load(p) : v_load_n(p, n);
  float gather[V_LANES] = {0};
  for (int64_t j = 0; j < n && j < V_LANES; j++) gather[j] = p[j * stride];
  return v_load(gather);
}

V_INLINE void store_strided(float *p, v_f32 a, int64_t stride, int64_t n) {
  if (stride == 1 && n >= V_LANES) {
    v_store(p, a);
  } else if (stride == 1) {
    v_store_n(p, a, n);
  } else {
    float scatter[V_LANES];
    v_store(scatter, a);
    for (int64_t j = 0; j < n && j < V_LANES; j++) p[j * stride] = scatter[j];
  }
}

static void pack_queries(const work *w, tile *t) {
  const attn_attention_task *task = w->task;
  const v_f32 sign = v_set1(task->scale < 0.0f ? -0.0f : 0.0f);
  int64_t at[V_TILE];
  lane_offsets(task, t, task->q_row, task->q_head, at);
  for (int q = 0; q < V_QUERIES; q++) {
    for (int64_t d = 0; d < task->head_size; d += V_LANES) {
      const int64_t n = task->head_size - d;
      float *to = t->query + d * V_TILE + q * V_LANES;
      v_f32 row[V_LANES];
      for (int i = 0; i < V_LANES; i++) {
        row[i] = load_strided(task->q + at[q * V_LANES + i] + d * task->q_dim, task->q_dim, n);
      }
      v_transpose(row);
      V_UNROLL for (int i = 0; i < V_LANES; i++) {
        if (i < n) v_store(to + i * V_TILE, v_xor(row[i], sign));
      }
    }
  }
}

static void tile_begin(work *w, tile *t, int64_t lane, int64_t lanes) {
  int64_t row[V_TILE];
  t->lane = lane;
  t->lanes = lanes;
  t->depth = 0;
  lane_offsets(w->task, t, 1, 0, row);
  for (int64_t i = 0; i < V_TILE; i++) {
    t->limit[i] = (int32_t)clamp(row[i] + w->task->diagonal, -1, w->task->kv_len - 1);
  }
}

static void store_lse(const work *w, const tile *t, int q, v_mask seen, v_f32 m, v_f32 l) {
  const attn_attention_task *task = w->task;
  /* Visible keys that all weigh nothing (scores of -inf) have no softmax. */
  v_f32 lse = v_select(v_eq(l, v_zero()), v_set1(NAN), v_fma(m, v_set1(w->lse_scale), v_log(l)));
  int64_t at[V_TILE];
  float out[V_LANES];
  lane_offsets(task, t, task->lse_row, task->lse_head, at);
  v_store(out, v_select(seen, v_canonical_nan(lse), v_set1(-INFINITY)));
  for (int64_t i = 0; i < V_LANES && q * V_LANES + i < t->lanes; i++) {
    task->lse[at[q * V_LANES + i]] = out[i];
  }
}

/* o = O / l, or 0 for a row that sees no key; and the log-sum-exp. */
static void store_output(const work *w, const tile *t, float *state) {
  const attn_attention_task *task = w->task;
  view see;
  int64_t at[V_TILE];
  view_block(&see, t, 0, 1);
  lane_offsets(task, t, task->o_row, task->o_head, at);
  for (int q = 0; q < V_QUERIES && q * V_LANES < t->lanes; q++) {
    const v_mask seen = v_ge_i(view_limit(&see, q), v_set1_i(0));
    const v_f32 l = v_load(state_sum(state) + q * V_LANES);
    const float *values = state_values(state) + q * V_LANES;
    for (int64_t d = 0; d < task->value_size; d += V_LANES) {
      v_f32 row[V_LANES];
      for (int i = 0; i < V_LANES; i++) {
        v_f32 o = v_add(v_div(v_load(values + (d + i) * V_TILE), l), v_zero());
        row[i] = v_keep(seen, v_canonical_nan(o));
      }
      v_transpose(row);
      for (int64_t i = 0; i < V_LANES && q * V_LANES + i < t->lanes; i++) {
        store_strided(task->o + at[q * V_LANES + i] + d * task->o_dim, row[i], task->o_dim,
                      task->value_size - d);
      }
    }
    if (task->lse) store_lse(w, t, q, seen, v_load(state_max(state) + q * V_LANES), l);
  }
}

/* ---- entries ---- */

static int64_t tiles_of(int64_t lanes) { return (lanes + V_TILE - 1) / V_TILE; }

/* States on a tile's stack at most: one per level of the tree. */
static int64_t levels_of(int64_t chunks) {
  int64_t levels = 1;
  while (chunks > 1) {
    chunks = (chunks + 1) / 2;
    levels++;
  }
  return levels;
}

static int64_t near_floats(int64_t head_size, int64_t value_size, int64_t tiles) {
  return tiles < 2 ? 0 : ATTN_KEY_BLOCK * (head_size + value_size);
}

size_t ATTN_NAME(attention_workspace)(int64_t head_size, int64_t value_size, int64_t chunks,
                                      int64_t lanes, bool dropout) {
  const int64_t tiles = tiles_of(lanes);
  const int64_t block = ATTN_KEY_BLOCK * V_TILE * (dropout ? 2 : 1);
  const int64_t per_tile = head_size * V_TILE + levels_of(chunks) * state_floats(value_size);
  return (size_t)(block + near_floats(head_size, value_size, tiles) + tiles * per_tile) *
         sizeof(float);
}

size_t ATTN_NAME(combine_workspace)(int64_t value_size, int64_t count, int64_t lanes) {
  return (size_t)(tiles_of(lanes) * levels_of(count) * state_floats(value_size)) * sizeof(float);
}

size_t ATTN_NAME(state_size)(int64_t value_size, int64_t lanes) {
  return (size_t)(tiles_of(lanes) * state_floats(value_size));
}

/* Sets up the tiles of a task; returns the rest of the workspace. */
static float *work_begin(work *w, const attn_kernels *kernels, const attn_attention_task *task,
                         float *space, int64_t query_floats, int64_t levels) {
  w->task = task;
  w->weight_scale = fabsf(task->scale) * 1.44269504088896340736f; /* log2(e) */
  w->lse_scale = fabsf(task->scale);
  w->exp_sleef = kernels->exp_sleef;
  w->tiles = tiles_of(task->lanes);
  for (int64_t i = 0; i < w->tiles; i++) {
    tile *t = &w->tile[i];
    tile_begin(w, t, task->lane + i * V_TILE, clamp(task->lanes - i * V_TILE, 0, V_TILE));
    t->query = space;
    t->stack = t->query + query_floats;
    space = t->stack + levels * state_floats(task->value_size);
  }
  return space;
}

/* Ends with one state, also for a tile that saw no key. */
static float *tile_finish(const work *w, tile *t) {
  float *state = tile_state(w, t, 0);
  stack_finish(w, t);
  if (t->depth == 0) {
    memset(state, 0, (size_t)state_floats(w->task->value_size) * sizeof(float));
    state_clear(state);
  }
  return state;
}

void ATTN_NAME(attention)(const attn_kernels *kernels, const attn_attention_task *task,
                          void *workspace) {
  work w;
  bool seen[MAX_TILES];
  const int64_t levels = levels_of(task->chunk_end - task->chunk_begin);
  w.scores = work_begin(&w, kernels, task, workspace, task->head_size * V_TILE, levels);
  float *space = w.scores + ATTN_KEY_BLOCK * V_TILE;
  const int64_t near = near_floats(task->head_size, task->value_size, w.tiles);
  w.near = near ? space : NULL;
  w.dropout = task->dropout ? space + near : NULL;
  w.reach = w.tile[w.tiles - 1].limit[V_TILE - 1] + 1;
  for (int64_t i = 0; i < w.tiles; i++) pack_queries(&w, &w.tile[i]);
  for (int64_t chunk = task->chunk_begin; chunk < task->chunk_end; chunk++) {
    chunk_step(&w, chunk, seen);
  }
  const size_t floats = (size_t)state_floats(task->value_size);
  for (int64_t i = 0; i < w.tiles; i++) {
    float *state = tile_finish(&w, &w.tile[i]);
    if (task->state) {
      memcpy(task->state + (size_t)i * floats, state, floats * sizeof(float));
    } else {
      store_output(&w, &w.tile[i], state);
    }
  }
}

void ATTN_NAME(combine)(const attn_kernels *kernels, const attn_attention_task *task,
                        const float *states, int64_t count, size_t stride, void *workspace) {
  work w;
  const int64_t floats = state_floats(task->value_size);
  work_begin(&w, kernels, task, workspace, 0, levels_of(count));
  for (int64_t i = 0; i < w.tiles; i++) {
    tile *t = &w.tile[i];
    for (int64_t n = 0; n < count; n++) {
      const float *state = states + (size_t)n * stride + (size_t)(i * floats);
      memcpy(tile_state(&w, t, t->depth), state, (size_t)floats * sizeof(float));
      stack_push(&w, t, n);
    }
    store_output(&w, t, tile_finish(&w, t));
  }
}
