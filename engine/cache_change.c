/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What changes a cache: pages are given, shared and taken back here, and rows are written. */

#include "cache.h"

#include "isa.h"
#include "problem.h"
#include "status.h"
#include "threads.h"

#include <inttypes.h>
#include <string.h>

enum {
  UNLISTED,
  LISTED
}; /* attn_cache.staged; below 0, ~p: its last page becomes a copy of page p */

/* ---- pages of a sequence ---- */

/* Numbers of pages in a sequence, [begin, end); their table entry is at the number modulo the table's width. */
typedef struct span {
  int64_t begin, end;
} span;

/* Those in which keys [begin, end) lie. */
static span pages_of(const attn_cache *c, int64_t begin, int64_t end) {
  if (begin >= end) return (span){0, 0};
  if (!c->config.has_pages) return (span){0, 1};
  return (span){begin / c->page_size, (end - 1) / c->page_size + 1};
}

static bool interleaved(const attn_cache *c) {
  return c->config.key_layout == ATTN_KEYS_INTERLEAVED;
}

static int32_t *entry(const attn_cache *c, int64_t sequence, int64_t page) {
  return &c->tables[sequence * c->table_width + page % c->table_width];
}

static void leave(attn_cache *c, int32_t page) {
  if (--c->users[page] == 0) c->free[c->num_free++] = page;
}

static span held(const attn_cache *c, int64_t sequence) {
  return pages_of(c, c->lost[sequence], c->lengths[sequence]);
}

static int64_t window_start(const attn_cache *c, int64_t length) {
  return c->config.has_window && length > c->config.window ? length - c->config.window : 0;
}

static void shorten(attn_cache *c, int64_t sequence, int64_t length) {
  const span had = held(c, sequence), keeps = pages_of(c, c->lost[sequence], length);
  for (int64_t i = keeps.end > had.begin ? keeps.end : had.begin; i < had.end; i++) {
    leave(c, *entry(c, sequence, i));
  }
  c->lengths[sequence] = (int32_t)length;
  c->starts[sequence] = (int32_t)window_start(c, length);
  if (length == 0) c->lost[sequence] = 0;
}

attn_status attn_cache_truncate(attn_cache *cache, int64_t sequence, int64_t length) {
  attn_status status = attn_cache_check_handle(cache);
  if (!status) status = attn_cache_check_sequence(cache, "sequence", sequence);
  if (status) return status;
  status = attn_check_range("length", length, 0, cache->lengths[sequence],
                            "the length that the sequence has");
  if (status) return status;
  const int64_t start = window_start(cache, length), lost = cache->lost[sequence];
  if (length > 0 && start < lost) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "length is %" PRId64 ", where the window begins at key %" PRId64
                     "; the ring of sequence %" PRId64 " holds keys from %" PRId64 " on",
                     length, start, sequence, lost);
  }
  shorten(cache, sequence, length);
  return ATTN_OK;
}

attn_status attn_cache_reset(attn_cache *cache, int64_t sequence) {
  attn_status status = attn_cache_check_handle(cache);
  if (!status) status = attn_cache_check_sequence(cache, "sequence", sequence);
  if (!status) shorten(cache, sequence, 0);
  return status;
}

attn_status attn_cache_fork(attn_cache *cache, int64_t from, int64_t to) {
  attn_status status = attn_cache_check_handle(cache);
  if (!status) status = attn_cache_check_sequence(cache, "from", from);
  if (!status) status = attn_cache_check_sequence(cache, "to", to);
  if (status) return status;
  if (from == to) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "to is %" PRId64 ", as is from; it must be another sequence", to);
  }
  shorten(cache, to, 0);
  const span pages = held(cache, from);
  for (int64_t i = pages.begin; i < pages.end; i++) {
    const int32_t page = *entry(cache, from, i);
    *entry(cache, to, i) = page;
    cache->users[page]++;
  }
  cache->lengths[to] = cache->lengths[from];
  cache->starts[to] = cache->starts[from];
  cache->lost[to] = cache->lost[from];
  return ATTN_OK;
}

/* ---- appending: what is to be done ---- */

typedef struct append {
  const attn_kernels *kernels;
  attn_cache *cache;
  attn_cache_rows rows;
  attn_problem problem; /* whose keys are the rows */
} append;

static int64_t listed(const append *a, int64_t i) {
  return attn_cache_listed(a->rows.sequences, i);
}

static int64_t rows_of(const append *a, int64_t i) {
  return attn_problem_sequence(&a->problem, i).kv_len;
}

static attn_status check_pointers(const append *a) {
  if (a->rows.batch == 0 || a->rows.kv_len == 0 || (a->rows.k.data && a->rows.v.data))
    return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT, "%s.data is NULL; it must point to the array",
                   a->rows.k.data ? "v" : "k");
}

/* The rows are the keys of an attention problem without queries, and checked as those. */
static attn_status describe(append *a, const attn_cache_rows *given) {
  const attn_cache_config *c = &a->cache->config;
  a->rows = (attn_cache_rows)ATTN_CACHE_ROWS_INIT;
  attn_status status = attn_copy_params("rows", &a->rows, sizeof(a->rows), given);
  if (!status) {
    status = attn_check_range("batch", a->rows.batch, 0, c->max_sequences, "max_sequences");
  }
  if (status) return status;
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = a->rows.batch;
  p.q_heads = p.kv_heads = c->kv_heads;
  p.kv_len = a->rows.kv_len;
  p.head_size = c->head_size;
  p.value_size = c->value_size;
  p.k = a->rows.k;
  p.v = a->rows.v;
  p.lengths.cu_seqlens_k = a->rows.cu_seqlens_k;
  p.lengths.left_padding = a->rows.left_padding;
  p.lengths.kv_lens = a->rows.kv_lens;
  p.has_num_threads = a->rows.has_num_threads;
  p.num_threads = a->rows.num_threads;
  status = attn_problem_shape(&p, "", &a->problem);
  return status ? status : check_pointers(a);
}

static attn_status check_total(const attn_cache *c, int64_t sequence, int64_t rows, int64_t most,
                               const char *limit) {
  const int64_t length = c->lengths[sequence];
  if (rows <= most - length) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "sequence %" PRId64 ": keys %" PRId64 ", new rows %" PRId64 "; allowed: %" PRId64
                   " in all, %s",
                   sequence, length, rows, most, limit);
}

/* Several rows at once only up to where the window is full. */
static attn_status check_window(const attn_cache *c, int64_t sequence, int64_t rows) {
  const int64_t length = c->lengths[sequence], free = c->config.window - length;
  if (rows <= 1 || rows <= free) return ATTN_OK;
  if (free <= 0) {
    return attn_fail(ATTN_UNSUPPORTED,
                     "sequence %" PRId64 ": keys %" PRId64 ", new rows at once %" PRId64
                     "; allowed: 1, since its window of %" PRId64 " is full",
                     sequence, length, rows, c->config.window);
  }
  return attn_fail(ATTN_UNSUPPORTED,
                   "sequence %" PRId64 ": keys %" PRId64 ", new rows at once %" PRId64
                   "; allowed: up to %" PRId64 ", until its window of %" PRId64 " is full, then 1",
                   sequence, length, rows, free, c->config.window);
}

static attn_status check_length(const attn_cache *c, int64_t sequence, int64_t rows) {
  const attn_cache_config *config = &c->config;
  if (!config->has_window) {
    const bool all = config->has_pages && config->capacity == config->num_pages * config->page_size;
    return check_total(c, sequence, rows, config->capacity,
                       all ? "the cache's num_pages * page_size" : "the cache's capacity");
  }
  const attn_status status =
      check_total(c, sequence, rows, ATTN_MAX_EXTENT, "the most positions that there are");
  return status ? status : check_window(c, sequence, rows);
}

/* Marks the i-th sequence as listed. */
static attn_status list(append *a, int64_t i) {
  attn_cache *c = a->cache;
  const int64_t s = listed(a, i);
  attn_status status = attn_cache_check_listed(c, a->rows.sequences, i);
  if (status) return status;
  if (c->staged[s] != UNLISTED) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "sequences[%" PRId64 "] is %" PRId64
                     ", as is an earlier one; allowed: each sequence once",
                     i, s);
  }
  status = check_length(c, s, rows_of(a, i));
  if (!status) c->staged[s] = LISTED;
  return status;
}

static void unlist(append *a, int64_t count) {
  for (int64_t i = 0; i < count; i++) a->cache->staged[listed(a, i)] = UNLISTED;
}

/* ---- appending: pages ---- */

/* Keys lost when so many rows are appended. */
static int64_t lost_after(const attn_cache *c, int64_t sequence, int64_t rows) {
  if (!c->config.has_window) return 0;
  const int64_t excess = c->lengths[sequence] + rows - c->config.capacity;
  return excess > c->lost[sequence] ? excess : c->lost[sequence];
}

/* Pages of which no key is left then. Without pages the new keys take the place of the old ones. */
static span stale(const attn_cache *c, int64_t sequence, int64_t rows) {
  if (!c->config.has_pages) return (span){0, 0};
  return (span){c->lost[sequence] / c->page_size, lost_after(c, sequence, rows) / c->page_size};
}

/* Of the pages that rows are written to, only the first can be there already. */
static bool present(const attn_cache *c, int64_t sequence, int64_t page) {
  return page < held(c, sequence).end;
}

static span written(const attn_cache *c, int64_t sequence, int64_t rows) {
  return pages_of(c, c->lengths[sequence], c->lengths[sequence] + rows);
}

/* How many free pages a sequence takes. A page that others hold too is left to them now. */
static int64_t stage(attn_cache *c, int64_t sequence, int64_t rows) {
  const span pages = written(c, sequence, rows);
  int64_t needed = pages.end - pages.begin;
  if (needed == 0 || !present(c, sequence, pages.begin)) return needed;
  const int32_t page = *entry(c, sequence, pages.begin);
  if (c->users[page] == 1) return needed - 1;
  c->users[page]--;
  c->staged[sequence] = ~page;
  return needed;
}

static void unstage(attn_cache *c, int64_t sequence, int64_t rows) {
  if (c->staged[sequence] < 0) c->users[~c->staged[sequence]]++;
  const span old = stale(c, sequence, rows);
  for (int64_t i = old.begin; i < old.end; i++) c->users[*entry(c, sequence, i)]++;
}

/* Gives stale pages back, finds who needs how many, and undoes all that when there are not enough. All
 * are given back before any is taken, so that a page to be copied from cannot become free. */
static attn_status reserve(append *a) {
  attn_cache *c = a->cache;
  const int64_t free_before = c->num_free, batch = a->rows.batch;
  for (int64_t i = 0; i < batch; i++) {
    const int64_t s = listed(a, i);
    const span old = stale(c, s, rows_of(a, i));
    for (int64_t page = old.begin; page < old.end; page++) leave(c, *entry(c, s, page));
  }
  int64_t needed = 0;
  for (int64_t i = 0; i < batch; i++) needed += stage(c, listed(a, i), rows_of(a, i));
  const int64_t free_now = c->num_free;
  if (needed <= free_now) return ATTN_OK;
  for (int64_t i = 0; i < batch; i++) unstage(c, listed(a, i), rows_of(a, i));
  c->num_free = free_before; /* what was pushed beyond is forgotten */
  return attn_fail(ATTN_OUT_OF_MEMORY,
                   "the new rows need %" PRId64 " pages; free: %" PRId64 " of num_pages, %" PRId64,
                   needed, free_now, c->num_pages);
}

static void take_pages(attn_cache *c, int64_t sequence, int64_t rows) {
  const span pages = written(c, sequence, rows);
  for (int64_t i = pages.begin; i < pages.end; i++) {
    if (present(c, sequence, i) && c->staged[sequence] == LISTED) continue;
    const int32_t page = c->free[--c->num_free];
    c->users[page] = 1;
    *entry(c, sequence, i) = page;
  }
}

/* ---- appending: data ---- */

/* Copy on write: what one kv head of a sequence has in the page that it is about to write to. */
static void copy_page(void *user, int64_t task, int32_t runner) {
  (void)runner;
  const append *a = user;
  const attn_cache *c = a->cache;
  const int64_t heads = c->config.kv_heads, s = listed(a, task / heads), head = task % heads;
  if (c->staged[s] >= 0) return;
  const int64_t length = c->lengths[s], from = ~c->staged[s];
  const int64_t to = *entry(c, s, written(c, s, 1).begin);
  int64_t slots = length < c->page_size ? length : c->page_size; /* all of a ring that is full */
  if (c->config.has_pages) slots = length % c->page_size;
  const int64_t key_slots = interleaved(c) ? attn_whole_groups(slots) : slots;
  const int64_t k_head = c->page_size * c->config.head_size;
  const int64_t v_head = c->page_size * c->config.value_size;
  memcpy(c->k + to * c->k_page + head * k_head, c->k + from * c->k_page + head * k_head,
         (size_t)(key_slots * c->config.head_size) * sizeof(float));
  memcpy(c->v + to * c->v_page + head * v_head, c->v + from * c->v_page + head * v_head,
         (size_t)(slots * c->config.value_size) * sizeof(float));
}

/* The rows of one kv head of a sequence, page by page. */
static void write_rows(void *user, int64_t task, int32_t runner) {
  (void)runner;
  const append *a = user;
  const attn_cache *c = a->cache;
  const int64_t heads = c->config.kv_heads, s = listed(a, task / heads), head = task % heads;
  const int64_t dk = c->config.head_size, dv = c->config.value_size;
  const attn_sequence rows = attn_problem_sequence(&a->problem, task / heads);
  const attn_input *k = &a->rows.k, *v = &a->rows.v;
  for (int64_t j = 0; j < rows.kv_len;) {
    const int64_t key = c->lengths[s] + j, slot = key % c->page_size;
    const int64_t page = *entry(c, s, key / c->page_size), row = rows.kv_row + j;
    int64_t count = c->page_size - slot;
    if (count > rows.kv_len - j) count = rows.kv_len - j;
    float *keys = c->k + page * c->k_page + head * c->page_size * dk;
    const float *from = (const float *)k->data + rows.kv_batch * k->batch_stride +
                        head * k->head_stride + row * k->row_stride;
    if (interleaved(c)) {
      a->kernels->interleave(keys, slot, from, k->row_stride, k->dim_stride, dk, count);
    } else {
      attn_copy_rows(keys + slot * dk, from, k->row_stride, k->dim_stride, dk, count);
    }
    attn_copy_rows(c->v + page * c->v_page + (head * c->page_size + slot) * dv,
                   (const float *)v->data + rows.kv_batch * v->batch_stride +
                       head * v->head_stride + row * v->row_stride,
                   v->row_stride, v->dim_stride, dv, count);
    j += count;
  }
}

/* All copies come before the first row: of those who share a page, the last keeps it and writes to it. */
static void write_all(append *a) {
  const attn_cache *c = a->cache;
  const int32_t most = a->problem.params.num_threads;
  const int64_t tasks = a->rows.batch * c->config.kv_heads;
  int64_t rows = 0, copies = 0;
  for (int64_t i = 0; i < a->rows.batch; i++) {
    rows += rows_of(a, i);
    copies += c->staged[listed(a, i)] < 0;
  }
  if (copies > 0) {
    attn_run_tasks(attn_cache_threads(copies * (c->k_page + c->v_page), most), tasks, copy_page, a,
                   NULL, NULL);
  }
  const int64_t floats = rows * c->config.kv_heads * (c->config.head_size + c->config.value_size);
  attn_run_tasks(attn_cache_threads(floats, most), tasks, write_rows, a, NULL, NULL);
}

attn_status attn_cache_append(attn_cache *cache, const attn_cache_rows *rows) {
  append a = {.cache = cache};
  attn_status status = attn_cache_check_handle(cache);
  if (!status) status = attn_kernels_current(&a.kernels);
  if (!status) status = describe(&a, rows);
  if (status) return status;
  int64_t count = 0;
  while (count < a.rows.batch && !status) {
    status = list(&a, count);
    if (!status) count++;
  }
  if (!status) status = reserve(&a);
  if (status) {
    unlist(&a, count);
    return status;
  }
  for (int64_t i = 0; i < count; i++) take_pages(cache, listed(&a, i), rows_of(&a, i));
  write_all(&a);
  for (int64_t i = 0; i < count; i++) {
    const int64_t s = listed(&a, i), n = rows_of(&a, i);
    cache->lost[s] = (int32_t)lost_after(cache, s, n);
    cache->lengths[s] += (int32_t)n;
    cache->starts[s] = (int32_t)window_start(cache, cache->lengths[s]);
  }
  unlist(&a, count);
  return ATTN_OK;
}
