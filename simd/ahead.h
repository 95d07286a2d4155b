/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What is asked for before its turn, little by little between tiles of keys, on its way to the second cache level: keys
 * of the next block; behind the last one, outputs of the band and what the runner reads next.
 *
 * Of arrays whose rows are in pages of memory of their own, as those of (B,T,H,D) often are, every row needs the address
 * of its page first. Those of AHEAD_ROWS are looked up side by side: one by one they cost 6 % of 2048 x 128 (Zen 3,
 * 8 heads; 16 to 128 rows are alike). Part of attention.c. */
#ifndef ATTN_SIMD_AHEAD_H
#define ATTN_SIMD_AHEAD_H

#include "packed.h"

enum {
  AHEAD_ROWS = 32,
  NEXT_ROWS = 256 /* keys and lanes of what is next, at most: more would push out what is in work */
};

typedef struct ahead {
  int64_t key;             /* those before it have been asked for */
  int64_t output, outputs; /* of lanes [output, outputs) not yet */
  /* What comes after the band: of the same task or another; NULL: not known. */
  const attn_attention_task *next;
  int64_t next_key, next_keys, next_lane, next_lanes;
} ahead;

/* A key and its values; `keys` are there. */
V_INLINE void ask_key(const attn_attention_task *task, int64_t key, int64_t keys) {
  if (key % AHEAD_ROWS == 0) {
    for (int64_t j = key; j < clamp(keys, 0, key + AHEAD_ROWS); j++) {
      const key_run run = run_of(task, j, 1);
      __builtin_prefetch(run.k, 0, 2);
      __builtin_prefetch(run.v, 0, 2);
    }
  }
  const key_run run = run_of(task, key, 1);
  prefetch_row(run.k, task->k_dim, task->head_size, 2);
  prefetch_row(run.v, task->v_dim, task->value_size, 2);
}

/* The same of a task's own, which may have been packed, or are about to be. */
V_INLINE void ask_packed(const attn_attention_task *task, const packed_keys *p, int64_t key,
                         int64_t keys) {
  const int64_t i = block_index(task, key);
  if (p->blocks && i < p->keepable) {
    const int64_t floats = packed_row_floats(task);
    prefetch_row(packed_block(task, p, i) + key % ATTN_KEY_BLOCK * floats, 1, floats, 2);
  }
  if (i >= p->kept) ask_key(task, key, keys);
}

V_INLINE const float *lane_at(const float *first, int64_t lane, int64_t group, int64_t row,
                              int64_t head) {
  return first + lane / group * row + lane % group * head;
}

V_INLINE void ask_lane(const float *first, int64_t lane, int64_t lanes, int64_t group, int64_t row,
                       int64_t head, int64_t dim, int64_t size) {
  if (lane % AHEAD_ROWS == 0) {
    for (int64_t i = lane; i < clamp(lanes, 0, lane + AHEAD_ROWS); i++) {
      __builtin_prefetch(lane_at(first, i, group, row, head), 0, 2);
    }
  }
  prefetch_row(lane_at(first, lane, group, row, head), dim, size, 2);
}

/* A task of which nothing has been read: its first keys, and lanes of its last band, which comes first. */
static void ahead_of_task(ahead *a, const attn_attention_task *next) {
  if (!next) return;
  const int64_t begin = next->chunk_begin * ATTN_KEY_CHUNK, end = next->chunk_end * ATTN_KEY_CHUNK;
  a->next_key = clamp(next->kv_begin, begin, end);
  a->next_keys = clamp(a->next_key + NEXT_ROWS, 0, clamp(next->kv_len, 0, end));
  if (a->next_key >= a->next_keys) return; /* without keys there need be no queries */
  a->next = next;
  a->next_lanes = next->lane + next->lanes;
  a->next_lane = clamp(a->next_lanes - NEXT_ROWS, next->lane, a->next_lanes);
}

static void ask_next(ahead *a) {
  const attn_attention_task *t = a->next;
  if (!t) return;
  if (a->next_key < a->next_keys) ask_key(t, a->next_key++, a->next_keys);
  if (a->next_lane == a->next_lanes) return;
  ask_lane(t->q, a->next_lane++, a->next_lanes, t->group, t->q_row, t->q_head, t->q_dim,
           t->head_size);
}

/* Called at intervals, while block `b` is in work and keys before `reach` are to come. */
static void ask_ahead(ahead *a, const attn_attention_task *task, const packed_keys *p,
                      const key_block *b, int64_t reach) {
  if (a->key < reach) {
    if (a->key < b->key + 2 * ATTN_KEY_BLOCK) ask_packed(task, p, a->key++, reach);
    return;
  }
  if (a->output < a->outputs) {
    ask_lane(task->o, a->output++, a->outputs, task->group, task->o_row, task->o_head, task->o_dim,
             task->value_size);
  }
  ask_next(a);
}

#endif
