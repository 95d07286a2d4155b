/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Where keys and values lie: strides, pages, groups of interleaved keys, copies. Part of attention.c. */
#ifndef ATTN_SIMD_KEYS_H
#define ATTN_SIMD_KEYS_H

#include "body.h"

enum { LINE_FLOATS = 16 };

static int64_t clamp(int64_t a, int64_t low, int64_t high) {
  return a < low ? low : a > high ? high : a;
}

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

/* A block of keys as a kernel reads it, or several: where they lie, or a copy of them, of one block. */
typedef struct key_block {
  int64_t key;         /* a multiple of ATTN_KEY_BLOCK */
  int64_t begin, keys; /* those before `begin` are not there, nor those from `keys` on */
  const float *k, *v;  /* of `key` */
  int64_t k_row, k_dim, v_row, v_dim;
  int64_t v_panel;  /* from column 0 to column VALUE_PANEL of V */
  bool interleaved; /* K, in groups from `key` on */
  int64_t ahead;    /* keys before this one have been prefetched */
} key_block;

/* Room for the copy of a block. */
static int64_t near_floats(const attn_attention_task *task) {
  return ATTN_KEY_BLOCK * (task->head_size + task->value_size);
}

/* Whether keys are interleaved in groups that begin where blocks do. */
static bool groups_aligned(const attn_attention_task *task) {
  return task->k_interleaved && task->slot % ATTN_KEY_GROUP == 0;
}

/* Interleaved keys of the block as rows, one by one: for groups that do not begin where the block does. */
static void block_rows(const attn_attention_task *task, const key_block *b, float *near) {
  const int64_t size = task->head_size;
  for (int64_t j = b->begin; j < b->keys; j++) {
    const int64_t in_group = (b->key + j + task->slot) % ATTN_KEY_GROUP;
    const float *group = run_of(task, b->key + j, 1).k - in_group * size;
    attn_copy_rows(near + j * size, group + in_group, 0, ATTN_KEY_GROUP, size, 1);
  }
}

/* K or V of the block, close together in `near`. */
static void block_copy(const attn_attention_task *task, key_block *b, bool values, float *near) {
  const int64_t size = values ? task->value_size : task->head_size;
  const int64_t row = values ? task->v_row : task->k_row, dim = values ? task->v_dim : task->k_dim;
  int64_t j = b->begin, end = b->keys;
  if (!values && b->interleaved) j -= j % ATTN_KEY_GROUP, end = attn_whole_groups(end);
  if (values) near += ATTN_KEY_BLOCK * task->head_size;
  if (!values && task->k_interleaved != b->interleaved) {
    block_rows(task, b, near);
    j = end;
  }
  while (j < end) {
    const key_run run = run_of(task, b->key + j, end - j);
    attn_copy_rows(near + j * size, values ? run.v : run.k, row, dim, size, run.keys);
    j += run.keys;
  }
  if (values) {
    b->v = near, b->v_row = size, b->v_dim = 1;
  } else {
    b->k = near, b->k_row = size, b->k_dim = 1;
  }
}

#endif
