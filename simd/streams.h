/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading keys from memory at its full speed: a line of each of a few ascending streams in turn. The hardware runs
 * ahead of those; one stream is read at half the speed of four (Zen 3). What is asked for faster than memory answers is
 * dropped, so asking goes on at the pace of computing; and what is late or was dropped is loaded all at once, right
 * before it is computed with, rather than waited for line by line. Part of attention.c. */
#ifndef ATTN_SIMD_STREAMS_H
#define ATTN_SIMD_STREAMS_H

#include "keys.h"

enum { STREAMS = 4 };

typedef struct streams {
  const attn_attention_task *task;
  bool on;       /* else keys are in some cache, and there is nothing to do */
  bool values;   /* V, else K */
  int64_t count; /* of those that have not come to their end */
  const float *at[STREAMS];
  int64_t place, size; /* in a row, in floats */
  int64_t key, apart;  /* stream s is at key + s * apart */
  int64_t end;         /* no key from there on is read */
  int64_t left;        /* rows of a stream */
  int64_t even;        /* of these, so many lie `row` apart in every stream */
  int64_t row;
  int64_t owed; /* floats computed with, for which nothing was asked for yet, times rows */
} streams;

/* Where they are. */
static V_NOINLINE void streams_find(streams *a) {
  a->even = a->left;
  for (a->count = 0; a->count < STREAMS; a->count++) {
    const int64_t key = a->key + a->count * a->apart;
    if (key >= a->end) break;
    const key_run run = run_of(a->task, key, clamp(a->end - key, 1, a->even));
    a->at[a->count] = a->values ? run.v : run.k;
    a->even = run.keys;
  }
}

/* Keys [key, end), `apart` of them a stream. */
static void streams_begin(streams *a, bool values, int64_t key, int64_t end, int64_t apart) {
  const attn_attention_task *task = a->task;
  a->left = 0;
  if (!a->on || key >= end) return;
  a->values = values;
  a->size = values ? task->value_size : task->head_size;
  a->row = values ? task->v_row : task->k_row;
  a->key = key;
  a->apart = apart;
  a->end = end;
  a->place = 0;
  a->owed = 0;
  a->left = clamp(end - key, 0, apart);
  streams_find(a);
}

/* On by n <= even rows. */
V_INLINE void streams_move(streams *a, int64_t n) {
  a->key += n;
  a->left -= n;
  a->even -= n;
  if (a->left <= 0) return;
  if (a->even <= 0) {
    streams_find(a);
    return;
  }
  for (int64_t s = 0; s < a->count; s++) a->at[s] += n * a->row;
}

/* Loads so many rows of each, or what is left of them. */
static void streams_load(streams *a, int64_t rows) {
  for (int64_t n; rows > 0 && a->left > 0; rows -= n) {
    n = rows < a->even ? rows : a->even;
    for (int64_t i = 0; i < n; i++) {
      for (int64_t d = 0; d < a->size; d += LINE_FLOATS) {
        for (int64_t s = 0; s < a->count; s++) {
          (void)*(const volatile float *)(a->at[s] + i * a->row + d);
        }
      }
    }
    streams_move(a, n);
  }
}

/* Prefetches so many lines of each. */
V_INLINE void streams_ask(streams *a, int64_t lines) {
  for (; lines > 0 && a->left > 0; lines--) {
    for (int64_t s = 0; s < a->count; s++) __builtin_prefetch(a->at[s] + a->place);
    a->place += LINE_FLOATS;
    if (a->place < a->size) continue;
    a->place = 0;
    streams_move(a, 1);
  }
}

/* Asks for as much as `rows` of the task's rows were just computed with. */
V_INLINE void streams_pace(streams *a, int64_t rows, int64_t floats) {
  if (a->left <= 0) return;
  const int64_t step = LINE_FLOATS * a->count * a->task->lanes;
  a->owed += rows * floats;
  for (; a->owed >= step; a->owed -= step) streams_ask(a, 1);
}

#endif
