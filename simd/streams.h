/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading keys from memory at its full speed: a line of each of four ascending streams in turn. The hardware runs ahead
 * of those; one stream is read at half the speed of four (Zen 3). A prefetch beyond the misses that a core can have on
 * their way (22 on Zen 3) is dropped, so prefetching goes on at the pace of computing, a few lines after a few
 * products; and what is late or was dropped is loaded all at once, right before it is computed with, rather than waited for
 * line by line.
 *
 * streams_begin; then around every piece of work: streams_grant, how many lines it is good for; in its loop
 * streams_prefetch, which looks nothing up; streams_settle, the rest of them. Part of attention.c. */
#ifndef ATTN_SIMD_STREAMS_H
#define ATTN_SIMD_STREAMS_H

#include "keys.h"

enum { STREAMS = 4, STREAMS_LINE = STREAMS * LINE_FLOATS /* floats of a line of each */ };

/* Each is walked piece by piece: rows without gaps between them, or one row. Between calls there is something left of the
 * piece, or nothing is left at all. */
typedef struct streams {
  const attn_attention_task *task;
  bool on;     /* else keys are in some cache, or copied, and there is nothing to do */
  bool values; /* V, else K */
  const float *at[STREAMS];
  int64_t piece, place; /* its floats, and how many of them are behind */
  int64_t granted;      /* place up to which lines may be prefetched now */
  int64_t size, row;    /* of a row, in floats, and to the next */
  int64_t key, apart;   /* stream s is at key + s * apart */
  int64_t end;          /* no key from there on is read */
  int64_t left;         /* rows of a stream, the piece's included */
  int64_t even;         /* of these, so many lie `row` apart in every stream */
  int64_t credit;       /* floats computed with, times rows, that no line was granted for yet */
} streams;

/* Of the piece. */
static int64_t streams_rows(const streams *a) { return a->row == a->size ? a->even : 1; }

/* The piece from `key` on. A stream that has come to its end repeats the first one, so that there are always four. */
static V_NOINLINE void streams_find(streams *a) {
  a->even = a->left;
  for (int64_t s = 0; s < STREAMS; s++) {
    const int64_t key = a->key + s * a->apart;
    if (key >= a->end) {
      a->at[s] = a->at[0];
      continue;
    }
    const key_run run = run_of(a->task, key, clamp(a->end - key, 1, a->even));
    a->at[s] = a->values ? run.v : run.k;
    a->even = run.keys;
  }
  a->piece = streams_rows(a) * a->size;
}

/* Keys [key, end), `apart` of them a stream. */
static void streams_begin(streams *a, bool values, int64_t key, int64_t end, int64_t apart) {
  const attn_attention_task *task = a->task;
  a->left = a->piece = a->place = a->granted = a->credit = 0;
  if (!a->on || key >= end) return;
  a->values = values;
  a->size = values ? task->value_size : task->head_size;
  a->row = values ? task->v_row : task->k_row;
  a->key = key;
  a->apart = apart;
  a->end = end;
  a->left = clamp(end - key, 0, apart);
  streams_find(a);
}

/* To the next piece. */
static void streams_move(streams *a) {
  const int64_t rows = streams_rows(a);
  a->place = a->granted = 0;
  a->key += rows;
  a->left -= rows;
  a->even -= rows;
  if (a->left <= 0) {
    a->piece = 0;
  } else if (a->even <= 0) {
    streams_find(a);
  } else { /* rows with gaps */
    for (int64_t s = 0; s < STREAMS; s++) a->at[s] += a->row;
  }
}

/* Lines of so many rows, as they are walked. */
V_INLINE int64_t streams_lines(const streams *a, int64_t rows) {
  return a->row == a->size ? divide_up(rows * a->size, LINE_FLOATS)
                           : rows * divide_up(a->size, LINE_FLOATS);
}

/* So many lines of each, at most what is left of the piece; returns how many. */
V_INLINE int64_t streams_grant_lines(streams *a, int64_t lines) {
  const int64_t most = divide_up(a->piece - a->place, LINE_FLOATS);
  if (lines > most) lines = most;
  a->granted = a->place + lines * LINE_FLOATS;
  return lines;
}

/* What the credit is good for. */
V_INLINE void streams_grant_credit(streams *a) {
  /* of a line of every stream; 32 bits, since they divide faster, and a call computes with far fewer floats */
  const uint32_t price = (uint32_t)(STREAMS_LINE * a->task->lanes);
  a->credit -= price * streams_grant_lines(a, (uint32_t)a->credit / price);
}

/* As many lines as `rows` of the task's rows are now computed with. */
V_INLINE void streams_grant(streams *a, int64_t rows, int64_t floats) {
  if (a->left <= 0) return;
  a->credit += rows * floats;
  streams_grant_credit(a);
}

V_INLINE bool streams_granted(const streams *a) { return a->place < a->granted; }

/* n lines of each, as far as they are granted. */
V_INLINE void streams_prefetch(streams *a, const int n) {
  V_UNROLL for (int i = 0; i < n; i++) {
    if (!streams_granted(a)) return;
    V_UNROLL for (int s = 0; s < STREAMS; s++) __builtin_prefetch(a->at[s] + a->place);
    a->place += LINE_FLOATS;
  }
}

static void streams_prefetch_all(streams *a) {
  while (streams_granted(a)) streams_prefetch(a, 1);
}

static V_NOINLINE void streams_go_on(streams *a) {
  do {
    streams_move(a);
    streams_grant_credit(a);
    streams_prefetch_all(a);
  } while (a->place >= a->piece && a->left > 0);
}

/* What is granted and was not prefetched; at the end of a piece also what the credit is good for in the next. */
V_INLINE void streams_settle(streams *a) {
  streams_prefetch_all(a);
  if (a->place >= a->piece && a->left > 0) streams_go_on(a);
}

/* So many lines of each, now. */
static V_NOINLINE void streams_prefetch_now(streams *a, int64_t lines) {
  while (lines > 0 && a->left > 0) {
    lines -= streams_grant_lines(a, lines);
    streams_settle(a);
  }
}

/* Loads so many lines of each, or what is left of them. */
static void streams_load(streams *a, int64_t lines) {
  while (lines > 0 && a->left > 0) {
    lines -= streams_grant_lines(a, lines);
    for (; streams_granted(a); a->place += LINE_FLOATS) {
      V_UNROLL for (int s = 0; s < STREAMS; s++) {
        (void)*(const volatile float *)(a->at[s] + a->place);
      }
    }
    streams_settle(a);
  }
}

#endif
