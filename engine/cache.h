/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Inside of a cache: shared by what makes and reads it (cache.c) and what changes it (cache_change.c). */
#ifndef ATTN_ENGINE_CACHE_H
#define ATTN_ENGINE_CACHE_H

#include <attn/cache.h>

/* Without pages in the config, each sequence has one page of `capacity` slots, up to whole groups, all the
 * same; the last keys of a ring then lie in it at their position modulo its size. */
struct attn_cache {
  attn_cache_config config; /* every optional value resolved */
  int64_t page_size, num_pages;
  int64_t table_width;
  int64_t k_page, v_page; /* floats of a page */
  size_t bytes;

  float *k, *v; /* (page, kv_head, slot, dim) */
  /* (sequence, table_width): the page of keys i * page_size ... is at i % table_width; only entries
   * of keys that are held mean something. */
  int32_t *tables;
  int32_t *lengths; /* per sequence: keys appended */
  int32_t *starts;  /* per sequence: keys that have left the window */
  int32_t *lost;    /* per sequence, at most starts: keys that are no longer held */
  int32_t *staged;  /* per sequence: used inside attn_cache_append() */
  int32_t *users;   /* per page: sequences that hold it */
  int32_t *free;    /* numbers of the pages that nobody holds, a stack */
  int64_t num_free;

  void *own; /* the library's memory; NULL: the caller's */
};

/* Threads for moving so many floats. */
int32_t attn_cache_threads(int64_t floats, int32_t most);

attn_status attn_cache_check_handle(const attn_cache *cache);
attn_status attn_cache_check_sequence(const attn_cache *cache, const char *name, int64_t sequence);

/* The i-th sequence of a list; without one they are numbered from 0. */
static inline int64_t attn_cache_listed(const int32_t *sequences, int64_t i) {
  return sequences ? sequences[i] : i;
}
attn_status attn_cache_check_listed(const attn_cache *cache, const int32_t *sequences, int64_t i);

#endif
