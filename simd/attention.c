/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The attention kernel: one body, compiled once per instruction set.
 *
 * Query rows lie in the lanes. A tile is V_TILE lanes; up to MAX_TILES tiles of a task, a band, walk
 * the keys together, so that a block of K and V is fetched once for all of them. Per key block and
 * tile:
 *
 *   scores   S[key][lane] = sum_d K[key][d] Qt[d][lane]      K broadcast, where it lies or packed
 *   softmax  vertical: maximum, exp2 and sum never cross lanes
 *   values   O[d][lane]  += sum_key V[key][d] S[key][lane]   V broadcast, where it lies or packed
 *
 * Causality: lane limits never decrease from lane to lane, so at any key a tile has some vectors
 * that do not see it (skipped), at most one that sees it in part (masked), and the rest whole.
 *
 * The order of additions is the canonical one of docs/numerics.md; nothing here may depend on
 * V_LANES, V_QUERIES or V_ROWS but speed. May not know: engine/, OpenMP, the public headers. */

#include "block.h"
#include "rows.h"

/* ---- chunks and their merge tree ---- */

static void state_clear(float *state) {
  for (int q = 0; q < V_QUERIES; q++) {
    v_store(tile_max(state) + q * V_LANES, v_set1(-INFINITY));
    v_store(tile_sum(state) + q * V_LANES, v_zero());
  }
}

/* left <- left merged with right. A lane without visible keys on one side keeps the other's. */
static void state_merge(const void *how, float *left, float *right) {
  const work *w = how;
  const v_f32 scale = v_set1(w->weight_scale);
  const int64_t rows = padded(w->task->value_size);
  for (int q = 0; q < V_QUERIES; q++) {
    const int at = q * V_LANES;
    v_f32 ml = v_load(tile_max(left) + at), mr = v_load(tile_max(right) + at);
    v_f32 m = v_max(mr, ml), safe = finite_max(m);
    v_f32 fl = rescale_factor(ml, safe, scale), fr = rescale_factor(mr, safe, scale);
    v_store(tile_max(left) + at, m);
    v_f32 sl = v_load(tile_sum(left) + at), sr = v_load(tile_sum(right) + at);
    v_store(tile_sum(left) + at, v_fma(sr, fr, v_mul(sl, fl)));
    float *to = tile_values(left) + at;
    const float *from = tile_values(right) + at;
    for (int64_t d = 0; d < rows; d++, to += V_TILE, from += V_TILE) {
      v_store(to, v_fma(v_load(from), fr, v_mul(v_load(to), fl)));
    }
  }
}

static void chunk_step(work *w, int64_t chunk) {
  const attn_attention_task *task = w->task;
  const chunk_keys c = chunk_of(task, chunk, w->reach);
  if (c.begin == c.end) return;
  /* Later tiles see no fewer keys. */
  int64_t first = 0;
  while (first < w->tiles && w->tile[first].limit[V_TILE - 1] < c.begin) first++;
  for (int64_t i = first; i < w->tiles; i++) {
    state_clear(tree_state(&w->tile[i].chunks, w->tile[i].chunks.depth));
  }
  for (int64_t key = c.block; key < c.end; key += ATTN_KEY_BLOCK) {
    PHASE_BEGIN(ticks);
    key_block block = block_begin(task, &w->packed, key, clamp(c.begin - key, 0, ATTN_KEY_BLOCK),
                                  clamp(c.end - key, 0, ATTN_KEY_BLOCK));
    w->upcoming.key = key + block.keys;
    PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
    for (int64_t i = first; i < w->tiles; i++) {
      block_step(w, &w->tile[i], &block, key == c.block);
    }
  }
  for (int64_t i = first; i < w->tiles; i++) {
    tree_push(&w->tile[i].chunks, chunk, state_merge, w);
  }
}

/* ---- in and out ---- */

/* Where the lanes of a tile are in an array; padding repeats the first one. */
static void lane_offsets(const attn_attention_task *task, const tile *t, int64_t row_stride,
                         int64_t head_stride, int64_t at[V_TILE]) {
  int64_t row = t->lane / task->group, head = t->lane % task->group;
  for (int64_t i = 0; i < V_TILE; i++) {
    at[i] = row * row_stride + head * head_stride;
    if (i < tile_pad(t)) continue;
    if (++head == task->group) {
      head = 0;
      row++;
    }
  }
}

/* The queries of the tile behind `t`, if there is one, on their way to the first cache level while `t` is packed: 1 % of
 * 256 x 32 (Zen 3). */
V_INLINE void prefetch_queries(const work *w, const tile *t) {
  if (++t == w->tile + w->tiles) return;
  lane_rows r = query_rows(w->task, t->lane, t->lanes);
  for (; r.left > 0; next_lane(&r)) prefetch_row(r.at, r.dim, r.size, 1);
}

static void pack_queries(const work *w, tile *t) {
  const attn_attention_task *task = w->task;
  prefetch_queries(w, t);
  const v_f32 sign = v_set1(task->scale < 0.0f ? -0.0f : 0.0f);
  int64_t at[V_TILE];
  lane_offsets(task, t, task->q_row, task->q_head, at);
  for (int q = t->from; q < V_QUERIES; q++) {
    const float *row[V_LANES];
    for (int i = 0; i < V_LANES; i++) row[i] = task->q + at[q * V_LANES + i];
    for (int64_t d = 0; d < task->head_size; d += V_LANES) {
      float *to = t->query + d * V_TILE + q * V_LANES;
      columns_of_rows(to, V_TILE, row, d, task->q_dim, task->head_size, sign);
    }
  }
}

static void tile_begin(work *w, tile *t, int64_t lane, int64_t lanes) {
  int64_t row[V_TILE];
  t->lane = lane;
  t->lanes = lanes;
  t->from = (int)(tile_pad(t) / V_LANES);
  lane_offsets(w->task, t, 1, 0, row);
  for (int64_t i = 0; i < V_TILE; i++) {
    /* Padding beside lanes sees what the first of them sees, so that their vector may be seen whole. */
    t->limit[i] = i < t->from * V_LANES ? -1 : row_limit(w->task, row[i]);
    t->factor[i] = 0.0f; /* stays so in whole vectors of padding, and keeps their values 0 */
  }
}

static void store_lse(const work *w, const tile *t, int q, int64_t first, v_mask seen, v_f32 m,
                      v_f32 l) {
  const attn_attention_task *task = w->task;
  int64_t at[V_TILE];
  float out[V_LANES];
  lane_offsets(task, t, task->lse_row, task->lse_head, at);
  v_store(out, v_select(seen, lse_of(m, l, fabsf(task->scale)), v_set1(-INFINITY)));
  for (int64_t i = first; i < V_LANES; i++) {
    task->lse[at[q * V_LANES + i]] = out[i];
  }
}

/* o = O / l, or 0 for a row that sees no key; and the log-sum-exp. */
static void store_output(const work *w, const tile *t, float *state) {
  const attn_attention_task *task = w->task;
  int64_t at[V_TILE];
  lane_offsets(task, t, task->o_row, task->o_head, at);
  for (int q = t->from; q < V_QUERIES; q++) {
    const int64_t first = clamp(tile_pad(t) - q * V_LANES, 0, V_LANES);
    const v_mask seen = v_ge_i(limits_of(t->limit, q), v_set1_i(0));
    const v_f32 l = v_load(tile_sum(state) + q * V_LANES);
    const float *values = tile_values(state) + q * V_LANES;
    float *out[V_LANES];
    for (int i = 0; i < V_LANES; i++) out[i] = task->o + at[q * V_LANES + i];
    for (int64_t d = 0; d < task->value_size; d += V_LANES) {
      const int64_t n = task->value_size - d;
      v_f32 row[V_LANES];
      V_UNROLL for (int i = 0; i < V_LANES; i++) {
        v_f32 o =
            output_of(v_load(values + (d + i) * V_TILE), l, task->dropout, task->dropout_scale);
        row[i] = v_keep(seen, o);
      }
      v_transpose(row);
      if (first == 0 && task->o_dim == 1 && n >= V_LANES) { /* one branch, not one for every row */
        V_UNROLL for (int i = 0; i < V_LANES; i++) v_store(out[i] + d, row[i]);
        continue;
      }
      for (int64_t i = first; i < V_LANES; i++) {
        store_strided(out[i] + d * task->o_dim, row[i], task->o_dim, n);
      }
    }
    if (task->lse) store_lse(w, t, q, first, seen, v_load(tile_max(state) + q * V_LANES), l);
  }
}

/* The lanes of a tile into the form in which tasks exchange states. */
static void store_state(const work *w, const tile *t, float *state) {
  const attn_attention_task *task = w->task;
  const state_form form = form_of(task, w->weight_scale);
  const int64_t lane = t->lane - task->lane;
  const int64_t pad = tile_pad(t);
  const size_t bytes = (size_t)t->lanes * sizeof(float);
  memcpy(form_max(task->state) + lane, tile_max(state) + pad, bytes);
  memcpy(form_sum(&form, task->state) + lane, tile_sum(state) + pad, bytes);
  for (int64_t i = 0; i < t->lanes; i++) {
    float *to = form_values(&form, task->state, lane + i);
    const float *from = tile_values(state) + pad + i;
    for (int64_t d = 0; d < task->value_size; d++) to[d] = from[d * V_TILE];
  }
}

/* ---- entries ---- */

void ATTN_NAME(interleave)(float *keys, int64_t slot, const float *from, int64_t row, int64_t dim,
                           int64_t size, int64_t rows) {
  for (int64_t n; rows > 0; rows -= n, slot += n, from += n * row) {
    float *to = keys + attn_interleaved_at(slot, size);
    n = slot % V_LANES == 0 && rows >= V_LANES ? V_LANES : 1;
    if (n == 1) {
      for (int64_t d = 0; d < size; d++) to[d * ATTN_KEY_GROUP] = from[d * dim];
      continue;
    }
    const float *at[V_LANES];
    for (int i = 0; i < V_LANES; i++) {
      at[i] = from + i * row;
      if (i + ROWS_AHEAD < rows) prefetch_row(at[i] + ROWS_AHEAD * row, dim, size, 1);
    }
    for (int64_t d = 0; d < size; d += V_LANES) {
      interleave(to + d * ATTN_KEY_GROUP, at, d, dim, size);
    }
  }
}

/* Tiles of each band of a task but that of the first queries, which may have fewer. Their queries and values should
 * leave room in a second cache level for a block of keys and the next: 8 tiles of head size 128 are 1.03 times as fast
 * as 16 (2048 keys, Zen 3 with 512 KB), of 64 as fast. */
static int64_t band_tiles(const attn_attention_task *task) {
  const int64_t tiles = divide_up(task->lanes, V_TILE);
  const int64_t bytes = (task->head_size + task->value_size) * V_TILE * (int64_t)sizeof(float);
  const int64_t most = clamp(V_BAND_BYTES / bytes, MIN_TILES, MAX_TILES);
  return divide_up(tiles, divide_up(tiles, most)); /* evenly */
}

/* A task's workspace: the work itself (a worker's stack may be small), a band's tiles, then what they share. */
typedef struct layout {
  int64_t band, keepable;                    /* tiles; packed blocks that are kept */
  int64_t tiles, scores, keys, dropout, end; /* in floats from the start */
  int64_t tile, stack; /* floats of a tile; those before its stack, its queries */
} layout;

static layout layout_of(const attn_attention_task *task, int64_t levels) {
  /* A tile of keys that begins inside one of V_ROWS, as the first of a block may, ends behind it. */
  const int64_t block = (ATTN_KEY_BLOCK + V_ROWS) * V_TILE;
  const int64_t tiles = divide_up(task->lanes, V_TILE);
  layout l;
  l.band = band_tiles(task);
  l.keepable = packed_keepable(task, divide_up(tiles, l.band));
  l.stack = task->head_size * V_TILE;
  l.tile = l.stack + levels * tile_floats(task->value_size);
  l.tiles = (int64_t)(sizeof(work) + 63) / 64 * 64 / (int64_t)sizeof(float);
  l.scores = l.tiles + l.band * l.tile;
  l.keys = l.scores + block;
  /* A single tile reads each row of a block once, and gains nothing by packing. */
  l.dropout = l.keys + (tiles > 1 || task->table ? packed_floats(task, l.keepable) : 0);
  l.end = l.dropout + (task->dropout ? block : 0);
  return l;
}

static work *work_begin(const attn_kernels *kernels, const attn_attention_task *task,
                        const layout *l, float *space) {
  work *w = (work *)space;
  w->task = task;
  w->weight_scale = weight_scale_of(task);
  w->exp_sleef = kernels->exp_sleef;
  w->scores = space + l->scores;
  w->dropout = task->dropout ? space + l->dropout : NULL;
  w->packed = (packed_keys){.blocks = l->dropout > l->keys ? space + l->keys : NULL,
                            .keepable = l->keepable};
  for (int64_t i = 0; i < l->band; i++) {
    tile *t = &w->tile[i];
    t->query = space + l->tiles + i * l->tile;
    t->chunks.states = t->query + l->stack;
    t->chunks.floats = tile_floats(task->value_size);
  }
  return w;
}

static void band_begin(work *w, int64_t lane, int64_t lanes) {
  w->tiles = divide_up(lanes, V_TILE);
  int64_t n = lanes - (w->tiles - 1) * V_TILE;
  for (int64_t i = 0; i < w->tiles; i++, lane += n, n = V_TILE) {
    tile_begin(w, &w->tile[i], lane, n);
    w->tile[i].chunks.depth = 0;
  }
  w->reach = (int64_t)w->tile[w->tiles - 1].limit[V_TILE - 1] + 1;
}

/* Ends with one state, also for a tile that saw no key. */
static float *tile_finish(const work *w, tile *t) {
  float *state = tree_finish(&t->chunks, state_merge, w);
  if (state) return state;
  memset(t->chunks.states, 0, (size_t)t->chunks.floats * sizeof(float));
  state_clear(t->chunks.states);
  return t->chunks.states;
}

static void band_attention(work *w) {
  const attn_attention_task *task = w->task;
  PHASE_BEGIN(ticks);
  if (w->reach > 0) {
    for (int64_t i = 0; i < w->tiles; i++) pack_queries(w, &w->tile[i]);
  }
  PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
  for (int64_t chunk = task->chunk_begin; chunk < task->chunk_end; chunk++) chunk_step(w, chunk);
  for (int64_t i = 0; i < w->tiles; i++) {
    float *state = tile_finish(w, &w->tile[i]);
    if (task->state) {
      store_state(w, &w->tile[i], state);
    } else {
      store_output(w, &w->tile[i], state);
    }
  }
}

/* The last band first: it sees all keys that any other sees. */
static void tiles_attention(const attn_kernels *kernels, const attn_attention_task *task,
                            void *workspace, int64_t levels) {
  const layout l = layout_of(task, levels);
  work *w = work_begin(kernels, task, &l, workspace);
  for (int64_t left = task->lanes, n; left > 0; left -= n) {
    n = left < l.band * V_TILE ? left : l.band * V_TILE;
    band_begin(w, task->lane + left - n, n);
    w->upcoming = upcoming_after(task, task->lane + left - n, n);
    band_attention(w);
  }
}

/* One more than the tree of the task's chunks has, since it may begin inside a subtree. */
static int64_t task_levels(const attn_attention_task *task) {
  return tree_levels(task->chunk_end - task->chunk_begin) + 1;
}

size_t ATTN_NAME(attention_workspace)(const attn_attention_task *task) {
  const int64_t levels = task_levels(task);
  /* For either kernel where both may be asked. */
  const int64_t rows = task->lanes <= MAX_ROWS ? row_layout_of(task, levels).end : 0;
  const int64_t tiles = task->lanes > NEAR_ROWS ? layout_of(task, levels).end : 0;
  return (size_t)(rows > tiles ? rows : tiles) * sizeof(float);
}

void ATTN_NAME(attention)(const attn_kernels *kernels, const attn_attention_task *task,
                          void *workspace) {
  (rows_few(task) ? rows_attention : tiles_attention)(kernels, task, workspace, task_levels(task));
}

size_t ATTN_NAME(combine_workspace)(const attn_attention_task *task, int64_t count) {
  return (size_t)((tree_levels(count) + 1) * attn_state_floats(task->value_size, task->lanes)) *
         sizeof(float);
}

void ATTN_NAME(combine)(const attn_attention_task *task, const float *states, int64_t first,
                        int64_t count, size_t stride, void *workspace) {
  const state_form form = form_of(task, weight_scale_of(task));
  tree pieces = {.states = workspace, .floats = attn_state_floats(task->value_size, task->lanes)};
  for (int64_t i = 0; i < count; i++) {
    memcpy(tree_state(&pieces, pieces.depth), states + (size_t)i * stride,
           (size_t)pieces.floats * sizeof(float));
    tree_push(&pieces, first + i, form_merge, &form);
  }
  form_store(task, &form, tree_finish(&pieces, form_merge, &form));
}
