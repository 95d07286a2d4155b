/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Keys as tiles read them, block by block: where they lie, or packed.
 *
 * Packed keys are interleaved, as caches keep them: dim by dim, ATTN_KEY_GROUP keys side by side. Packed values are
 * panels of VALUE_PANEL columns, key by key. So a tile of keys or of columns walks a few KB from first to last,
 * whatever the caller's strides; those of whole pages of memory would put every row on the same few cache sets.
 * The bands of a task pack a block once, and find it again.
 *
 * Packing pays where several tiles share it (docs/performance.md has the figures): rows with gaps are packed
 * for two tiles and more, others for two bands and more. */
#ifndef ATTN_SIMD_PACKED_H
#define ATTN_SIMD_PACKED_H

#include "keys.h"
#include "states.h"

enum {
  VALUE_PANEL = LINE_FLOATS,
  PACK_ROWS = 8,   /* copied together, so that as many addresses are translated side by side */
  ROWS_AHEAD = 16, /* asked for before they are packed */
  /* Kept by a task, at most: about a core's share of a third cache level. 4 MB are no faster (8192 x 64, Zen 3). */
  PACKED_BYTES = 2 << 20,
};
_Static_assert(VALUE_PANEL % V_LANES == 0 && VALUE_PANEL % V_ROWS == 0, "panels are whole tiles");
_Static_assert(ATTN_KEY_GROUP % PACK_ROWS == 0 && ATTN_KEY_GROUP % V_LANES == 0, "rows are there");

/* A task's packed blocks, each its keys and then its values. */
typedef struct packed_keys {
  float *blocks;    /* NULL: there is no room for any */
  int64_t keepable; /* blocks with a place of their own; all further ones take turns in one more */
  int64_t kept;     /* so many are there */
} packed_keys;

/* Number of a block among those of the task, whose first may not be there. */
static int64_t block_index(const attn_attention_task *task, int64_t key) {
  const int64_t begin = task->chunk_begin * ATTN_KEY_CHUNK;
  const int64_t first = task->kv_begin > begin ? task->kv_begin : begin;
  return key / ATTN_KEY_BLOCK - first / ATTN_KEY_BLOCK;
}

static int64_t packed_row_floats(const attn_attention_task *task) {
  return task->head_size + divide_up(task->value_size, VALUE_PANEL) * VALUE_PANEL;
}

static int64_t packed_block_floats(const attn_attention_task *task) {
  return ATTN_KEY_BLOCK * packed_row_floats(task);
}

static int64_t task_blocks(const attn_attention_task *task) {
  return (task->chunk_end - task->chunk_begin) * (ATTN_KEY_CHUNK / ATTN_KEY_BLOCK);
}

/* Of a task's blocks, those that are kept for further bands. */
static int64_t packed_keepable(const attn_attention_task *task, int64_t bands) {
  const int64_t most = PACKED_BYTES / (packed_block_floats(task) * (int64_t)sizeof(float));
  return bands < 2 ? 0 : clamp(task_blocks(task), 0, most);
}

/* Room for them, and for one more if there are more. */
static int64_t packed_floats(const attn_attention_task *task, int64_t keepable) {
  return (keepable + (keepable < task_blocks(task))) * packed_block_floats(task);
}

static float *packed_block(const attn_attention_task *task, const packed_keys *p, int64_t i) {
  return p->blocks + clamp(i, 0, p->keepable) * packed_block_floats(task);
}

/* Dim 0 of every key of the block, and of what its first and last group lack, of the nearest key that is there. */
static void row_pointers(const attn_attention_task *task, const key_block *b, bool values,
                         const float *row[ATTN_KEY_BLOCK]) {
  const int64_t size = task->head_size, stride = values ? task->v_row : task->k_row;
  for (int64_t j = b->begin; j < b->keys;) {
    const key_run run = run_of(task, b->key + j, b->keys - j);
    if (!values && task->k_interleaved) {
      const int64_t in_group = (b->key + j + task->slot) % ATTN_KEY_GROUP;
      row[j++] = run.k - in_group * size + in_group;
      continue;
    }
    const float *at = values ? run.v : run.k;
    for (int64_t i = 0; i < run.keys; i++, at += stride) row[j++] = at;
  }
  for (int64_t j = b->begin; j % ATTN_KEY_GROUP; j--) row[j - 1] = row[b->begin];
  for (int64_t j = b->keys; j % ATTN_KEY_GROUP; j++) row[j] = row[b->keys - 1];
}

/* Rows ROWS_AHEAD behind row j of the block. */
V_INLINE void prefetch_rows(const key_block *b, const float *const at[], int64_t j, int64_t rows,
                            int64_t dim, int64_t size) {
  const int64_t first = j + ROWS_AHEAD, end = clamp(first + rows, 0, b->keys);
  for (int64_t i = first; i < end; i++) prefetch_row(at[i], dim, size, 1);
}

/* Columns [d, d + V_LANES) of V_LANES keys, from their place in line d of a group on. */
V_INLINE void interleave(float *line, const float *const at[V_LANES], int64_t d, int64_t dim,
                         int64_t size) {
  columns_of_rows(line, ATTN_KEY_GROUP, at, d, dim, size, v_zero());
}

static void pack_groups(const key_block *b, const float *const at[], int64_t dim, int64_t size,
                        float *to) {
  for (int64_t j = b->begin / V_LANES * V_LANES; j < b->keys; j += V_LANES) {
    float *group = to + attn_interleaved_at(j, size);
    prefetch_rows(b, at, j, V_LANES, dim, size);
    for (int64_t d = 0; d < size; d += V_LANES) {
      interleave(group + d * ATTN_KEY_GROUP, at + j, d, dim, size);
    }
  }
}

static void pack_panels(const key_block *b, const float *const at[], int64_t dim, int64_t size,
                        float *to) {
  for (int64_t j = b->begin / PACK_ROWS * PACK_ROWS; j < b->keys; j += PACK_ROWS) {
    float *panel = to + j * VALUE_PANEL;
    prefetch_rows(b, at, j, PACK_ROWS, dim, size);
    for (int64_t d = 0; d < size; d += VALUE_PANEL, panel += ATTN_KEY_BLOCK * VALUE_PANEL) {
      if (dim == 1 && size - d >= VALUE_PANEL) {
        V_UNROLL for (int i = 0; i < PACK_ROWS; i++) {
          V_UNROLL for (int c = 0; c < VALUE_PANEL; c += V_LANES) {
            v_store(panel + i * VALUE_PANEL + c, v_load(at[j + i] + d + c));
          }
        }
        continue;
      }
      for (int i = 0; i < PACK_ROWS; i++) {
        for (int64_t c = d; c < size && c < d + VALUE_PANEL; c += V_LANES) {
          v_store(panel + i * VALUE_PANEL + c - d,
                  load_strided(at[j + i] + c * dim, dim, size - c));
        }
      }
    }
  }
}

/* Groups that begin where those of the block do. */
static void copy_groups(const attn_attention_task *task, const key_block *b, float *to) {
  const int64_t size = task->head_size, floats = size * ATTN_KEY_GROUP;
  for (int64_t j = b->begin / ATTN_KEY_GROUP * ATTN_KEY_GROUP; j < b->keys; j += ATTN_KEY_GROUP) {
    memcpy(to + j * size, run_of(task, b->key + j, 1).k, (size_t)floats * sizeof(float));
  }
}

static void pack_keys(const attn_attention_task *task, const key_block *b, float *to) {
  const int64_t size = task->head_size;
  if (groups_aligned(task)) {
    copy_groups(task, b, to);
    return;
  }
  const float *at[ATTN_KEY_BLOCK];
  row_pointers(task, b, false, at);
  pack_groups(b, at, task->k_interleaved ? ATTN_KEY_GROUP : task->k_dim, size, to);
}

static void pack_values(const attn_attention_task *task, const key_block *b, float *to) {
  const float *at[ATTN_KEY_BLOCK];
  row_pointers(task, b, true, at);
  pack_panels(b, at, task->v_dim, task->value_size, to);
}

/* Whether the keys, or the values, of block i are packed though they can be read where they lie. */
static bool better_packed(const packed_keys *p, int64_t i, int64_t row, int64_t dim, int64_t size) {
  return p->blocks && (i < p->keepable || row != size || dim != 1);
}

/* Block of keys [begin, keys) from `key` on, where they lie; without addresses where rows are of different pages. */
static key_block block_in_place(const attn_attention_task *task, int64_t key, int64_t begin,
                                int64_t keys) {
  const key_run run = run_of(task, key + begin, keys - begin);
  const bool torn = run.keys < keys - begin || (task->table && begin > 0);
  return (key_block){
      .key = key,
      .begin = begin,
      .keys = keys,
      .k = torn ? NULL : run.k - begin * task->k_row,
      .v = torn ? NULL : run.v - begin * task->v_row,
      .k_row = task->k_row,
      .k_dim = task->k_dim,
      .v_row = task->v_row,
      .v_dim = task->v_dim,
      .v_panel = task->value_size > VALUE_PANEL ? VALUE_PANEL * task->v_dim : 0,
      .interleaved = task->k_interleaved,
  };
}

/* The block as tiles are to read it. Rows of different pages, and groups that do not begin where blocks do, must be
 * packed. What an earlier band kept serves this one: it saw no fewer of the block's keys, so what is to be packed
 * now was then. */
static key_block block_begin(const attn_attention_task *task, packed_keys *p, int64_t key,
                             int64_t begin, int64_t keys) {
  key_block b = block_in_place(task, key, begin, keys);
  const int64_t i = block_index(task, key);
  const bool pack_k = !b.k || task->k_interleaved != groups_aligned(task) ||
                      better_packed(p, i, b.k_row, b.k_dim, task->head_size);
  const bool pack_v = !b.v || better_packed(p, i, b.v_row, b.v_dim, task->value_size);
  if (!pack_k && !pack_v) return b;
  float *k = packed_block(task, p, i);
  float *v = k + ATTN_KEY_BLOCK * task->head_size;
  if (i >= p->kept) {
    if (pack_k) pack_keys(task, &b, k);
    if (pack_v) pack_values(task, &b, v);
    if (i == p->kept && i < p->keepable) p->kept++;
  }
  if (pack_k) {
    b.k = k;
    b.interleaved = true;
    b.k_row = task->head_size;
    b.k_dim = 1;
  }
  if (pack_v) {
    b.v = v;
    b.v_row = VALUE_PANEL;
    b.v_dim = 1;
    b.v_panel = ATTN_KEY_BLOCK * VALUE_PANEL;
  }
  return b;
}

#endif
