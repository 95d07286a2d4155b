/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Random operations on caches of every kind beside a plain model: per sequence, which row each key is, and
 * which pages it holds. After every operation lengths, pages, and the contents of every slot must be the
 * model's; slots that hold nothing are filled with NaN; now and then attention on the cache
 * must have the bits of attention on plain arrays. A call that the model refuses must leave everything as it was. */

#include "problem.h"
#include "random.h"
#include <attn/cache.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 6, MOST_KEYS = 1400 };

typedef struct cache_kind {
  const char *name;
  int64_t kv_heads, head_size, value_size;
  int64_t page_size, num_pages; /* 0: contiguous */
  int64_t capacity, window;     /* 0: not given */
  int64_t most_rows;            /* of a sequence in one append */
  bool own_memory;
} cache_kind;

static const cache_kind kinds[] = {
    {"contiguous", 2, 5, 3, 0, 0, 37, 0, 12, true},
    {"contiguous, long", 1, 8, 8, 0, 0, 1300, 0, 300, false},
    {"pages of 1", 2, 4, 4, 1, 60, 0, 0, 9, false},
    {"pages of 2", 1, 3, 7, 2, 50, 40, 0, 11, true},
    {"pages of 3", 3, 6, 2, 3, 40, 0, 0, 14, false},
    {"pages of 16", 2, 16, 8, 16, 14, 0, 0, 30, true},
    {"pages of 16, long", 1, 4, 4, 16, 200, 1300, 0, 300, true},
    {"pages of 128", 1, 8, 8, 128, 12, 0, 0, 200, false},
    {"ring of 1", 1, 4, 4, 0, 0, 0, 1, 3, false},
    {"ring of 7", 2, 5, 3, 0, 0, 0, 7, 5, true},
    {"ring of 7 in 12", 1, 3, 4, 0, 0, 12, 7, 5, false},
    {"ring of 4 in pages of 1", 1, 4, 4, 1, 20, 0, 4, 4, false},
    {"ring of 5 in pages of 2", 2, 4, 2, 2, 16, 0, 5, 4, true},
    {"ring of 9 in pages of 3, 14 kept", 1, 3, 3, 3, 24, 14, 9, 6, false},
    {"ring of 6 in pages of 16", 1, 4, 4, 16, 9, 0, 6, 6, false},
    {"ring of 150 in pages of 16", 1, 4, 4, 16, 50, 0, 150, 90, true},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

typedef struct model {
  int64_t length[SEQUENCES], start[SEQUENCES], lost[SEQUENCES];
  int32_t row[SEQUENCES][MOST_KEYS];  /* of each key: the number of the row that was appended */
  int32_t page[SEQUENCES][MOST_KEYS]; /* of each page of keys: who may share it; 0 is none */
} model;

typedef struct bench {
  const cache_kind *kind;
  attn_cache_config config;
  attn_cache *cache;
  void *memory;
  float *k, *v; /* the cache's own */
  size_t k_count, v_count;
  model now;
  int32_t rows, pages; /* numbers given so far */
  uint64_t seed, draws;
} bench;

static int64_t below(bench *b, int64_t bound) {
  return (int64_t)sm_below(b->seed, &b->draws, (uint64_t)bound);
}

static float row_value(bool value, int64_t row, int64_t head, int64_t dim) {
  return sm(value ? 12 : 11, (uint64_t)((row * 8 + head) * 32 + dim));
}

/* ---- the model ---- */

static int64_t model_page_size(const bench *b) {
  if (b->config.has_pages) return b->config.page_size;
  return b->config.key_layout ? (b->config.capacity + 15) / 16 * 16 : b->config.capacity;
}

/* Element of k of a head's slot in a page. */
static float *key_element(const bench *b, int64_t page, int64_t head, int64_t slot, int64_t dim) {
  const int64_t size = b->kind->head_size;
  float *keys = b->k + (page * b->kind->kv_heads + head) * model_page_size(b) * size;
  if (!b->config.key_layout) return keys + slot * size + dim;
  return keys + slot / 16 * 16 * size + dim * 16 + slot % 16;
}

/* Without pages there is one, whose number is 0. */
static int64_t page_number(const bench *b, int64_t key) {
  return b->config.has_pages ? key / b->config.page_size : 0;
}

static void drop_pages(const bench *b, model *m, int64_t s) {
  for (int64_t i = 0; i < MOST_KEYS; i++) {
    bool used = false;
    if (b->config.has_pages) {
      const int64_t first = i * b->config.page_size, end = first + b->config.page_size;
      used = first < m->length[s] && end > m->lost[s];
    } else {
      used = i == 0 && m->length[s] > 0;
    }
    if (!used) m->page[s][i] = 0;
  }
}

static bool page_shared(const model *m, int64_t s, int64_t number) {
  for (int64_t other = 0; other < SEQUENCES; other++) {
    if (other != s && m->page[other][number] == m->page[s][number]) return true;
  }
  return false;
}

/* Pages are shared at the same number only, since a fork keeps numbers. */
static int64_t pages_in_use(const model *m) {
  int64_t count = 0;
  for (int64_t i = 0; i < MOST_KEYS; i++) {
    for (int64_t s = 0; s < SEQUENCES; s++) {
      bool first = m->page[s][i] != 0;
      for (int64_t other = 0; other < s; other++) first &= m->page[other][i] != m->page[s][i];
      count += first;
    }
  }
  return count;
}

static void set_window(const bench *b, model *m, int64_t s) {
  const attn_cache_config *c = &b->config;
  if (!c->has_window) return;
  const int64_t length = m->length[s];
  m->start[s] = length > c->window ? length - c->window : 0;
  if (length - c->capacity > m->lost[s]) m->lost[s] = length - c->capacity;
  if (length == 0) m->lost[s] = 0;
}

static void model_truncate(const bench *b, model *m, int64_t s, int64_t length) {
  m->length[s] = length;
  set_window(b, m, s);
  drop_pages(b, m, s);
}

/* ---- comparing ---- */

static void expect_usage(const bench *b) {
  attn_cache_usage u = ATTN_CACHE_USAGE_INIT;
  CHECK_OK(attn_cache_get_usage(b->cache, &u));
  const int64_t page =
      model_page_size(b) * b->kind->kv_heads * (b->kind->head_size + b->kind->value_size) * 4;
  CHECK_INT(u.pages_in_use, pages_in_use(&b->now));
  CHECK_INT(u.bytes_in_use, u.pages_in_use * page);
}

static bool slot_right(const bench *b, int64_t page, int64_t slot, int32_t row) {
  const cache_kind *k = b->kind;
  const int64_t size = model_page_size(b);
  for (int64_t h = 0; h < k->kv_heads; h++) {
    const int64_t at = (page * k->kv_heads + h) * size + slot;
    for (int64_t d = 0; d < k->head_size; d++) {
      if (*key_element(b, page, h, slot, d) != row_value(false, row, h, d)) return false;
    }
    for (int64_t d = 0; d < k->value_size; d++) {
      if (b->v[at * k->value_size + d] != row_value(true, row, h, d)) return false;
    }
  }
  return true;
}

static void poison(bench *b, int64_t page, int64_t slot) {
  const cache_kind *k = b->kind;
  for (int64_t h = 0; h < k->kv_heads; h++) {
    const int64_t at = (page * k->kv_heads + h) * model_page_size(b) + slot;
    for (int64_t d = 0; d < k->head_size; d++) *key_element(b, page, h, slot, d) = NAN;
    for (int64_t d = 0; d < k->value_size; d++) b->v[at * k->value_size + d] = NAN;
  }
}

/* Every key that is held lies where the tables say; every other slot becomes NaN. */
static void expect_contents(bench *b) {
  const int64_t size = model_page_size(b);
  attn_params p = ATTN_PARAMS_INIT;
  CHECK_OK(attn_cache_view(b->cache, SEQUENCES, NULL, NULL, 0, &p));
  bool *taken = check_alloc((size_t)(p.pages.num_pages * size));
  memset(taken, 0, (size_t)(p.pages.num_pages * size));
  for (int64_t s = 0; s < SEQUENCES; s++) {
    CHECK_INT(attn_cache_length(b->cache, s), b->now.length[s]);
    CHECK_INT(p.lengths.kv_lens[s], b->now.length[s]);
    if (p.lengths.kv_starts) CHECK_INT(p.lengths.kv_starts[s], b->now.start[s]);
    int64_t wrong = 0;
    for (int64_t j = b->now.lost[s]; j < b->now.length[s]; j++) {
      const int64_t page = p.pages.table[s * p.pages.table_stride + j / size % p.pages.table_width];
      if (page < 0 || page >= p.pages.num_pages ||
          !slot_right(b, page, j % size, b->now.row[s][j])) {
        wrong++;
      } else {
        taken[page * size + j % size] = true;
      }
    }
    CHECK_INT(wrong, 0);
  }
  for (int64_t i = 0; i < p.pages.num_pages * size; i++) {
    if (!taken[i]) poison(b, i / size, i % size);
  }
  free(taken);
}

/* ---- attention ---- */

static void gather(const bench *b, int64_t s, problem *p) {
  const shape *z = &p->shape;
  for (int64_t h = 0; h < z->kv_heads; h++) {
    for (int64_t j = 0; j < z->kv_len; j++) {
      const bool there = j >= b->now.start[s];
      const int32_t row = b->now.row[s][j];
      float *k = p->k + (h * z->kv_len + j) * z->head_size;
      float *v = p->v + (h * z->kv_len + j) * z->value_size;
      for (int64_t d = 0; d < z->head_size; d++) k[d] = there ? row_value(false, row, h, d) : NAN;
      for (int64_t d = 0; d < z->value_size; d++) v[d] = there ? row_value(true, row, h, d) : NAN;
    }
  }
}

/* Sequence `s` of a view, its rows of q at `row` of the packed ones, alone and from plain arrays. */
static void expect_alone(const bench *b, int64_t s, const problem *got, int64_t row, int64_t rows) {
  const cache_kind *kind = b->kind;
  const int64_t heads = got->shape.q_heads;
  problem p = problem_new(
      (shape){1, heads, kind->kv_heads, rows, b->now.length[s], kind->head_size, kind->value_size});
  gather(b, s, &p);
  p.params.q = got->params.q;
  p.params.q.data = (const float *)got->params.q.data + row * got->params.q.row_stride;
  const int32_t start = (int32_t)b->now.start[s];
  p.params.lengths.kv_starts = &start;
  problem_run(&p);
  for (int64_t h = 0; h < heads; h++) {
    const int64_t from = h * got->shape.q_len + row;
    CHECK_BITS(got->o + from * kind->value_size, p.o + h * rows * kind->value_size,
               (size_t)(rows * kind->value_size));
    CHECK_BITS(got->lse + from, p.lse + h * rows, (size_t)rows);
  }
  problem_free(&p);
}

static void expect_attention(bench *b) {
  const cache_kind *kind = b->kind;
  int32_t sequences[SEQUENCES], cu[SEQUENCES + 1] = {0};
  const int64_t count = 1 + below(b, SEQUENCES), first = below(b, SEQUENCES);
  const bool consecutive = below(b, 2) == 0;
  for (int64_t i = 0; i < count; i++) {
    sequences[i] =
        (int32_t)(consecutive ? (first < SEQUENCES - count ? first : SEQUENCES - count) + i
                              : below(b, SEQUENCES));
    const int64_t rows = b->now.start[sequences[i]] ? below(b, 2) : below(b, 5);
    cu[i + 1] = cu[i] + (int32_t)rows;
  }
  const int64_t group = 1 + below(b, 3);
  problem p = problem_new((shape){1, kind->kv_heads * group, kind->kv_heads, cu[count], 0,
                                  kind->head_size, kind->value_size});
  problem_fill(&p, b->seed + b->draws, 2);
  p.params.lengths.cu_seqlens_q = cu;
  p.params.has_num_threads = true;
  p.params.num_threads = (int32_t)(1 + below(b, 3));
  int32_t room[SEQUENCES * (MOST_KEYS + 2)];
  CHECK(attn_cache_view_room(b->cache, count) <= sizeof(room) / sizeof(room[0]));
  if (CHECK_OK(attn_cache_view(b->cache, count, sequences, consecutive ? NULL : room,
                               attn_cache_view_room(b->cache, count), &p.params))) {
    problem_run(&p);
    for (int64_t i = 0; i < count; i++) {
      expect_alone(b, sequences[i], &p, cu[i], cu[i + 1] - cu[i]);
    }
  }
  problem_free(&p);
}

/* ---- appending ---- */

typedef struct batch {
  int64_t count;
  int32_t sequences[SEQUENCES];
  int64_t rows[SEQUENCES];
} batch;

static batch draw_batch(bench *b) {
  batch a = {.count = below(b, 4) ? 1 + below(b, 2) : below(b, SEQUENCES + 1)};
  int32_t all[SEQUENCES];
  for (int32_t s = 0; s < SEQUENCES; s++) all[s] = s;
  for (int64_t i = 0; i < a.count; i++) {
    const int64_t pick = i + below(b, SEQUENCES - i);
    a.sequences[i] = all[pick];
    all[pick] = all[i];
    a.rows[i] = below(b, 3) ? below(b, 3) : below(b, b->kind->most_rows + 1);
    if (b->now.start[a.sequences[i]] && below(b, 20)) a.rows[i] = below(b, 2);
  }
  return a;
}

/* What the model makes of it: a status, and the state after it. */
static attn_status model_append(bench *b, const batch *a, model *m) {
  const attn_cache_config *c = &b->config;
  for (int64_t i = 0; i < a->count; i++) {
    const int64_t s = a->sequences[i], length = m->length[s] + a->rows[i];
    if (!c->has_window && length > c->capacity) return ATTN_INVALID_ARGUMENT;
    if (c->has_window && a->rows[i] > 1 && length > c->window) return ATTN_UNSUPPORTED;
  }
  int64_t before[SEQUENCES];
  for (int64_t i = 0; i < a->count; i++) { /* who loses keys gives pages back first */
    const int64_t s = a->sequences[i];
    before[i] = m->length[s];
    m->length[s] += a->rows[i];
    set_window(b, m, s);
    drop_pages(b, m, s);
  }
  int32_t row = b->rows, page = b->pages;
  for (int64_t i = 0; i < a->count; i++) {
    const int64_t s = a->sequences[i];
    for (int64_t j = before[i]; j < m->length[s]; j++) {
      const int64_t number = page_number(b, j);
      if (m->page[s][number] == 0 || page_shared(m, s, number)) m->page[s][number] = ++page;
      m->row[s][j] = ++row;
    }
  }
  const int64_t pages = c->has_pages ? c->num_pages : SEQUENCES;
  return pages_in_use(m) > pages ? ATTN_OUT_OF_MEMORY : ATTN_OK;
}

/* An input in which the rows of a batch lie as `rows` says; all else is NaN. */
typedef struct packing {
  int64_t entries, len;      /* batch entries and rows of each in memory */
  int64_t order, dim_stride; /* 0: (batch, head, row, dim), 1: (batch, row, head, dim) */
  int32_t cu[SEQUENCES + 1], padding[SEQUENCES], lens[SEQUENCES];
} packing;

static attn_input lay(const bench *b, const batch *a, const packing *g, bool value,
                      float **memory) {
  const int64_t heads = b->kind->kv_heads;
  const int64_t size = (value ? b->kind->value_size : b->kind->head_size) * g->dim_stride;
  const size_t count = (size_t)(g->entries * g->len * heads * size);
  attn_input in = {.batch_stride = g->len * heads * size, .dim_stride = g->dim_stride};
  in.head_stride = g->order ? size : g->len * size;
  in.row_stride = g->order ? heads * size : size;
  *memory = check_floats(count);
  for (size_t i = 0; i < count; i++) (*memory)[i] = NAN;
  in.data = *memory;
  int64_t row = b->rows;
  for (int64_t i = 0; i < a->count; i++) {
    for (int64_t j = 0; j < a->rows[i]; j++, row++) {
      const int64_t entry = g->entries == 1 ? 0 : i, at = g->cu[i] + g->padding[i] + j;
      for (int64_t h = 0; h < heads; h++) {
        for (int64_t d = 0; d * g->dim_stride < size; d++) {
          (*memory)[entry * in.batch_stride + h * in.head_stride + at * in.row_stride +
                    d * in.dim_stride] = row_value(value, row + 1, h, d);
        }
      }
    }
  }
  return in;
}

static attn_status append(bench *b, const batch *a) {
  packing g = {.entries = a->count, .order = below(b, 2), .dim_stride = 1 + below(b, 5) / 4};
  const bool packed = below(b, 2), padded = below(b, 2);
  bool same = true;
  int64_t longest = 0;
  for (int64_t i = 0; i < a->count; i++) {
    g.padding[i] = padded ? (int32_t)below(b, 3) : 0;
    g.lens[i] = (int32_t)a->rows[i];
    const int32_t room = g.padding[i] + g.lens[i] + (padded ? (int32_t)below(b, 3) : 0);
    if (packed) g.cu[i + 1] = g.cu[i] + room;
    if (room > longest) longest = room;
    same &= a->rows[i] == a->rows[0];
  }
  g.len = packed ? g.cu[a->count] : longest;
  if (packed) g.entries = 1;
  attn_cache_rows r = ATTN_CACHE_ROWS_INIT;
  r.batch = a->count;
  r.sequences = a->sequences;
  r.kv_len = g.len;
  if (packed) r.cu_seqlens_k = g.cu;
  if (padded) r.left_padding = g.padding;
  if (padded || (!packed && !same)) r.kv_lens = g.lens;
  r.has_num_threads = true;
  r.num_threads = (int32_t)(1 + below(b, 3));
  float *k, *v;
  r.k = lay(b, a, &g, false, &k);
  r.v = lay(b, a, &g, true, &v);
  const attn_status status = attn_cache_append(b->cache, &r);
  free(k);
  free(v);
  return status;
}

static void try_append(bench *b) {
  const batch a = draw_batch(b);
  model *after = check_alloc(sizeof(*after));
  *after = b->now;
  const attn_status want = model_append(b, &a, after);
  float *k = NULL, *v = NULL;
  if (want) k = copy_floats(b->k, b->k_count), v = copy_floats(b->v, b->v_count);
  CHECK_STATUS(append(b, &a), want);
  if (want) {
    CHECK_BITS(b->k, k, b->k_count);
    CHECK_BITS(b->v, v, b->v_count);
  } else {
    b->now = *after;
    for (int64_t i = 0; i < a.count; i++) b->rows += (int32_t)a.rows[i];
    b->pages += MOST_KEYS * SEQUENCES; /* more than were given */
  }
  free(k);
  free(v);
  free(after);
}

/* ---- the rest ---- */

static void try_truncate(bench *b) {
  const int64_t s = below(b, SEQUENCES), length = b->now.length[s];
  int64_t to = below(b, 2) ? length - below(b, 4) : below(b, length + 2);
  if (b->config.has_window && below(b, 3) == 0) { /* as far back as a ring goes, or one too far */
    to = b->now.lost[s] + b->config.window - below(b, 2);
  }
  model *after = check_alloc(sizeof(*after));
  *after = b->now;
  attn_status want = to < 0 || to > length ? ATTN_INVALID_ARGUMENT : ATTN_OK;
  if (!want) model_truncate(b, after, s, to);
  if (!want && to > 0 && after->start[s] < after->lost[s]) want = ATTN_INVALID_ARGUMENT;
  CHECK_STATUS(attn_cache_truncate(b->cache, s, to), want);
  if (!want) b->now = *after;
  free(after);
}

static void try_fork(bench *b) {
  const int64_t from = below(b, SEQUENCES), to = below(b, SEQUENCES);
  if (from == to) {
    CHECK_STATUS(attn_cache_fork(b->cache, from, to), ATTN_INVALID_ARGUMENT);
    return;
  }
  CHECK_OK(attn_cache_fork(b->cache, from, to));
  model *m = &b->now;
  m->length[to] = m->length[from];
  m->start[to] = m->start[from];
  m->lost[to] = m->lost[from];
  memcpy(m->row[to], m->row[from], sizeof(m->row[to]));
  memcpy(m->page[to], m->page[from], sizeof(m->page[to]));
}

static void step(bench *b) {
  const int64_t what = below(b, 20);
  if (what < 13) {
    try_append(b);
  } else if (what < 16) {
    try_truncate(b);
  } else if (what < 19) {
    try_fork(b);
  } else {
    const int64_t s = below(b, SEQUENCES);
    CHECK_OK(attn_cache_reset(b->cache, s));
    model_truncate(b, &b->now, s, 0);
  }
}

static void bench_begin(bench *b, const cache_kind *kind, uint64_t seed) {
  *b = (bench){.kind = kind, .seed = seed};
  attn_cache_config c = ATTN_CACHE_CONFIG_INIT;
  c.kv_heads = kind->kv_heads;
  c.head_size = kind->head_size;
  c.has_value_size = kind->value_size != kind->head_size;
  c.value_size = kind->value_size;
  c.max_sequences = SEQUENCES;
  c.has_pages = kind->page_size > 0;
  c.page_size = kind->page_size;
  c.num_pages = kind->num_pages;
  c.has_capacity = kind->capacity > 0;
  c.capacity = kind->capacity;
  c.has_window = kind->window > 0;
  c.window = kind->window;
  c.has_key_layout = below(b, 2) == 0; /* by default interleaved where pages allow it */
  const bool can = !c.has_pages || c.page_size % 16 == 0;
  if (can) c.key_layout = (attn_key_layout)below(b, 2);
  size_t bytes = 0;
  CHECK_OK(attn_cache_bytes(&c, &bytes));
  if (!kind->own_memory) {
    b->memory = check_alloc(bytes + 1);
    c.memory = (char *)b->memory + 1;
    c.memory_size = bytes;
    memset(b->memory, 0xff, bytes + 1);
  }
  CHECK_OK(attn_cache_create(&c, &b->cache));
  b->config = (attn_cache_config)ATTN_CACHE_CONFIG_INIT;
  CHECK_OK(attn_cache_get_config(b->cache, &b->config));
  CHECK_INT(b->config.key_layout, c.has_key_layout ? c.key_layout
                                  : can            ? ATTN_KEYS_INTERLEAVED
                                                   : ATTN_KEYS_IN_ROWS);
  attn_params p = ATTN_PARAMS_INIT;
  CHECK_OK(attn_cache_view(b->cache, 1, NULL, NULL, 0, &p));
  b->k_count = (size_t)(p.pages.num_pages * p.k.batch_stride);
  b->v_count = (size_t)(p.pages.num_pages * p.v.batch_stride);
  memcpy(&b->k, &p.k.data, sizeof(b->k)); /* a view is for reading; the test writes all the same */
  memcpy(&b->v, &p.v.data, sizeof(b->v));
  for (size_t i = 0; i < b->k_count; i++) b->k[i] = NAN;
  for (size_t i = 0; i < b->v_count; i++) b->v[i] = NAN;
}

static void run(const cache_kind *kind, uint64_t seed, int steps) {
  bench *b = check_alloc(sizeof(*b));
  bench_begin(b, kind, seed);
  for (int i = 0; i < steps; i++) {
    check_context("%s, seed %llu, step %d", kind->name, (unsigned long long)seed, i);
    step(b);
    expect_usage(b);
    expect_contents(b);
    if (i % 8 == 7) expect_attention(b);
    for (int64_t s = 0; s < SEQUENCES; s++) { /* rings go on for ever, the model does not */
      if (b->now.length[s] + kind->most_rows < MOST_KEYS) continue;
      CHECK_OK(attn_cache_reset(b->cache, s));
      model_truncate(b, &b->now, s, 0);
    }
  }
  attn_cache_destroy(b->cache);
  free(b->memory);
  free(b);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  const int rounds = check_full() ? 10 : 1, steps = check_brief() ? 60 : check_full() ? 2000 : 600;
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < KINDS; i++) run(&kinds[i], (uint64_t)(7000 + 100 * round + i), steps);
  }
  return check_done();
}
