/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What tiles prefetch, little by little between their steps, to the second cache level: keys of the next block; behind
 * the last one, outputs of the band and what the runner reads next.
 *
 * Of arrays whose rows are in pages of memory of their own, as those of (B,T,H,D) often are, every row needs the address
 * of its page first. Those of LOOK_UP rows are looked up side by side, by a prefetch each: one by one they cost 6 %
 * of 2048 x 128 (Zen 3, 8 heads; 16 to 128 rows are alike). Part of attention.c. */
#ifndef ATTN_SIMD_PREFETCH_H
#define ATTN_SIMD_PREFETCH_H

#include "packed.h"

enum {
  LOOK_UP = 32,
  NEXT_ROWS = 256 /* keys and lanes of what is next, at most: more would push out what is in work */
};

/* Rows of queries or outputs, lane by lane. */
typedef struct lane_rows {
  const float *at; /* of the next lane */
  int64_t head;    /* in its group */
  int64_t left;    /* so many lanes are to come */
  int64_t known;   /* so many of them have been looked up */
  int64_t group, head_stride, row_stride, dim, size;
} lane_rows;

typedef struct upcoming {
  int64_t key; /* those before it have been prefetched */
  lane_rows outputs;
  /* After the band: queries of the task's next one, or of another task, and its keys. */
  lane_rows queries;
  const attn_attention_task *next; /* NULL: not known, or has been read */
  int64_t next_key, next_keys;
} upcoming;

static lane_rows rows_of(const attn_attention_task *task, int64_t lane, int64_t lanes,
                         const float *first, int64_t row, int64_t head, int64_t dim, int64_t size) {
  const int64_t group = task->group, n = lane % group;
  return (lane_rows){.at = first + lane / group * row + n * head,
                     .head = n,
                     .left = lanes,
                     .group = group,
                     .head_stride = head,
                     .row_stride = row,
                     .dim = dim,
                     .size = size};
}

static lane_rows query_rows(const attn_attention_task *t, int64_t lane, int64_t lanes) {
  return rows_of(t, lane, lanes, t->q, t->q_row, t->q_head, t->q_dim, t->head_size);
}

static lane_rows output_rows(const attn_attention_task *t, int64_t lane, int64_t lanes) {
  return rows_of(t, lane, lanes, t->o, t->o_row, t->o_head, t->o_dim, t->value_size);
}

V_INLINE void next_lane(lane_rows *r) {
  if (--r->left == 0) return; /* there is no address behind the last one */
  if (++r->head < r->group) {
    r->at += r->head_stride;
    return;
  }
  r->at += r->row_stride - (r->group - 1) * r->head_stride;
  r->head = 0;
}

V_INLINE void prefetch_lane(lane_rows *r) {
  if (r->left == 0) return;
  if (r->known == 0) {
    lane_rows ahead = *r;
    for (; r->known < LOOK_UP && ahead.left > 0; r->known++, next_lane(&ahead)) {
      __builtin_prefetch(ahead.at, 0, 2);
    }
  }
  prefetch_row(r->at, r->dim, r->size, 2);
  r->known--;
  next_lane(r);
}

/* A key and its values; `keys` are there. */
V_INLINE void prefetch_key(const attn_attention_task *task, int64_t key, int64_t keys) {
  if (key % LOOK_UP == 0) {
    for (int64_t j = key; j < clamp(keys, 0, key + LOOK_UP); j++) {
      const key_run run = run_of(task, j, 1);
      __builtin_prefetch(run.k, 0, 2);
      __builtin_prefetch(run.v, 0, 2);
    }
  }
  const key_run run = run_of(task, key, 1);
  prefetch_row(run.k, task->k_dim, task->head_size, 2);
  prefetch_row(run.v, task->v_dim, task->value_size, 2);
}

/* The same of a task's own, and the place where they are packed, or are about to be. */
V_INLINE void prefetch_own_key(const attn_attention_task *task, const packed_keys *p, int64_t key,
                               int64_t keys) {
  const int64_t i = block_index(task, key);
  if (p->blocks && i < p->keepable) {
    const int64_t floats = packed_row_floats(task);
    prefetch_row(packed_block(task, p, i) + key % ATTN_KEY_BLOCK * floats, 1, floats, 2);
  }
  if (i >= p->kept) prefetch_key(task, key, keys);
}

/* Of a task that has not begun, its first keys, and lanes of its last band, which comes first. */
static void upcoming_task(upcoming *u, const attn_attention_task *next) {
  if (!next) return;
  const int64_t begin = next->chunk_begin * ATTN_KEY_CHUNK, end = next->chunk_end * ATTN_KEY_CHUNK;
  u->next_key = clamp(next->kv_begin, begin, end);
  u->next_keys = clamp(u->next_key + NEXT_ROWS, 0, clamp(next->kv_len, 0, end));
  if (u->next_key >= u->next_keys) return; /* without keys there need be no queries */
  const int64_t lanes = clamp(next->lanes, 0, NEXT_ROWS);
  u->next = next;
  u->queries = query_rows(next, next->lane + next->lanes - lanes, lanes);
}

/* What comes behind the keys of a band of lanes. */
static upcoming upcoming_after(const attn_attention_task *task, int64_t lane, int64_t lanes) {
  upcoming u = {0};
  if (!task->state) u.outputs = output_rows(task, lane, lanes);
  if (lane == task->lane) {
    upcoming_task(&u, task->next);
  } else if (task->q) { /* which is not read without keys */
    const int64_t before = clamp(lane - task->lane, 0, NEXT_ROWS);
    u.queries = query_rows(task, lane - before, before);
  }
  return u;
}

/* Called at intervals, while block `b` is in work and keys before `reach` are to come. */
V_INLINE void prefetch_upcoming(upcoming *u, const attn_attention_task *task, const packed_keys *p,
                                const key_block *b, int64_t reach) {
  if (u->key < reach) {
    if (u->key < b->key + 2 * ATTN_KEY_BLOCK) prefetch_own_key(task, p, u->key++, reach);
    return;
  }
  prefetch_lane(&u->outputs);
  if (u->next && u->next_key < u->next_keys) prefetch_key(u->next, u->next_key++, u->next_keys);
  prefetch_lane(&u->queries);
}

#endif
