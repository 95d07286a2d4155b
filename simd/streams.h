/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading keys from memory at its full speed: a line of each of a few ascending streams in turn. The hardware runs
 * ahead of those; one stream is read at half the speed of four (Zen 3). What is prefetched beyond what can be on its
 * way, 22 lines, is dropped, so asking goes on at the pace of computing; and what is late or was dropped is loaded all
 * at once, right before it is computed with, rather than waited for line by line. Part of attention.c. */
#ifndef ATTN_SIMD_STREAMS_H
#define ATTN_SIMD_STREAMS_H

#include "keys.h"

enum { STREAMS = 4 };

/* Each is walked piece by piece: rows that lie without gaps between them, or one row. */
typedef struct streams {
  const attn_attention_task *task;
  bool on;     /* else keys are in some cache, and there is nothing to do */
  bool values; /* V, else K */
  const float *at[STREAMS];
  int64_t piece, place; /* its floats, and how many of them were asked for or loaded */
  int64_t allowed;      /* place up to which may be asked now */
  int64_t rows;         /* of the piece */
  int64_t size, row;    /* of a row, in floats, and to the next */
  int64_t key, apart;   /* stream s is at key + s * apart */
  int64_t end;          /* no key from there on is read */
  int64_t left;         /* rows of a stream */
  int64_t even;         /* of these, so many lie `row` apart in every stream */
  int64_t owed;         /* floats computed with, for which nothing was asked yet, times rows */
} streams;

/* The piece from `key` on. A stream that has come to its end goes with the first one. */
static V_NOINLINE void streams_find(streams *a) {
  a->even = a->left;
  for (int64_t s = 0; s < STREAMS; s++) {
    const int64_t key = a->key + s * a->apart;
    a->at[s] = a->at[0];
    if (key >= a->end) continue;
    const key_run run = run_of(a->task, key, clamp(a->end - key, 1, a->even));
    a->at[s] = a->values ? run.v : run.k;
    a->even = run.keys;
  }
  a->rows = a->row == a->size ? a->even : 1;
  a->piece = a->rows * a->size;
}

/* Keys [key, end), `apart` of them a stream. */
static void streams_begin(streams *a, bool values, int64_t key, int64_t end, int64_t apart) {
  const attn_attention_task *task = a->task;
  a->left = a->place = a->allowed = 0;
  if (!a->on || key >= end) return;
  a->values = values;
  a->size = values ? task->value_size : task->head_size;
  a->row = values ? task->v_row : task->k_row;
  a->key = key;
  a->apart = apart;
  a->end = end;
  a->owed = 0;
  a->left = clamp(end - key, 0, apart);
  streams_find(a);
}

/* To the next piece. */
static void streams_move(streams *a) {
  a->place = a->allowed = 0;
  a->key += a->rows;
  a->left -= a->rows;
  a->even -= a->rows;
  if (a->left <= 0) return;
  if (a->even <= 0) {
    streams_find(a);
    return;
  }
  for (int64_t s = 0; s < STREAMS; s++) a->at[s] += a->rows * a->row;
}

/* Lines of so many rows. */
V_INLINE int64_t streams_lines(const streams *a, int64_t rows) {
  return (rows * a->size + LINE_FLOATS - 1) / LINE_FLOATS;
}

/* Lines of each that may be asked for now, at most what is left of the piece. */
V_INLINE int64_t streams_allow(streams *a, int64_t lines) {
  const int64_t most = (a->piece - a->place + LINE_FLOATS - 1) / LINE_FLOATS;
  if (lines > most) lines = most;
  a->allowed = a->place + lines * LINE_FLOATS;
  return lines;
}

/* As many as fit what is computed meanwhile, so many floats with `rows` of the task's rows. */
V_INLINE void streams_pace(streams *a, int64_t rows, int64_t floats) {
  if (a->left <= 0) return;
  const uint32_t line = (uint32_t)(LINE_FLOATS * STREAMS * a->task->lanes);
  a->owed += rows * floats;
  a->owed -= line * streams_allow(a, (uint32_t)a->owed / line);
}

V_INLINE bool streams_asking(const streams *a) { return a->place < a->allowed; }

/* Prefetches n lines of each, if any are allowed. In the innermost loops, so without counting or looking up anything. */
V_INLINE void streams_ask(streams *a, const int n) {
  if (!streams_asking(a)) return;
  V_UNROLL for (int i = 0; i < n; i++) {
    V_UNROLL for (int s = 0; s < STREAMS; s++) {
      __builtin_prefetch(a->at[s] + a->place + i * LINE_FLOATS);
    }
  }
  a->place += n * LINE_FLOATS;
}

static void streams_ask_allowed(streams *a) {
  while (streams_asking(a)) streams_ask(a, 1);
}

/* To the next piece, and what is owed of it. */
static V_NOINLINE void streams_go_on(streams *a) {
  while (a->place >= a->piece && a->left > 0) {
    streams_move(a);
    streams_pace(a, 0, 0);
    streams_ask_allowed(a);
  }
}

/* What is allowed and was not asked for yet. */
V_INLINE void streams_settle(streams *a) {
  streams_ask_allowed(a);
  if (a->place >= a->piece && a->left > 0) streams_go_on(a);
}

/* So many lines of each, now. */
static V_NOINLINE void streams_ask_now(streams *a, int64_t lines) {
  while (lines > 0 && a->left > 0) {
    lines -= streams_allow(a, lines);
    streams_settle(a);
  }
}

/* Loads so many lines of each, or what is left of them. */
static void streams_load(streams *a, int64_t lines) {
  while (lines > 0 && a->left > 0) {
    lines -= streams_allow(a, lines);
    for (; streams_asking(a); a->place += LINE_FLOATS) {
      V_UNROLL for (int s = 0; s < STREAMS; s++) {
        (void)*(const volatile float *)(a->at[s] + a->place);
      }
    }
    streams_settle(a);
  }
}

#endif
