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

#include "block.h"

/* ---- chunks and their merge tree ---- */

static void state_clear(float *state) {
  for (int q = 0; q < V_QUERIES; q++) {
    v_store(state_max(state) + q * V_LANES, v_set1(-INFINITY));
    v_store(state_sum(state) + q * V_LANES, v_zero());
  }
}

/* left <- left merged with right. A lane without visible keys on one side keeps the other's. */
static void state_merge(const work *w, float *left, float *right) {
  const v_f32 scale = v_set1(w->weight_scale);
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

/* The state in work becomes leaf number i; it merges with its left siblings as far as they are complete. A right
 * child whose left sibling is absent takes its parent's place. */
static void stack_push(const work *w, tile *t, int64_t i) {
  int32_t index = (int32_t)i, level = 0;
  for (; index & 1; index >>= 1, level++) {
    const int64_t left = t->depth - 1;
    if (left < 0 || t->node[left].level != level || t->node[left].index != index - 1) continue;
    state_merge(w, tile_state(w, t, left), tile_state(w, t, t->depth));
    t->depth--;
  }
  t->node[t->depth].index = index;
  t->node[t->depth].level = level;
  t->depth++;
}

/* What is left merges from the right: an absent right sibling is the identity. */
static void stack_finish(const work *w, tile *t) {
  for (; t->depth > 1; t->depth--) {
    state_merge(w, tile_state(w, t, t->depth - 2), tile_state(w, t, t->depth - 1));
  }
}

static void chunk_step(work *w, int64_t chunk) {
  const int64_t begin = chunk * ATTN_KEY_CHUNK;
  const int64_t end = clamp(w->reach, begin, begin + ATTN_KEY_CHUNK);
  /* Later tiles see no fewer keys. */
  int64_t first = 0;
  while (first < w->tiles && w->tile[first].limit[V_TILE - 1] < begin) first++;
  for (int64_t i = first; i < w->tiles; i++) {
    state_clear(tile_state(w, &w->tile[i], w->tile[i].depth));
  }
  for (int64_t key = begin; key < end; key += ATTN_KEY_BLOCK) {
    PHASE_BEGIN(ticks);
    key_block block = block_begin(w, key, clamp(end - key, 0, ATTN_KEY_BLOCK));
    PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
    for (int64_t i = first; i < w->tiles; i++) {
      block_step(w, &w->tile[i], &block, key == begin);
    }
  }
  for (int64_t i = first; i < w->tiles; i++) stack_push(w, &w->tile[i], chunk);
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
    const int64_t last = attn_last_key(row[i], w->task->diagonal, w->task->kv_len);
    t->limit[i] = (int32_t)(last < -1 ? -1 : last);
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
        v_f32 o = v_div(v_load(values + (d + i) * V_TILE), l);
        if (task->dropout) o = v_mul(o, v_set1(task->dropout_scale));
        o = v_add(o, v_zero());
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

/* A task's workspace, in floats from its start: the work itself (a worker's stack may be small), tiles,
 * then what they share. */
typedef struct layout {
  int64_t tiles;
  int64_t tile; /* per tile: queries, then the stack */
  int64_t stack;
  int64_t scores, near, dropout, end;
} layout;

static layout layout_of(const attn_attention_task *task, int64_t levels) {
  const int64_t tiles = tiles_of(task->lanes), block = ATTN_KEY_BLOCK * V_TILE;
  /* A single tile reads each row of a block once, and gains nothing by a copy. */
  const int64_t near = tiles < 2 ? 0 : ATTN_KEY_BLOCK * (task->head_size + task->value_size);
  layout l;
  l.tiles = (int64_t)(sizeof(work) + 63) / 64 * 64 / (int64_t)sizeof(float);
  l.stack = task->head_size * V_TILE;
  l.tile = l.stack + levels * state_floats(task->value_size);
  l.scores = l.tiles + tiles * l.tile;
  l.near = l.scores + block;
  l.dropout = l.near + near;
  l.end = l.dropout + (task->dropout ? block : 0);
  return l;
}

static int64_t task_levels(const attn_attention_task *task) {
  return levels_of(task->chunk_end - task->chunk_begin);
}

size_t ATTN_NAME(attention_workspace)(const attn_attention_task *task) {
  return (size_t)layout_of(task, task_levels(task)).end * sizeof(float);
}

size_t ATTN_NAME(combine_workspace)(const attn_attention_task *task, int64_t count) {
  return (size_t)layout_of(task, levels_of(count)).end * sizeof(float);
}

size_t ATTN_NAME(state_size)(int64_t value_size, int64_t lanes) {
  return (size_t)(tiles_of(lanes) * state_floats(value_size));
}

static work *work_begin(const attn_kernels *kernels, const attn_attention_task *task,
                        void *workspace, int64_t levels) {
  const layout l = layout_of(task, levels);
  float *space = workspace;
  work *w = workspace;
  w->task = task;
  w->weight_scale = fabsf(task->scale) * 1.44269504088896340736f; /* log2(e) */
  w->lse_scale = fabsf(task->scale);
  w->exp_sleef = kernels->exp_sleef;
  w->scores = space + l.scores;
  w->near = l.dropout > l.near ? space + l.near : NULL;
  w->dropout = task->dropout ? space + l.dropout : NULL;
  w->tiles = tiles_of(task->lanes);
  for (int64_t i = 0; i < w->tiles; i++) {
    tile *t = &w->tile[i];
    tile_begin(w, t, task->lane + i * V_TILE, clamp(task->lanes - i * V_TILE, 0, V_TILE));
    t->query = space + l.tiles + i * l.tile;
    t->stack = t->query + l.stack;
  }
  w->reach = (int64_t)w->tile[w->tiles - 1].limit[V_TILE - 1] + 1;
  return w;
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
  work *w = work_begin(kernels, task, workspace, task_levels(task));
  PHASE_BEGIN(ticks);
  if (w->reach > 0) {
    for (int64_t i = 0; i < w->tiles; i++) pack_queries(w, &w->tile[i]);
  }
  PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
  for (int64_t chunk = task->chunk_begin; chunk < task->chunk_end; chunk++) chunk_step(w, chunk);
  const size_t floats = (size_t)state_floats(task->value_size);
  for (int64_t i = 0; i < w->tiles; i++) {
    float *state = tile_finish(w, &w->tile[i]);
    if (task->state) {
      memcpy(task->state + (size_t)i * floats, state, floats * sizeof(float));
    } else {
      store_output(w, &w->tile[i], state);
    }
  }
}

void ATTN_NAME(combine)(const attn_kernels *kernels, const attn_attention_task *task,
                        const float *states, int64_t count, size_t stride, void *workspace) {
  const int64_t floats = state_floats(task->value_size);
  work *w = work_begin(kernels, task, workspace, levels_of(count));
  for (int64_t i = 0; i < w->tiles; i++) {
    tile *t = &w->tile[i];
    for (int64_t n = 0; n < count; n++) {
      const float *state = states + (size_t)n * stride + (size_t)(i * floats);
      memcpy(tile_state(w, t, t->depth), state, (size_t)floats * sizeof(float));
      stack_push(w, t, n);
    }
    store_output(w, t, tile_finish(w, t));
  }
}
