/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Few queries, as in decode: keys lie in the lanes. What tiles do with a query per lane would leave most lanes
 * empty here, and nothing is to be shared by queries but the reading of K and V, once for all that share a kv
 * head. Per block of keys:
 *
 *   scores   S[row][key] = sum_d Q[row][d] K[key][d]     K as it lies or transposed, Q broadcast
 *   softmax  along the lanes
 *   values   O[row][.] += sum_key S[row][key] V[key][.]  S broadcast, V where it lies
 *
 * The same additions in the same order as for tiles. Part of attention.c. */
#ifndef ATTN_SIMD_ROWS_H
#define ATTN_SIMD_ROWS_H

#include "row_scores.h"

/* ---- softmax ---- */

/* Where what row r sees of the block from `key` of the span on ends, from there. */
V_INLINE int64_t block_end(const row_work *w, int64_t r, int64_t key) {
  return clamp(w->end[r] - key, 0, ATTN_KEY_BLOCK);
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

/* Scores of block i of the span become weights; the running maxima and sums move on; w->factor[i] rescales the
 * values. */
static void rows_softmax(row_work *w, const key_block *span, int64_t i, float *state) {
  float *max = form_max(state), *sum = form_sum(&w->form, state);
  const v_f32 scale = v_set1(w->form.weight_scale);
  const int64_t key = i * ATTN_KEY_BLOCK, begin = clamp(span->begin - key, 0, ATTN_KEY_BLOCK);
  for (int64_t r = 0; r < w->rows; r++) {
    w->max[r] = row_max(w->scores + r * SCORES_ROW + key, begin, block_end(w, r, key));
  }
  for (int64_t r = 0; r < w->rows; r += V_LANES) {
    const v_f32 old = v_load(max + r), m = v_max(v_load(w->max + r), old), safe = finite_max(m);
    v_store(max + r, m);
    v_store(w->max + r, safe);
    v_store(w->factor[i] + r, rescale_factor(old, safe, scale));
  }
  for (int64_t r = 0; r < w->rows; r++) {
    float *s = w->scores + r * SCORES_ROW + key;
    w->sum[r] = (w->exp_sleef ? row_weights_sleef : row_weights_inline)(
        s, begin, block_end(w, r, key), w->max[r], w->form.weight_scale);
  }
  for (int64_t r = 0; r < w->rows; r += V_LANES) {
    v_store(sum + r, v_fma(v_load(sum + r), v_load(w->factor[i] + r), v_load(w->sum + r)));
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

/* ---- values ---- */

typedef void (*row_values_fn)(const float *weights, const float *v, int64_t v_row, int64_t n,
                              float *sums, int64_t sums_row);

/* Sums of `rows` rows and `vectors` vectors of columns move on by n keys. */
#define ROW_VALUES(rows, vectors)                                                                  \
  static V_NOINLINE void row_values_##rows##_##vectors(const float *weights, const float *v,       \
                                                       int64_t v_row, int64_t n, float *sums,      \
                                                       int64_t sums_row) {                         \
    v_f32 acc[(rows) * (vectors)];                                                                 \
    V_UNROLL for (int i = 0; i < (rows) * (vectors); i++) {                                        \
      acc[i] = v_load(sums + i / (vectors) * sums_row + i % (vectors) * V_LANES);                  \
    }                                                                                              \
    const float *left[rows];                                                                       \
    V_UNROLL for (int r = 0; r < (rows); r++) left[r] = weights + r * SCORES_ROW;                  \
    strip_accumulate(acc, rows, 1, vectors, left, 1, &v, v_row, n);                                \
    V_UNROLL for (int i = 0; i < (rows) * (vectors); i++) {                                        \
      v_store(sums + i / (vectors) * sums_row + i % (vectors) * V_LANES, acc[i]);                  \
    }                                                                                              \
  }
ROW_VALUES(1, 1)
ROW_VALUES(1, 2)
ROW_VALUES(1, 4)
ROW_VALUES(1, 8)
ROW_VALUES(2, 1)
ROW_VALUES(2, 2)
ROW_VALUES(2, 4)
ROW_VALUES(4, 1)
ROW_VALUES(4, 2)
ROW_VALUES(4, 3)

typedef struct values_part {
  int64_t vectors;
  row_values_fn add;
} values_part;

/* Widest first, for 1, 2 and 4 rows. */
static const values_part values_parts[3][4] = {
    {{8, row_values_1_8}, {4, row_values_1_4}, {2, row_values_1_2}, {1, row_values_1_1}},
    {{4, row_values_2_4}, {2, row_values_2_2}, {1, row_values_2_1}},
    {{3, row_values_4_3}, {2, row_values_4_2}, {1, row_values_4_1}}};

/* Columns behind the last whole vector. */
static void row_values_tail(const float *weights, const float *v, int64_t v_row, int64_t n,
                            float *sums, int64_t columns) {
  v_f32 acc = v_load(sums);
  for (int64_t k = 0; k < n; k++) {
    acc = v_fma(v_broadcast(weights + k), v_load_n(v + k * v_row, columns), acc);
  }
  v_store(sums, acc);
}

/* Rows whose values are computed together: 4, 2 or 1 of those left. */
static int64_t values_taken(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/* n keys for `take` rows, 1, 2 or 4, of which all see them. Eight accumulators or more where there is enough to do:
 * as many as hide the latency. */
static void values_rows(row_work *w, int64_t row, int64_t take, int64_t key, const float *v,
                        int64_t v_row, int64_t n) {
  const values_part *part = values_parts[take / 2];
  const float *weights = w->scores + row * SCORES_ROW + key;
  float *sums = w->sums + (key / ATTN_KEY_BLOCK * w->rows + row) * w->value_row;
  const int64_t size = w->task->value_size;
  int64_t d = 0;
  for (int64_t left = size / V_LANES; left > 0; left -= part->vectors) {
    /* Two and two rather than three and one, whose additions would wait for each other. */
    while (part->vectors > left || (part->vectors == 3 && left == 4)) part++;
    part->add(weights, v + d, v_row, n, sums + d, w->value_row);
    d += part->vectors * V_LANES;
    stage_pace(&w->asked, take, part->vectors * V_LANES * n);
  }
  for (int64_t r = 0; r < take && d < size; r++) {
    row_values_tail(weights + r * SCORES_ROW, v + d, v_row, n, sums + r * w->value_row + d,
                    size - d);
  }
}

/* Keys [key, key + n) of the span, which lie at v: what all rows of a few see, then the rest one by one. */
static void values_keys(row_work *w, int64_t key, const float *v, int64_t v_row, int64_t n) {
  for (int64_t r = 0, take; r < w->rows; r += take) {
    take = values_taken(w->rows - r);
    const int64_t common = clamp(w->end[r] - key, 0, n); /* later rows see no fewer */
    if (common > 0) values_rows(w, r, take, key, v, v_row, common);
    for (int64_t i = r + 1; i < r + take; i++) {
      const int64_t own = clamp(w->end[i] - key, 0, n);
      if (own > common) {
        values_rows(w, i, 1, key + common, v + common * v_row, v_row, own - common);
      }
    }
  }
}

/* O <- O rescaled + the sums of block i; `first`: there is nothing yet. */
static void values_add(const row_work *w, int64_t i, float *state, bool first) {
  for (int64_t r = 0; r < w->rows; r++) {
    const v_f32 f = v_set1(w->factor[i][r]);
    const float *b = w->sums + (i * w->rows + r) * w->value_row;
    float *o = form_values(&w->form, state, r);
    for (int64_t d = 0; d < w->value_row; d += V_LANES) {
      v_store(o + d, first ? v_load(b + d) : v_fma(v_load(o + d), f, v_load(b + d)));
    }
  }
}

/* ---- spans ---- */

/* Whether the kernel can read keys where they lie: dense rows, enough of them in a page; or groups that begin where
 * blocks do. */
static bool readable(const attn_attention_task *task) {
  return task->k_dim == 1 && task->v_dim == 1 && (!task->table || task->page_size % 16 == 0) &&
         task->k_interleaved == groups_aligned(task);
}

/* Keys of the span from its i-th on, at most so many: where they lie, or in the copy. */
static key_run rows_run(const row_work *w, const key_block *span, int64_t i, int64_t most) {
  if (!span->k) return run_of(w->task, span->key + i, most);
  return (key_run){span->k + i * span->k_row, span->v + i * span->v_row, most};
}

static int64_t span_blocks(const key_block *span) {
  return (span->keys + ATTN_KEY_BLOCK - 1) / ATTN_KEY_BLOCK;
}

/* A stage of keys [first, end) of the span. */
static void span_stage(stage *a, bool values, const key_block *span, int64_t first, int64_t end,
                       int64_t apart) {
  const int64_t begin = first > span->begin ? first : span->begin;
  if (end > span->keys) end = span->keys;
  stage_begin(a, values, span->key + first, apart, span->key + begin, span->key + end);
}

/* The keys from `first` on are loaded in four streams, and what is computed with them asks for those from `next` on. */
static void stage_keys(row_work *w, bool values, const key_block *span, int64_t first,
                       int64_t next) {
  enum { APART = STAGE_KEYS / STAGE_STREAMS };
  span_stage(&w->loaded, values, span, first, next, APART);
  stage_load(&w->loaded, APART);
  span_stage(&w->asked, values, span, next, next + STAGE_KEYS, APART);
}

static void rows_scores(row_work *w, const key_block *span) {
  for (int64_t j = span->begin, end; j < span->keys; j = end) {
    end = j + STAGE_KEYS < span->keys ? j + STAGE_KEYS : span->keys;
    stage_keys(w, false, span, j, end);
    for (int64_t n; j < end; j += n) {
      const key_run run = rows_run(w, span, j, end - j);
      n = run.keys;
      scores_keys(w, run.k, span->k_row, n, w->scores + j);
    }
  }
}

/* Groups of each quarter of the span in turn: of those that come from memory some terms, else whole runs. */
static void interleaved_scores(row_work *w, const key_block *span) {
  const int64_t size = w->task->head_size, first = span->begin / ATTN_KEY_GROUP * ATTN_KEY_GROUP;
  const int64_t quarter = (span->keys - first + STAGE_STREAMS - 1) / STAGE_STREAMS;
  const int64_t apart = attn_whole_groups(quarter);
  const int64_t most = w->asked.on && size <= ATTN_DOT_RUN ? TURN_TERMS : ATTN_DOT_RUN;
  span_stage(&w->asked, false, span, first, span->keys, apart);
  stage_ask(&w->asked, TERMS_AHEAD * ((w->rows + 3) / 4));
  for (int64_t i = first; i < first + apart; i += ATTN_KEY_GROUP) {
    group_list list = {.groups = 0};
    for (int64_t key = i; key < span->keys; key += apart) {
      list.k[list.groups] = run_of(w->task, span->key + key, 1).k;
      list.scores[list.groups++] = w->scores + key;
    }
    for (int64_t d = 0, n; d < size; d += n) {
      n = size - d < most ? size - d : most;
      scores_groups(w, &list, d, n);
    }
  }
}

/* Keys [j, end) of the span, of one block. */
static void values_of(row_work *w, const key_block *span, int64_t j, int64_t end) {
  for (int64_t n; j < end; j += n) {
    const key_run run = rows_run(w, span, j, end - j);
    n = run.keys;
    values_keys(w, j, run.v, span->v_row, n);
  }
}

/* One block after the other. */
static void rows_values(row_work *w, const key_block *span) {
  const int64_t most = w->asked.on ? 2 * TURN_KEYS : STAGE_KEYS;
  for (int64_t j = span->begin, end; j < span->keys; j = end) {
    end = j - j % STAGE_KEYS + STAGE_KEYS;
    if (end > span->keys) end = span->keys;
    stage_keys(w, true, span, j, end);
    for (; j < end; j += most) values_of(w, span, j, j + most < end ? j + most : end);
  }
}

/* Keys of each block, coming from memory, whose values are added in turn: more where there is more to do with them. */
static int64_t turn_keys(const row_work *w) { return w->rows > 4 ? 2 * TURN_KEYS : TURN_KEYS; }

/* Some keys of each block in turn. */
static void turns_values(row_work *w, const key_block *span) {
  const int64_t turn = turn_keys(w);
  span_stage(&w->loaded, true, span, 0, span->keys, ATTN_KEY_BLOCK);
  for (int64_t j = 0; j < ATTN_KEY_BLOCK; j += turn) {
    stage_load(&w->loaded, turn);
    for (int64_t i = j; i < span->keys; i += ATTN_KEY_BLOCK) {
      const int64_t end = i + turn < span->keys ? i + turn : span->keys;
      values_of(w, span, i < span->begin ? span->begin : i, end);
    }
  }
}

/* Weights of all blocks, and meanwhile the values of the first turn are asked for. */
static void span_softmax(row_work *w, const key_block *span, float *state) {
  const int64_t lines = (w->task->value_size + LINE - 1) / LINE;
  for (int64_t i = 0; i < span_blocks(span); i++) {
    stage_ask(&w->asked, turn_keys(w) / SPAN_BLOCKS * lines);
    rows_softmax(w, span, i, state);
  }
  if (w->keep) rows_dropout(w, span);
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
  const bool turns = w->asked.on && blocks == SPAN_BLOCKS;
  PHASE_BEGIN(ticks);
  if (!readable(w->task)) {
    block_copy(w->task, &span, false, w->near);
    block_copy(w->task, &span, true, w->near);
  }
  PHASE_NEXT(ticks, ATTN_PHASE_PACKING);
  for (int64_t r = 0; r < w->rows; r++) {
    w->end[r] = (int32_t)clamp((int64_t)w->last[r] + 1 - key, begin, keys);
  }
  (span.interleaved ? interleaved_scores : rows_scores)(w, &span);
  PHASE_NEXT(ticks, ATTN_PHASE_SCORES);
  if (turns) span_stage(&w->asked, true, &span, 0, keys, ATTN_KEY_BLOCK);
  span_softmax(w, &span, state);
  PHASE_NEXT(ticks, ATTN_PHASE_SOFTMAX);
  for (int64_t d = 0; d < blocks * w->rows * w->value_row; d += V_LANES) {
    v_store(w->sums + d, v_zero());
  }
  (turns ? turns_values : rows_values)(w, &span);
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
  const int64_t run = attn_state_pad(size < ATTN_DOT_RUN ? size : ATTN_DOT_RUN);
  row_layout l;
  l.query = (int64_t)(sizeof(row_work) + 63) / 64 * 64 / (int64_t)sizeof(float);
  l.scores = l.query + rows * attn_state_pad(task->head_size);
  l.sums = l.scores + block;
  l.keep = l.sums + SPAN_BLOCKS * rows * attn_state_pad(task->value_size);
  l.near = l.keep + (task->dropout ? block : 0);
  l.panel = l.near + near_floats(task);
  l.few = l.panel + (rows < PANEL_ROWS ? 0 : run * V_TILE);
  l.states = l.few + attn_state_pad(V_LANES * task->head_size);
  l.end = l.states + levels * attn_state_floats(task->value_size, rows);
  return l;
}

static row_work *rows_begin(const attn_kernels *kernels, const attn_attention_task *task,
                            void *workspace, int64_t levels) {
  const row_layout l = row_layout_of(task, levels);
  const float weight_scale = weight_scale_of(task);
  float *space = workspace;
  row_work *w = workspace;
  memset(w, 0, sizeof(*w));
  w->task = task;
  w->rows = task->lanes;
  w->query_row = attn_state_pad(task->head_size);
  w->value_row = attn_state_pad(task->value_size);
  w->query = space + l.query;
  w->scores = space + l.scores;
  w->sums = space + l.sums;
  w->keep = task->dropout ? space + l.keep : NULL;
  w->near = space + l.near;
  w->panel = space + l.panel;
  w->few = space + l.few;
  w->exp_sleef = kernels->exp_sleef;
  w->form = form_of(task, weight_scale);
  w->chunks.states = space + l.states;
  w->chunks.floats = attn_state_floats(task->value_size, task->lanes);
  for (int64_t i = 0; i < w->rows; i++) {
    w->last[i] = row_limit(task, (task->lane + i) / task->group);
  }
  w->reach = (int64_t)w->last[w->rows - 1] + 1;
  w->span = readable(task) ? SPAN_BLOCKS * ATTN_KEY_BLOCK : ATTN_KEY_BLOCK;
  w->asked.task = task;
  w->asked.on = task->streaming && readable(task);
  w->loaded = w->asked;
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
