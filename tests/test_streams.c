/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* How keys and values are read from memory (simd/streams.h). What it does wrong changes no bit of any result, so
 * nothing else would tell. */

#include "check.h"
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-function" /* the kernels' */
#include "simd/streams.h"

enum { WIDTH = 1024 }; /* entries of a page table */

typedef struct walk {
  const char *name;
  int64_t size, row;        /* of a row of K and V, and to the next, in floats */
  int64_t page_size;        /* 0: none */
  int64_t key, keys, apart; /* of the streams */
  int64_t lanes;            /* of the task */
  int64_t rows, part;       /* computed with at a time, and floats of each */
} walk;

static const walk walks[] = {
    {"dense", 128, 128, 0, 0, 512, 128, 4, 4, 1024},
    {"dense, from within", 64, 64, 0, 37, 475, 119, 1, 1, 64},
    {"not whole lines", 40, 40, 0, 0, 512, 128, 3, 3, 80},
    {"less than a line", 7, 7, 0, 0, 512, 128, 1, 1, 56},
    {"long rows", 300, 300, 0, 0, 300, 128, 9, 4, 1200},
    {"gaps", 128, 1024, 0, 0, 512, 128, 4, 4, 1024},
    {"gaps, not whole lines", 40, 80, 0, 0, 512, 128, 1, 1, 320},
    {"gaps, less than a line", 7, 400, 0, 5, 200, 64, 2, 2, 35},
    {"pages of 16", 128, 128, 16, 0, 512, 128, 4, 4, 1024},
    {"pages of 16, gaps", 100, 200, 16, 0, 500, 128, 5, 1, 100},
    {"pages of 3", 64, 64, 3, 1, 400, 112, 8, 4, 512},
    {"fewer streams", 64, 64, 0, 0, 200, 128, 4, 4, 512},
    {"one stream", 128, 128, 0, 0, 30, 128, 4, 4, 1024},
    {"a stage", 128, 128, 0, 64, 64, 16, 1, 1, 512},
};

typedef struct memory {
  float *data;
  int32_t table[WIDTH];
  attn_attention_task task;
  int64_t floats;
} memory;

static memory memory_of(const walk *w) {
  memory m = {.floats = (w->key + w->keys + 16) * w->row};
  m.data = check_alloc((size_t)m.floats * sizeof(float));
  memset(m.data, 0, (size_t)m.floats * sizeof(float));
  m.task = (attn_attention_task){.k = m.data,
                                 .k_row = w->row,
                                 .k_dim = 1,
                                 .v = m.data,
                                 .v_row = w->row,
                                 .v_dim = 1,
                                 .head_size = w->size,
                                 .value_size = w->size,
                                 .lanes = w->lanes,
                                 .streaming = true};
  return m;
}

/* Pages in the reverse order. */
static void turn_pages(memory *m, const walk *w) {
  if (!w->page_size) return;
  const int64_t pages = divide_up(w->key + w->keys, w->page_size);
  for (int64_t i = 0; i < pages; i++) m->table[i] = (int32_t)(pages - 1 - i);
  m->task.table = m->table;
  m->task.table_width = pages;
  m->task.page_size = w->page_size;
  m->task.k_page = m->task.v_page = w->page_size * w->row;
}

static streams begin(const memory *m, const walk *w) {
  streams a = {.task = &m->task, .on = true};
  streams_begin(&a, true, w->key, w->key + w->keys, w->apart);
  return a;
}

static int64_t stream_keys(const walk *w, int64_t s) {
  return clamp(w->keys - s * w->apart, 0, w->apart);
}

/* Every float of every row is in one line of its own stream, lines of a stream ascend key by key, and none begins anywhere
 * else. */
static void covers(const memory *m, const walk *w) {
  unsigned char *seen = check_alloc((size_t)m->floats);
  memset(seen, 0, (size_t)m->floats);
  streams a = begin(m, w);
  int64_t done = 0;
  while (a.left > 0) {
    CHECK(streams_grant_lines(&a, 3) > 0 && a.granted > a.place);
    const bool dense = a.row == a.size;
    for (; streams_granted(&a); a.place += LINE_FLOATS, done++) {
      for (int64_t s = 0; s < STREAMS; s++) {
        if (a.key + s * a.apart >= a.end) {
          CHECK(a.at[s] == a.at[0]);
          continue;
        }
        const int64_t line = a.at[s] + a.place - m->data;
        CHECK(line >= 0 && line < m->floats && a.place < a.piece);
        const int64_t end = clamp(LINE_FLOATS, 0, a.piece - a.place);
        for (int64_t i = line; i < line + end; i++) seen[i]++;
        const int64_t key = a.key + s * a.apart + (dense ? a.place / a.size : 0);
        const key_run run = run_of(&m->task, key, 1);
        CHECK(line >= run.v - m->data && line < run.v - m->data + a.size);
      }
    }
    streams_settle(&a);
  }
  for (int64_t key = w->key; key < w->key + w->keys; key++) {
    const float *row = run_of(&m->task, key, 1).v;
    for (int64_t d = 0; d < w->size; d++) {
      if (seen[row + d - m->data] != 1) {
        CHECK_INT(seen[row + d - m->data], 1);
        d = w->size;
      }
      seen[row + d - m->data] = 0;
    }
  }
  for (int64_t i = 0; i < m->floats; i++) {
    if (seen[i]) {
      CHECK_INT(seen[i], 0);
      break;
    }
  }
  CHECK(done >= streams_lines(&a, stream_keys(w, 0)));
  free(seen);
}

/* Loaded turn by turn, rows are there before they are computed with, and not much else. */
static void loads(const memory *m, const walk *w) {
  const int64_t turn = 8;
  streams a = begin(m, w);
  for (int64_t rows = turn; a.left > 0; rows += turn) {
    streams_load(&a, streams_lines(&a, turn));
    if (a.left <= 0) {
      CHECK((double)rows * (1 + 16.0 / (double)(turn * a.size)) + 1 >= (double)stream_keys(w, 0));
      break;
    }
    const double loaded = (double)(a.key - w->key) + (double)a.place / (double)a.size;
    CHECK(loaded >= (double)rows);
    CHECK(loaded <= (double)rows + 16.0 * (double)rows / (double)a.size / (double)turn + 1);
  }
}

/* Lines are granted at the pace of computing: as many as are computed with, but for the last of them. */
static void paced(const memory *m, const walk *w) {
  streams a = begin(m, w);
  int64_t computed = 0, lines = 0;
  while (a.left > 0) {
    const int64_t key = a.key, place = a.place;
    streams_grant(&a, w->rows, w->part);
    computed += w->rows * w->part;
    streams_prefetch(&a, 2);
    CHECK(a.place <= a.granted || a.granted == 0);
    streams_settle(&a);
    CHECK(!streams_granted(&a));
    CHECK(a.left <= 0 || a.place < a.piece);
    const int64_t rows = (a.left > 0 ? a.key : w->key + stream_keys(w, 0)) - key;
    lines += w->row == w->size
                 ? divide_up(rows * w->size + (a.left > 0 ? a.place : 0) - place, LINE_FLOATS)
                 : rows * divide_up(w->size, LINE_FLOATS) +
                       (a.left > 0 ? a.place / LINE_FLOATS : 0) - place / LINE_FLOATS;
    const int64_t price = LINE_FLOATS * STREAMS * w->lanes;
    const int64_t rounded = w->page_size ? divide_up(lines, w->page_size) : 1;
    CHECK(lines <= computed / price + rounded);
    if (a.left > 0) CHECK(lines + rounded >= computed / price);
    CHECK(a.credit < price || a.left <= 0);
    const bool ends = computed <= w->keys * w->size * w->lanes * 8;
    CHECK(ends);
    if (!ends) break;
  }
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  for (size_t i = 0; i < sizeof walks / sizeof *walks; i++) {
    check_context("%s", walks[i].name);
    memory m = memory_of(&walks[i]);
    turn_pages(&m, &walks[i]);
    covers(&m, &walks[i]);
    loads(&m, &walks[i]);
    paced(&m, &walks[i]);
    streams off = {.task = &m.task};
    streams_begin(&off, true, 0, 16, 4);
    streams_grant(&off, 1, 1024);
    streams_load(&off, 16);
    CHECK(off.left == 0 && !streams_granted(&off));
    free(m.data);
  }
  return check_done();
}
