/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Where keys and values lie: strides, pages, groups of interleaved keys. Part of attention.c. */
#ifndef ATTN_SIMD_KEYS_H
#define ATTN_SIMD_KEYS_H

#include "body.h"

enum { LINE_FLOATS = 16 };

static int64_t clamp(int64_t a, int64_t low, int64_t high) {
  return a < low ? low : a > high ? high : a;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Last key that a row sees; -1: none. Never decreases from row to row. */
static int32_t row_limit(const attn_attention_task *task, int64_t row) {
  const int64_t last = attn_last_key(row, task->diagonal, task->kv_len);
  return last < task->kv_begin ? -1 : (int32_t)last;
}

/* Keys [begin, end) of a chunk: those that are there and before `reach`; the first lies in the block at `block`. */
typedef struct chunk_keys {
  int64_t begin, end, block;
} chunk_keys;

static chunk_keys chunk_of(const attn_attention_task *task, int64_t chunk, int64_t reach) {
  const int64_t last = (chunk + 1) * ATTN_KEY_CHUNK;
  chunk_keys c;
  c.begin = clamp(task->kv_begin, chunk * ATTN_KEY_CHUNK, last);
  c.end = clamp(reach, c.begin, last);
  c.block = c.begin / ATTN_KEY_BLOCK * ATTN_KEY_BLOCK;
  return c;
}

/* Keys that lie evenly in memory: the task's k_row and v_row apart. A group of interleaved keys takes the place of
 * its rows. */
typedef struct key_run {
  const float *k, *v;
  int64_t keys;
} key_run;

/* From a key on, as far as its page goes, and at most so many. */
static key_run run_of(const attn_attention_task *task, int64_t key, int64_t most) {
  key_run run = {task->k, task->v, most};
  if (task->table) {
    const uint32_t slot = (uint32_t)(key + task->slot), size = (uint32_t)task->page_size;
    uint32_t at = slot / size;
    if (at >= (uint32_t)task->table_width) at %= (uint32_t)task->table_width; /* rings only */
    const int64_t page = task->table[at];
    run.k += page * task->k_page;
    run.v += page * task->v_page;
    key = slot % size;
    run.keys = clamp(size - key, 0, most);
  }
  run.k += key * task->k_row;
  run.v += key * task->v_row;
  return run;
}

/* A block of keys as a kernel reads it, or several: where they lie, or, of one block, packed. */
typedef struct key_block {
  int64_t key;         /* a multiple of ATTN_KEY_BLOCK */
  int64_t begin, keys; /* those before `begin` are not there, nor those from `keys` on */
  const float *k, *v;  /* of `key` */
  int64_t k_row, k_dim, v_row, v_dim;
  int64_t v_panel;  /* from column 0 to column VALUE_PANEL (packed.h) of V, if there is one */
  bool interleaved; /* K, in groups from `key` on */
} key_block;

/* Whether keys are interleaved in groups that begin where blocks do. */
static bool groups_aligned(const attn_attention_task *task) {
  return task->k_interleaved && task->slot % ATTN_KEY_GROUP == 0;
}

/* A row on its way to a cache level. What does nothing but prefetch must be inlined: GCC takes a function that does for
 * one without effects, and drops its calls. */
V_INLINE void prefetch_row(const float *p, int64_t dim, int64_t size, const int level) {
  if (dim != 1) return; /* one line a float: not worth the requests */
  for (int64_t d = 0; d < size; d += LINE_FLOATS) {
    if (level == 1) {
      __builtin_prefetch(p + d, 0, 3);
    } else {
      __builtin_prefetch(p + d, 0, 2);
    }
  }
}

#endif
