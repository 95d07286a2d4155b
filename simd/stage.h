/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading keys from memory at its full speed: a line of each of a few ascending streams in turn. The hardware runs
 * ahead of those; one stream is read at half the speed of four (Zen 3). Blocks of keys are the streams, since a block
 * must be added in order but several can be in work together. What is computed with next is asked for in that order
 * and at the pace of computing: what is asked for faster than memory answers is dropped. Part of attention.c. */
#ifndef ATTN_SIMD_STAGE_H
#define ATTN_SIMD_STAGE_H

#include "keys.h"

enum { STAGE_STREAMS = 4, LINE = 16 /* floats */ };

typedef struct stage {
  const attn_attention_task *task;
  bool on;     /* else keys are in some cache, and there is nothing to do */
  bool values; /* V, else K */
  const float *at[STAGE_STREAMS];
  int64_t streams;     /* that have not come to their end */
  int64_t place, size; /* in a row, in floats */
  int64_t begin, end;  /* keys that may be read */
  int64_t key, apart;  /* stream s is at key + s * apart */
  int64_t left;        /* rows of a stream */
  int64_t even;        /* of these, so many lie `row` apart in every stream */
  int64_t row;
  int64_t owed; /* floats computed with, for which nothing was asked for yet */
} stage;

/* Where the streams are. */
static V_NOINLINE void stage_find(stage *a) {
  a->even = a->left;
  for (a->streams = 0; a->streams < STAGE_STREAMS; a->streams++) {
    const int64_t key = a->key + a->streams * a->apart;
    if (a->streams > 0 && key >= a->end) break;
    const int64_t from = clamp(key, a->begin, a->end - 1);
    const key_run run = run_of(a->task, from, clamp(a->end - from, 1, a->even));
    a->at[a->streams] = a->values ? run.v : run.k;
    a->even = from > key ? 1 : run.keys;
  }
}

/* Streams `apart` keys apart, each of as many: from `key` on, of keys [begin, end). */
static void stage_begin(stage *a, bool values, int64_t key, int64_t apart, int64_t begin,
                        int64_t end) {
  const attn_attention_task *task = a->task;
  a->left = 0;
  if (!a->on || key >= end) return;
  a->values = values;
  a->size = values ? task->value_size : task->head_size;
  a->row = values ? task->v_row : task->k_row;
  a->key = key;
  a->apart = apart;
  a->begin = begin;
  a->end = end;
  a->place = 0;
  a->owed = 0;
  a->left = end - key < apart ? end - key : apart;
  stage_find(a);
}

/* On by n <= even rows. */
V_INLINE void stage_move(stage *a, int64_t n) {
  a->key += n;
  a->left -= n;
  a->even -= n;
  if (a->left <= 0) return;
  if (a->even <= 0) {
    stage_find(a);
    return;
  }
  for (int64_t s = 0; s < a->streams; s++) a->at[s] += n * a->row;
}

/* Loads so many rows of each stream, or what is left of them. */
static void stage_load(stage *a, int64_t rows) {
  for (int64_t n; rows > 0 && a->left > 0; rows -= n) {
    n = rows < a->even ? rows : a->even;
    for (int64_t i = 0; i < n; i++) {
      for (int64_t d = 0; d < a->size; d += LINE) {
        for (int64_t s = 0; s < a->streams; s++) {
          (void)*(const volatile float *)(a->at[s] + i * a->row + d);
        }
      }
    }
    stage_move(a, n);
  }
}

/* Asks for so many lines of each stream. */
V_INLINE void stage_ask(stage *a, int64_t lines) {
  for (; lines > 0 && a->left > 0; lines--) {
    for (int64_t s = 0; s < a->streams; s++) __builtin_prefetch(a->at[s] + a->place);
    a->place += LINE;
    if (a->place < a->size) continue;
    a->place = 0;
    stage_move(a, 1);
  }
}

/* Asks for as much as was computed with, by `rows` of the task's. */
V_INLINE void stage_pace(stage *a, int64_t rows, int64_t floats) {
  if (a->left <= 0) return;
  const int64_t step = LINE * a->streams * a->task->lanes;
  a->owed += rows * floats;
  for (; a->owed >= step && a->left > 0; a->owed -= step) stage_ask(a, 1);
}

#endif
