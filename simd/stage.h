/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading keys from memory at its full speed: by loads in a few ascending streams, which the hardware runs ahead of. One
 * stream is read at half the speed of four, a column of many rows at a third, and prefetch instructions that come
 * faster than memory answers are dropped (Zen 3). So a stage of keys is touched, a line of each stream in turn,
 * before it is computed with, and meanwhile the next one is prefetched as far as memory follows. Part of
 * attention.c. */
#ifndef ATTN_SIMD_STAGE_H
#define ATTN_SIMD_STAGE_H

#include "keys.h"

enum { STAGE_STREAMS = 4 };

typedef struct stage {
  const attn_attention_task *task;
  int64_t reach; /* nothing behind is read */
  bool on;       /* else keys are in some cache, and there is nothing to do */
  bool values;   /* V, else K */
  const float *at[STAGE_STREAMS];
  int64_t line, size;     /* in a row, in floats */
  int64_t key, part, end; /* stream s is at key + s * part, if that is before the end */
  int64_t left;           /* rows of a stream */
  int64_t even;           /* of these, so many lie `row` apart in every stream */
  int64_t row;
  int64_t half_cycles; /* passed since the last step */
} stage;

static stage stage_of(const attn_attention_task *task, int64_t reach, bool on) {
  return (stage){.task = task, .reach = reach, .on = on};
}

/* Where the streams are. */
static V_NOINLINE void stage_find(stage *a) {
  a->even = a->left;
  for (int s = 0; s < STAGE_STREAMS; s++) {
    const int64_t key = a->key + s * a->part;
    if (s > 0 && key >= a->end) {
      a->at[s] = a->at[s - 1];
      a->even = 1;
      continue;
    }
    const key_run run = run_of(a->task, key, clamp(a->end - key, 1, a->even));
    a->at[s] = a->values ? run.v : run.k;
    a->even = run.keys;
  }
}

/* The stage of keys [key, key + keys). */
static void stage_begin(stage *a, bool values, int64_t key, int64_t keys) {
  const attn_attention_task *task = a->task;
  a->values = values;
  a->size = values ? task->value_size : task->head_size;
  a->end = clamp(key + keys, 0, a->reach);
  a->key = key;
  a->line = 0;
  a->left = a->part = (a->end - key + STAGE_STREAMS - 1) / STAGE_STREAMS;
  a->row = values ? task->v_row : task->k_row;
  if (!a->on) a->left = 0;
  if (a->left > 0) stage_find(a);
}

/* The next line of each stream, if there is one: loaded, or asked for. */
V_INLINE void stage_step(stage *a, const bool touch) {
  if (a->left <= 0) return;
  V_UNROLL for (int s = 0; s < STAGE_STREAMS; s++) {
    const float *line = a->at[s] + a->line;
    if (touch) {
      (void)*(const volatile float *)line;
    } else {
      __builtin_prefetch(line);
    }
  }
  a->line += 16;
  if (a->line < a->size) return;
  a->key++;
  a->line = 0;
  if (--a->left <= 0) return;
  if (--a->even > 0) {
    V_UNROLL for (int s = 0; s < STAGE_STREAMS; s++) a->at[s] += a->row;
  } else {
    stage_find(a);
  }
}

/* Prefetches what memory answers while so many vectors are multiplied with `rows` rows: half a cycle each, and two
 * for loading the vector from the second level; a line takes 20 (11 GB/s at 3.5 GHz). What comes faster is dropped. */
V_INLINE void stage_pace(stage *a, int64_t rows, int64_t vectors) {
  enum { STEP = 40 * STAGE_STREAMS };
  if (a->left <= 0) return;
  a->half_cycles += (rows + 4) * vectors;
  for (; a->half_cycles >= STEP; a->half_cycles -= STEP) stage_step(a, false);
}

/* All of it, at once. */
static void stage_touch(stage *a, bool values, int64_t key, int64_t keys) {
  stage_begin(a, values, key, keys);
  while (a->left > 0) stage_step(a, true);
}

#endif
