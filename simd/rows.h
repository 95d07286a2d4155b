/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Few queries, as in decode: keys lie in the lanes. What tiles do with a query per lane would leave most lanes
 * empty here, and nothing is to be shared by queries but the reading of K and V, once for all that share a kv
 * head:
 *
 *   scores   S[row][key] = sum_d Q[row][d] K[key][d]     K as it lies or transposed, Q broadcast
 *   softmax  along the lanes
 *   values   O[row][.] += sum_key S[row][key] V[key][.]  S broadcast, V where it lies
 *
 * The blocks of a chunk make a span: their scores, then their weights, then their values; where keys must be copied, a
 * block is one. The same additions in the same order as for tiles. How it is read (streams.h):
 *
 *                    scores of groups             scores of rows    values
 *   from a cache     quarters in turn             64 keys           64 keys
 *   from memory      the same, 32 or 64 terms     stages of 64      blocks in turn, or, of fewer than four, stages of 64
 *
 * Part of attention.c. */
#ifndef ATTN_SIMD_ROWS_H
#define ATTN_SIMD_ROWS_H

#include "row_values.h"

/* ---- softmax ---- */

/* Where what row r sees of the block from `key` of the span on ends, from there. */
V_INLINE int64_t block_end(const row_work *w, int64_t r, int64_t key) {
  return clamp(w->end[r] - key, 0, ATTN_KEY_BLOCK);
}

/* Where what is there of that block begins. */
V_INLINE int64_t block_start(const key_block *span, int64_t key) {
  return clamp(span->begin - key, 0, ATTN_KEY_BLOCK);
}

/* Which of V_LANES keys from `key` on are in [begin, end). */
V_INLINE v_mask keys_seen(int64_t key, int64_t begin, int64_t end) {
  const v_mask low = v_ge_i(v_iota_i(), v_set1_i((int32_t)(begin - key)));
  const v_mask high = v_ge_i(v_set1_i((int32_t)(end - key) - 1), v_iota_i());
  return v_and(low, high);
}

/* The greatest of scores [begin, end). Which of two equal zeros makes no difference to any result. */
static float row_max(const float *s, int64_t begin, int64_t end) {
  v_f32 m = v_set1(-INFINITY);
  for (int64_t key = begin / V_LANES * V_LANES; key < end; key += V_LANES) {
    if (key >= begin && key + V_LANES <= end) {
      m = v_max(v_load(s + key), m);
    } else {
      m = v_select(keys_seen(key, begin, end), v_max(v_load(s + key), m), m);
    }
  }
  float lane[V_LANES];
  v_store(lane, m);
  for (int i = 1; i < V_LANES; i++) lane[0] = lane[i] > lane[0] ? lane[i] : lane[0];
  return lane[0];
}

/* Sums by key index modulo ATTN_WEIGHT_SUMS; vectors come in ascending order from a multiple of it. */
typedef struct row_sums {
  v_f32 at[V_LANES < ATTN_WEIGHT_SUMS ? ATTN_WEIGHT_SUMS / V_LANES : 1];
} row_sums;

_Static_assert(V_EXP_GROUP *V_LANES % ATTN_WEIGHT_SUMS == 0, "a group has whole rounds of sums");
_Static_assert(ATTN_KEY_BLOCK % (V_EXP_GROUP * V_LANES) == 0, "a group is of one block");
V_INLINE void row_sums_add(row_sums *sums, const int i, v_f32 p) {
#if V_LANES == 16
  (void)i; /* the lower half is the sums */
  sums->at[0] = v_add(sums->at[0], p);
  sums->at[0] = v_add(sums->at[0], v_upper(p));
#else
  v_f32 *at = &sums->at[i % (ATTN_WEIGHT_SUMS / V_LANES)];
  *at = v_add(*at, p);
#endif
}

V_INLINE float row_sums_total(const row_sums *sums) {
  float t[V_LANES > ATTN_WEIGHT_SUMS ? V_LANES : ATTN_WEIGHT_SUMS];
  for (int i = 0; i * V_LANES < ATTN_WEIGHT_SUMS; i++) v_store(t + i * V_LANES, sums->at[i]);
  return ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
}

/* Scores [begin, end) of a row become weights, everything else up to the next whole group 0; their sum. */
V_INLINE float row_weights(float *s, int64_t begin, int64_t end, v_f32 m, v_f32 scale,
                           const bool sleef) {
  enum { GROUP = V_EXP_GROUP * V_LANES };
  row_sums sums;
  for (int i = 0; i * V_LANES < ATTN_WEIGHT_SUMS; i++) sums.at[i] = v_zero();
  int64_t key = begin / GROUP * GROUP;
  for (; key < end; key += GROUP) {
    v_f32 p[V_EXP_GROUP];
    V_EACH(i) p[i] = v_mul(v_sub(v_load(s + key + i * V_LANES), m), scale);
    if (sleef) {
      V_EACH(i) p[i] = v_exp2_sleef(p[i]);
    } else {
      v_exp2_group(p);
    }
    if (key < begin || key + GROUP > end) {
      V_EACH(i) p[i] = v_keep(keys_seen(key + i * V_LANES, begin, end), p[i]);
    }
    V_EACH(i) v_store(s + key + i * V_LANES, p[i]);
    V_EACH(i) row_sums_add(&sums, i, p[i]);
  }
  return row_sums_total(&sums);
}

static V_NOINLINE float row_weights_inline(float *s, int64_t begin, int64_t end, float m,
                                           float scale) {
  return row_weights(s, begin, end, v_set1(m), v_set1(scale), false);
}

static V_NOINLINE float row_weights_sleef(float *s, int64_t begin, int64_t end, float m,
                                          float scale) {
  return row_weights(s, begin, end, v_set1(m), v_set1(scale), true);
}

/* The running maxima move on from block to block; w->max are those that each block subtracts, w->factor
 * rescale what was summed before it. */
static void rows_maxima(row_work *w, const key_block *span, int64_t blocks, float *state) {
  float *max = form_max(state);
  const v_f32 scale = v_set1(w->form.weight_scale);
  for (int64_t i = 0; i < blocks; i++) {
    const int64_t key = i * ATTN_KEY_BLOCK, begin = block_start(span, key);
    for (int64_t r = 0; r < w->rows; r++) {
      w->max[i][r] = row_max(w->scores + r * SCORES_ROW + key, begin, block_end(w, r, key));
    }
  }
  for (int64_t r = 0; r < w->rows; r += V_LANES) {
    v_f32 old = v_load(max + r);
    for (int64_t i = 0; i < blocks; i++) {
      const v_f32 m = v_max(v_load(w->max[i] + r), old), safe = finite_max(m);
      v_store(w->max[i] + r, safe);
      v_store(w->factor[i] + r, rescale_factor(old, safe, scale));
      old = m;
    }
    v_store(max + r, old);
  }
}

/* Scores become weights; the running sums move on. Meanwhile so many lines a row and block are
 * prefetched. */
static void rows_weights(row_work *w, const key_block *span, int64_t blocks, int64_t lines,
                         float *state) {
  float *sum = form_sum(&w->form, state);
  for (int64_t i = 0; i < blocks; i++) {
    const int64_t key = i * ATTN_KEY_BLOCK, begin = block_start(span, key);
    for (int64_t r = 0; r < w->rows; r++) {
      float *s = w->scores + r * SCORES_ROW + key;
      if (lines > 0) streams_prefetch_now(&w->ahead, lines);
      w->sum[i][r] = (w->exp_sleef ? row_weights_sleef : row_weights_inline)(
          s, begin, block_end(w, r, key), w->max[i][r], w->form.weight_scale);
    }
  }
  for (int64_t r = 0; r < w->rows; r += V_LANES) {
    v_f32 l = v_load(sum + r);
    for (int64_t i = 0; i < blocks; i++) {
      l = v_fma(l, v_load(w->factor[i] + r), v_load(w->sum[i] + r));
    }
    v_store(sum + r, l);
  }
}

static void rows_dropout(const row_work *w, const key_block *span) {
  w->task->dropout(w->task->dropout_user, w->task->lane, w->rows, SCORES_ROW, span->key, span->keys,
                   1, w->keep);
  for (int64_t r = 0; r < w->rows; r++) {
    float *s = w->scores + r * SCORES_ROW;
    const float *keep = w->keep + r * SCORES_ROW;
    /* By choice, not by product: a dropped NaN is dropped. */
    for (int64_t j = span->begin; j < w->end[r]; j++) s[j] = keep[j] > 0.0f ? s[j] : 0.0f;
  }
}

/* ---- spans ---- */

/* Whether the kernel can read keys where they lie: dense rows, enough of them in a page; or groups that begin where
 * blocks do. */
static bool readable(const attn_attention_task *task) {
  return task->k_dim == 1 && task->v_dim == 1 && (!task->table || task->page_size % 16 == 0) &&
         task->k_interleaved == groups_aligned(task);
}

/* Keys of the span from its i-th on, at most so many: where they lie, or in the copy. Where they lie is kept, as
 * far as their page goes: a page has most often more keys than are asked for. Inlined, as what calls it for every group:
 * 3 % of decode from a cache. */
V_INLINE key_run rows_run(row_work *w, const key_block *span, int64_t i, int64_t most) {
  if (span->k) return (key_run){span->k + i * span->k_row, span->v + i * span->v_row, most};
  key_run *page = &w->page;
  int64_t behind = span->key + i - w->page_key;
  if (behind < 0 || behind >= page->keys) {
    w->page_key += behind;
    behind = 0;
    *page = run_of(w->task, w->page_key, w->reach - w->page_key);
  }
  return (key_run){page->k + behind * span->k_row, page->v + behind * span->v_row,
                   clamp(page->keys - behind, 0, most)};
}

static int64_t span_blocks(const key_block *span) {
  return (span->keys + ATTN_KEY_BLOCK - 1) / ATTN_KEY_BLOCK;
}

/* Where the stage that key j of the span is in ends. */
static int64_t stage_end(const key_block *span, int64_t j) {
  return clamp(j - j % STAGE_KEYS + STAGE_KEYS, 0, span->keys);
}

/* Behind the last key: an empty one. */
static void stage_begin(streams *a, bool values, const key_block *span, int64_t j) {
  streams_begin(a, values, span->key + j, span->key + stage_end(span, j), STAGE_KEYS / STREAMS);
}

/* The stage from key j on is loaded, and the next one is prefetched while computing with it. */
static void stage_load(row_work *w, bool values, const key_block *span, int64_t j) {
  if (!w->ahead.on) return;
  stage_begin(&w->ahead, values, span, j);
  streams_load(&w->ahead, streams_lines(&w->ahead, STAGE_KEYS / STREAMS));
  stage_begin(&w->ahead, values, span, stage_end(span, j));
}

/* So many lines of each stream are loaded, and those behind prefetched while computing with them. */
static void turn_load(row_work *w, streams *loaded, int64_t lines) {
  if (!loaded->on) return;
  streams_load(loaded, lines);
  w->ahead = *loaded;
}

/* Turns are longer where there is more to do with what is read. */
static int64_t turn_scale(const row_work *w) { return w->rows > 4 ? 2 : 1; }

/* Keys of each block whose values are added in turn. */
static int64_t turn_keys(const row_work *w) {
  int64_t keys = TURN_KEYS;
  while (keys > 1 && keys * w->task->value_size > turn_scale(w) * TURN_FLOATS) keys /= 2;
  return keys;
}

static void turns_begin(streams *a, const key_block *span) {
  streams_begin(a, true, span->key, span->key + span->keys, ATTN_KEY_BLOCK);
}

static void scores_of_rows(row_work *w, const key_block *span) {
  for (int64_t j = span->begin, end; j < span->keys; j = end) {
    end = stage_end(span, j);
    stage_load(w, false, span, j);
    for (int64_t n; j < end; j += n) {
      const key_run run = rows_run(w, span, j, end - j);
      n = run.keys;
      scores_keys(w, run.k, span->k_row, n, w->scores + j);
    }
  }
}

/* Groups of the span, `apart` keys from one to the next, from the one at `key` on. */
V_INLINE group_list groups_from(row_work *w, const key_block *span, int64_t key, int64_t apart) {
  group_list list = {.groups = 0};
  for (; key < span->keys && list.groups < STREAMS; key += apart) {
    list.k[list.groups] = rows_run(w, span, key, 1).k;
    list.scores[list.groups++] = w->scores + key;
  }
  return list;
}

/* From memory groups take turns every few terms, but only of a single run: a later run is added as a
 * whole to those before. */
V_INLINE void scores_in_turn(row_work *w, const group_list *list, streams *loaded) {
  const int64_t size = w->task->head_size, terms = turn_scale(w) * TURN_TERMS;
  const bool cut = w->ahead.on && size <= ATTN_DOT_RUN;
  for (int64_t d = 0, n; d < size; d += n) {
    n = clamp(size - d, 0, cut ? terms : ATTN_DOT_RUN);
    if (cut) turn_load(w, loaded, n);
    scores_groups(w, list, d, n);
  }
}

/* Keys of a quarter of so many groups. From memory every group is in one; from a cache they have as many groups each,
 * and up to three are left, so that those in turn are always four. */
static int64_t quarter_keys(const row_work *w, int64_t groups) {
  if (w->ahead.on || groups < STREAMS) return divide_up(groups, STREAMS) * ATTN_KEY_GROUP;
  return groups / STREAMS * ATTN_KEY_GROUP;
}

/* The groups of each quarter of the span are a stream: streams go on, and are read faster than neighbouring groups, by
 * 10 % from the third cache level. */
static void scores_of_groups(row_work *w, const key_block *span) {
  const int64_t first = span->begin / ATTN_KEY_GROUP * ATTN_KEY_GROUP;
  const int64_t quarter = quarter_keys(w, divide_up(span->keys - first, ATTN_KEY_GROUP));
  streams_begin(&w->ahead, false, span->key + first, span->key + attn_whole_groups(span->keys),
                quarter);
  streams loaded = w->ahead;
  for (int64_t i = first; i < first + quarter; i += ATTN_KEY_GROUP) {
    const group_list list = groups_from(w, span, i, quarter);
    scores_in_turn(w, &list, &loaded);
  }
  const int64_t rest = first + STREAMS * quarter;
  if (rest >= span->keys) return;
  const group_list list = groups_from(w, span, rest, ATTN_KEY_GROUP);
  scores_in_turn(w, &list, &loaded);
}

/* Keys [j, end) of the span, of one block. */
static void values_between(row_work *w, const key_block *span, int64_t j, int64_t end) {
  for (int64_t n; j < end; j += n) {
    const key_run run = rows_run(w, span, j, end - j);
    n = run.keys;
    values_keys(w, j, run.v, span->v_row, n);
  }
}

/* One block after the other. */
static void values_in_order(row_work *w, const key_block *span) {
  const int64_t most = w->ahead.on ? STAGE_PART : STAGE_KEYS;
  for (int64_t j = span->begin, end; j < span->keys; j = end) {
    end = stage_end(span, j);
    stage_load(w, true, span, j);
    for (; j < end; j += most) values_between(w, span, j, clamp(j + most, 0, end));
  }
}

/* Some keys of each block in turn. */
static void values_in_turn(row_work *w, const key_block *span) {
  const int64_t turn = turn_keys(w);
  streams loaded = w->ahead;
  turns_begin(&loaded, span);
  for (int64_t j = 0; j < ATTN_KEY_BLOCK; j += turn) {
    turn_load(w, &loaded, streams_lines(&loaded, turn));
    for (int64_t i = j; i < span->keys; i += ATTN_KEY_BLOCK) {
      values_between(w, span, i, clamp(i + turn, 0, span->keys));
    }
  }
}

/* Weights of all blocks; meanwhile the first values are prefetched, some with every row. */
static void span_softmax(row_work *w, const key_block *span, bool turns, float *state) {
  const int64_t blocks = span_blocks(span), keys = turns ? turn_keys(w) : STAGE_KEYS / STREAMS;
  int64_t lines = 0;
  if (turns) {
    turns_begin(&w->ahead, span);
  } else {
    stage_begin(&w->ahead, true, span, span->begin);
  }
  if (w->ahead.on) lines = divide_up(streams_lines(&w->ahead, keys), blocks * w->rows);
  rows_maxima(w, span, blocks, state);
  rows_weights(w, span, blocks, lines, state);
  if (w->keep) rows_dropout(w, span);
}

/* The block close together in w->near: its keys interleaved, its values in rows. */
static void block_copy(const row_work *w, key_block *b) {
  const attn_attention_task *task = w->task;
  const int64_t size = task->value_size;
  float *values = w->near + ATTN_KEY_BLOCK * task->head_size;
  pack_keys(task, b, w->near);
  for (int64_t j = b->begin, n; j < b->keys; j += n) {
    const key_run run = run_of(task, b->key + j, b->keys - j);
    n = run.keys;
    attn_copy_rows(values + j * size, run.v, task->v_row, task->v_dim, size, n);
  }
  b->interleaved = true;
  b->k = w->near, b->k_row = task->head_size;
  b->v = values, b->v_row = size;
}

static void rows_span(row_work *w, int64_t key, int64_t begin, int64_t keys, bool first) {
  float *state = tree_state(&w->chunks, w->chunks.depth);
  key_block span = {.key = key,
                    .begin = begin,
                    .keys = keys,
                    .k_row = w->task->k_row,
                    .v_row = w->task->v_row,
                    .interleaved = groups_aligned(w->task)};
  const int64_t blocks = span_blocks(&span);
  const bool turns = w->ahead.on && begin == 0 && blocks == SPAN_BLOCKS;
  PHASE_BEGIN(ticks);
  if (!readable(w->task)) block_copy(w, &span);
  PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
  for (int64_t r = 0; r < w->rows; r++) {
    w->end[r] = (int32_t)clamp((int64_t)w->last[r] + 1 - key, begin, keys);
  }
  (span.interleaved ? scores_of_groups : scores_of_rows)(w, &span);
  PHASE_NEXT(ticks, ATTN_PHASE_SCORES);
  span_softmax(w, &span, turns, state);
  PHASE_NEXT(ticks, ATTN_PHASE_SOFTMAX);
  for (int64_t d = 0; d < blocks * w->rows * w->value_row; d += V_LANES) {
    v_store(w->sums + d, v_zero());
  }
  (turns ? values_in_turn : values_in_order)(w, &span);
  for (int64_t i = 0; i < blocks; i++) values_add(w, i, state, first && i == 0);
  PHASE_NEXT(ticks, ATTN_PHASE_VALUES);
}

static void rows_chunk(row_work *w, int64_t chunk) {
  const chunk_keys c = chunk_of(w->task, chunk, w->reach);
  if (c.begin == c.end) return;
  form_clear(&w->form, tree_state(&w->chunks, w->chunks.depth));
  for (int64_t key = c.block; key < c.end; key += w->span) {
    rows_span(w, key, clamp(c.begin - key, 0, w->span), clamp(c.end - key, 0, w->span),
              key == c.block);
  }
  tree_push(&w->chunks, chunk, form_merge, &w->form);
}

/* ---- the task ---- */

static void rows_pack(const row_work *w) {
  const attn_attention_task *task = w->task;
  const v_f32 sign = v_set1(task->scale < 0.0f ? -0.0f : 0.0f);
  for (int64_t i = 0; i < w->rows; i++) {
    const int64_t row = (task->lane + i) / task->group, head = (task->lane + i) % task->group;
    const float *q = task->q + row * task->q_row + head * task->q_head;
    float *to = w->query + i * w->query_row;
    for (int64_t d = 0; d < task->head_size; d += V_LANES) {
      v_f32 part = load_strided(q + d * task->q_dim, task->q_dim, task->head_size - d);
      v_store(to + d, v_xor(part, sign));
    }
  }
}

/* A task's workspace, in floats from its start. */
typedef struct row_layout {
  int64_t query, scores, sums, keep, near, panel, few, states, end;
} row_layout;

static row_layout row_layout_of(const attn_attention_task *task, int64_t levels) {
  const int64_t rows = task->lanes, size = task->head_size;
  const int64_t block =
      (rows + V_ROWS - 1) / V_ROWS * V_ROWS * SCORES_ROW; /* whole tiles, and three rows as four */
  const int64_t run = attn_state_pad(run_terms(size, 0));
  row_layout l;
  l.query = (int64_t)(sizeof(row_work) + 63) / 64 * 64 / (int64_t)sizeof(float);
  l.scores = l.query + rows * attn_state_pad(task->head_size);
  l.sums = l.scores + block;
  l.keep = l.sums + SPAN_BLOCKS * rows * attn_state_pad(task->value_size);
  l.near = l.keep + (task->dropout ? block : 0);
  l.panel = l.near + ATTN_KEY_BLOCK * (size + task->value_size);
  l.few = l.panel + (rows < PANEL_ROWS ? 0 : run * V_TILE);
  l.states = l.few + attn_state_pad(V_LANES * task->head_size);
  l.end = l.states + levels * attn_state_floats(task->value_size, rows);
  return l;
}

static row_work *rows_begin(const attn_kernels *kernels, const attn_attention_task *task,
                            void *workspace, int64_t levels) {
  const row_layout l = row_layout_of(task, levels);
  const bool in_place = readable(task);
  float *space = workspace;
  row_work *w = workspace;
  w->task = task;
  w->query = space + l.query;
  w->scores = space + l.scores;
  w->sums = space + l.sums;
  w->keep = task->dropout ? space + l.keep : NULL;
  w->near = space + l.near;
  w->panel = space + l.panel;
  w->few = space + l.few;
  w->rows = task->lanes;
  w->query_row = attn_state_pad(task->head_size);
  w->value_row = attn_state_pad(task->value_size);
  w->span = in_place ? ATTN_KEY_CHUNK : ATTN_KEY_BLOCK;
  w->page_key = w->page.keys = 0;
  w->exp_sleef = kernels->exp_sleef;
  w->form = form_of(task, weight_scale_of(task));
  w->chunks.states = space + l.states;
  w->chunks.floats = attn_state_floats(task->value_size, task->lanes);
  w->chunks.depth = 0;
  w->ahead = (streams){.task = task, .on = task->streaming && in_place};
  /* Lanes behind the rows are computed with, and come to nothing. The rest is not cleared: `end` is of a span, `factor`
   * of its blocks, `page` is empty. */
  memset(w->max, 0, sizeof(w->max));
  memset(w->sum, 0, sizeof(w->sum));
  for (int64_t i = 0; i < w->rows; i++) {
    w->last[i] = row_limit(task, (task->lane + i) / task->group);
  }
  w->reach = (int64_t)w->last[w->rows - 1] + 1;
  return w;
}

/* Whether this kernel is the one for so many lanes. */
static bool rows_few(const attn_attention_task *task) {
  return task->lanes <= (task->streaming || task->table ? MAX_ROWS : NEAR_ROWS);
}

static void rows_attention(const attn_kernels *kernels, const attn_attention_task *task,
                           void *workspace, int64_t levels) {
  row_work *w = rows_begin(kernels, task, workspace, levels);
  PHASE_BEGIN(ticks);
  if (w->reach > 0) rows_pack(w);
  PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
  for (int64_t chunk = task->chunk_begin; chunk < task->chunk_end; chunk++) rows_chunk(w, chunk);
  float *state = tree_finish(&w->chunks, form_merge, &w->form);
  if (!state) {
    state = w->chunks.states;
    memset(state, 0, (size_t)w->chunks.floats * sizeof(float));
    form_clear(&w->form, state);
  }
  if (task->state) {
    memcpy(task->state, state, (size_t)w->chunks.floats * sizeof(float));
  } else {
    form_store(task, &w->form, state);
  }
}

#endif
