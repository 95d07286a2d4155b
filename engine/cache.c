/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Caches: their shape, their memory, and what can be asked of them. */

#include "cache.h"

#include "memory.h"
#include "problem.h"
#include "status.h"
#include "threads.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_PAGE = 4096 };

int32_t attn_cache_threads(int64_t floats, int32_t most) {
  const int64_t worth = 16; /* a float moved takes as long as so many multiply-adds */
  return attn_threads_for((double)(floats * worth), most);
}

attn_status attn_cache_check_handle(const attn_cache *cache) {
  return cache ? ATTN_OK
               : attn_fail(ATTN_INVALID_ARGUMENT, "cache is NULL; it must be a cache's handle");
}

attn_status attn_cache_check_sequence(const attn_cache *cache, const char *name, int64_t sequence) {
  return attn_check_range(name, sequence, 0, cache->config.max_sequences - 1, "max_sequences - 1");
}

attn_status attn_cache_check_listed(const attn_cache *cache, const int32_t *sequences, int64_t i) {
  return attn_check_entry("", "sequences", i, attn_cache_listed(sequences, i), 0,
                          cache->config.max_sequences - 1, "max_sequences - 1");
}

/* ---- shape ---- */

static attn_status check_storage(const attn_cache_config *c) {
  const char *name = attn_dtype_name(c->dtype);
  if (c->dtype == ATTN_F32) return ATTN_OK;
  if (name) {
    return attn_fail(ATTN_UNSUPPORTED, "dtype is %s; caches hold F32 in this version", name);
  }
  return attn_fail(ATTN_INVALID_ARGUMENT, "dtype is %d; allowed in this version: ATTN_F32 (%d)",
                   (int)c->dtype, ATTN_F32);
}

/* What is not looked at has no value. */
static void clear_unused(attn_cache_config *c) {
  if (!c->has_pages) c->page_size = c->num_pages = 0;
  if (!c->has_window) c->window = 0;
  if (!c->memory) c->memory_size = 0;
}

/* Fills in what is optional. */
static attn_status resolve_lengths(attn_cache_config *c) {
  attn_status status = ATTN_OK;
  if (c->has_pages) {
    status = attn_check_range("page_size", c->page_size, 1, ATTN_MAX_EXTENT, NULL);
    if (!status) status = attn_check_range("num_pages", c->num_pages, 1, ATTN_MAX_EXTENT, NULL);
  }
  if (!status && c->has_window) {
    status = attn_check_range("window", c->window, 1, ATTN_MAX_EXTENT, NULL);
  }
  if (status) return status;
  if (!c->has_capacity && c->has_window) {
    c->capacity = c->window;
  } else if (!c->has_capacity && c->has_pages) {
    const int64_t all = c->num_pages * c->page_size;
    c->capacity = all < ATTN_MAX_EXTENT ? all : ATTN_MAX_EXTENT;
  } else if (!c->has_capacity) {
    return attn_fail(
        ATTN_INVALID_ARGUMENT,
        "has_capacity is false, and so are has_pages and has_window; a cache needs one of them");
  }
  c->has_capacity = true;
  if (c->has_window && c->capacity < c->window) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "capacity is %" PRId64 "; it must be at least window, %" PRId64, c->capacity,
                     c->window);
  }
  return attn_check_range("capacity", c->capacity, 1, ATTN_MAX_EXTENT, NULL);
}

/* Without pages the one page of a sequence is made so long that its last group is whole. */
static int64_t slots_of_page(const attn_cache_config *c) {
  if (c->has_pages) return c->page_size;
  return c->key_layout == ATTN_KEYS_INTERLEAVED ? attn_whole_groups(c->capacity) : c->capacity;
}

/* `known`: the caller's struct has the choice at all. */
static attn_status resolve_layout(attn_cache_config *c, bool known) {
  const int64_t most = ATTN_MAX_EXTENT / ATTN_KEY_GROUP * ATTN_KEY_GROUP;
  const bool can = c->has_pages ? c->page_size % ATTN_KEY_GROUP == 0 : c->capacity <= most;
  if (!c->has_key_layout) {
    c->key_layout = known && can ? ATTN_KEYS_INTERLEAVED : ATTN_KEYS_IN_ROWS;
  }
  c->has_key_layout = true;
  if (c->key_layout == ATTN_KEYS_INTERLEAVED && !c->has_pages) {
    return attn_check_range("capacity of interleaved keys", c->capacity, 1, most, NULL);
  }
  return attn_check_key_layout(c->key_layout, "page_size", c->page_size);
}

static attn_status resolve(const attn_cache_config *given, attn_cache_config *c) {
  *c = (attn_cache_config)ATTN_CACHE_CONFIG_INIT;
  attn_status status = attn_copy_params("config", c, sizeof(*c), given);
  if (!status) status = check_storage(c);
  if (!status) status = attn_check_range("kv_heads", c->kv_heads, 1, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("head_size", c->head_size, 1, ATTN_MAX_HEAD_SIZE, NULL);
  if (status) return status;
  if (!c->has_value_size) c->value_size = c->head_size;
  c->has_value_size = true;
  status = attn_check_range("value_size", c->value_size, 1, ATTN_MAX_HEAD_SIZE, NULL);
  if (!status)
    status = attn_check_range("max_sequences", c->max_sequences, 1, ATTN_MAX_EXTENT, NULL);
  if (!status) status = resolve_lengths(c);
  if (!status) {
    const size_t whole = offsetof(attn_cache_config, key_layout) + sizeof(c->key_layout);
    status = resolve_layout(c, given->struct_size >= whole);
  }
  if (!status) status = attn_check_threads(c->has_num_threads, c->num_threads, &c->num_threads);
  c->has_num_threads = true;
  clear_unused(c);
  return status;
}

/* Entries of a table so that the keys that may be held at once never meet in one: a run of n keys touches
 * (n - 2) / page_size + 2 pages at most when it may begin anywhere, as in a ring; and no more than there are. */
static int64_t table_width(const attn_cache_config *c) {
  if (!c->has_pages) return 1;
  const int64_t n = c->capacity + c->page_size;
  const int64_t width = c->has_window ? (n - 2) / c->page_size + 1 : (n - 1) / c->page_size;
  return width < c->num_pages ? width : c->num_pages;
}

/* Adds a * b elements of `size` bytes, aligned; the offset of the first. */
static size_t place(size_t *bytes, bool *fits, size_t a, size_t b, size_t size) {
  const size_t offset = *bytes;
  size_t more;
  if (__builtin_mul_overflow(a, b, &more) || __builtin_mul_overflow(more, size, &more) ||
      more > PTRDIFF_MAX / 2 || offset > PTRDIFF_MAX / 2) {
    *fits = false;
    return 0;
  }
  *bytes = offset + attn_align(more);
  return offset;
}

/* Derives the shape, and where in `memory` (NULL: not yet known) the arrays lie. */
static attn_status lay_out(attn_cache *cache, char *memory) {
  const attn_cache_config *c = &cache->config;
  cache->page_size = slots_of_page(c);
  cache->num_pages = c->has_pages ? c->num_pages : c->max_sequences;
  cache->table_width = table_width(c);
  const size_t sequences = (size_t)c->max_sequences, pages = (size_t)cache->num_pages;
  /* kv_heads, page_size < 2^31 and head_size <= 2^10 */
  size_t slots = (size_t)c->kv_heads * (size_t)cache->page_size, bytes = 0;
  bool fits = slots < (size_t)PTRDIFF_MAX >> 12;
  if (!fits) slots = 0;
  cache->k_page = (int64_t)slots * c->head_size;
  cache->v_page = (int64_t)slots * c->value_size;
  const size_t at[] = {
      place(&bytes, &fits, pages, (size_t)cache->k_page, sizeof(float)),
      place(&bytes, &fits, pages, (size_t)cache->v_page, sizeof(float)),
      place(&bytes, &fits, sequences, (size_t)cache->table_width, sizeof(int32_t)),
      place(&bytes, &fits, sequences, 1, sizeof(int32_t)),
      place(&bytes, &fits, sequences, 1, sizeof(int32_t)),
      place(&bytes, &fits, sequences, 1, sizeof(int32_t)),
      place(&bytes, &fits, sequences, 1, sizeof(int32_t)),
      place(&bytes, &fits, pages, 1, sizeof(int32_t)),
      place(&bytes, &fits, pages, 1, sizeof(int32_t)),
  };
  if (!fits || bytes > PTRDIFF_MAX / 2) {
    return attn_fail(ATTN_OUT_OF_MEMORY, "a cache of this shape takes more than 2^62 bytes");
  }
  cache->bytes = bytes + ATTN_ALIGNMENT - 1; /* the caller's memory may begin anywhere */
  if (!memory) return ATTN_OK;
  memory += -(uintptr_t)memory % ATTN_ALIGNMENT;
  cache->k = (float *)(memory + at[0]);
  cache->v = (float *)(memory + at[1]);
  int32_t **arrays[] = {&cache->tables, &cache->lengths, &cache->starts, &cache->lost,
                        &cache->staged, &cache->users,   &cache->free};
  for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
    *arrays[i] = (int32_t *)(memory + at[i + 2]);
  }
  return ATTN_OK;
}

attn_status attn_cache_bytes(const attn_cache_config *config, size_t *bytes) {
  attn_cache cache = {0};
  attn_status status = resolve(config, &cache.config);
  if (!status) status = lay_out(&cache, NULL);
  if (status) return status;
  if (!bytes) return attn_fail(ATTN_INVALID_ARGUMENT, "bytes is NULL; it must point to a size_t");
  *bytes = cache.bytes;
  return ATTN_OK;
}

/* ---- memory ---- */

static void touch(void *user, int64_t piece, int32_t runner) {
  (void)runner;
  const attn_cache *cache = user;
  const size_t begin = (size_t)piece * ATTN_HUGE_PAGE, left = cache->bytes - begin;
  volatile char *memory = (char *)cache->k + begin;
  for (size_t i = 0; i < (left < ATTN_HUGE_PAGE ? left : ATTN_HUGE_PAGE); i += SMALL_PAGE)
    memory[i] = 0;
}

static attn_status find_memory(attn_cache *cache) {
  const attn_cache_config *c = &cache->config;
  char *memory = c->memory;
  if (memory && c->memory_size < cache->bytes) {
    return attn_fail_memory("memory", memory, c->memory_size, cache->bytes, "bytes",
                            "attn_cache_bytes");
  }
  if (!memory) memory = cache->own = attn_allocate(cache->bytes);
  if (!memory) {
    return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a cache of %zu bytes", cache->bytes);
  }
  const attn_status status = lay_out(cache, memory);
  if (status || !cache->own) return status;
  /* Where memory is near one node, the thread that first touches a page decides which. */
  const int32_t threads =
      attn_cache_threads((int64_t)(cache->bytes / sizeof(float)), c->num_threads);
  return attn_run_tasks(threads, (int64_t)((cache->bytes + ATTN_HUGE_PAGE - 1) / ATTN_HUGE_PAGE),
                        touch, cache, NULL, NULL);
}

static void make_empty(attn_cache *cache) {
  const size_t sequences = (size_t)cache->config.max_sequences;
  const int64_t pages = cache->num_pages;
  memset(cache->lengths, 0, sequences * sizeof(int32_t));
  memset(cache->starts, 0, sequences * sizeof(int32_t));
  memset(cache->lost, 0, sequences * sizeof(int32_t));
  memset(cache->staged, 0, sequences * sizeof(int32_t));
  memset(cache->users, 0, (size_t)pages * sizeof(int32_t));
  for (int64_t i = 0; i < pages; i++) cache->free[i] = (int32_t)(pages - 1 - i); /* 0 comes first */
  cache->num_free = pages;
}

attn_status attn_cache_create(const attn_cache_config *config, attn_cache **cache) {
  attn_cache made = {0};
  attn_status status = resolve(config, &made.config);
  if (!status) status = lay_out(&made, NULL);
  if (status) return status;
  if (!cache) return attn_fail(ATTN_INVALID_ARGUMENT, "cache is NULL; it must point to a handle");
  attn_cache *kept = malloc(sizeof(*kept));
  if (!kept) return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a cache's handle");
  *kept = made;
  status = find_memory(kept);
  if (status) {
    attn_cache_destroy(kept);
    return status;
  }
  make_empty(kept);
  *cache = kept;
  return ATTN_OK;
}

void attn_cache_destroy(attn_cache *cache) {
  if (!cache) return;
  attn_release(cache->own, cache->bytes);
  free(cache);
}

/* ---- what can be asked ---- */

int64_t attn_cache_length(const attn_cache *cache, int64_t sequence) {
  if (!cache || sequence < 0 || sequence >= cache->config.max_sequences) return -1;
  return cache->lengths[sequence];
}

attn_status attn_cache_get_usage(const attn_cache *cache, attn_cache_usage *usage) {
  attn_cache_usage u = ATTN_CACHE_USAGE_INIT;
  attn_status status = attn_cache_check_handle(cache);
  if (status) return status;
  u.bytes = cache->bytes;
  u.num_pages = cache->num_pages;
  u.pages_in_use = cache->num_pages - cache->num_free;
  u.bytes_in_use = (size_t)u.pages_in_use * (size_t)(cache->k_page + cache->v_page) * sizeof(float);
  return attn_copy_out("usage", usage, &u, sizeof(u));
}

attn_status attn_cache_get_config(const attn_cache *cache, attn_cache_config *config) {
  const attn_status status = attn_cache_check_handle(cache);
  return status ? status : attn_copy_out("config", config, &cache->config, sizeof(*config));
}

/* ---- views ---- */

size_t attn_cache_view_room(const attn_cache *cache, int64_t batch) {
  if (!cache || batch < 0) return 0;
  return (size_t)batch * (size_t)(cache->table_width + (cache->config.has_window ? 2 : 1));
}

/* Rows of q of the i-th sequence of a view. */
static int64_t query_rows(const attn_params *p, int64_t i) {
  return p->lengths.q_lens ? p->lengths.q_lens[i] : attn_sequence_room(p, i).q_len;
}

static attn_status check_view_sequence(const attn_cache *cache, const int32_t *sequences, int64_t i,
                                       const attn_params *p) {
  const attn_status status = attn_cache_check_listed(cache, sequences, i);
  if (status) return status;
  const int64_t s = attn_cache_listed(sequences, i);
  if (cache->starts[s] == 0 || query_rows(p, i) <= 1) return ATTN_OK;
  return attn_fail(ATTN_UNSUPPORTED,
                   "%s of sequence %" PRId64 " is %" PRId64
                   "; allowed: 1, since keys have left its window of %" PRId64 ": %" PRId32,
                   p->lengths.q_lens ? "lengths.q_lens" : "q_len", s, query_rows(p, i),
                   cache->config.window, cache->starts[s]);
}

static attn_status check_size(const char *name, int64_t given, int64_t ours) {
  if (given == 0 || given == ours) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s is %" PRId64 "; the cache has %" PRId64 " (0 takes it over)", name, given,
                   ours);
}

#define KEY_LAYOUT_END (offsetof(attn_params, key_layout) + sizeof(attn_key_layout))

static attn_status check_view(const attn_cache *cache, int64_t batch, const int32_t *sequences,
                              const attn_params *p) {
  attn_status status = attn_cache_check_handle(cache);
  if (status) return status;
  if (!p) return attn_fail(ATTN_INVALID_ARGUMENT, "params is NULL; it must point to a struct");
  /* As much of it as a view writes: structs of older callers may end there. */
  const size_t written = cache->config.key_layout == ATTN_KEYS_INTERLEAVED
                             ? KEY_LAYOUT_END
                             : offsetof(attn_params, pages) + sizeof(p->pages);
  if (p->struct_size < written) {
    return attn_fail(
        ATTN_INVALID_ARGUMENT,
        "params.struct_size is %zu; a view needs the first %zu bytes of ATTN_PARAMS_INIT",
        p->struct_size, written);
  }
  status = sequences ? attn_check_range("batch", batch, 0, ATTN_MAX_EXTENT, NULL)
                     : attn_check_range("batch", batch, 0, cache->config.max_sequences,
                                        "max_sequences, unless sequences are listed");
  if (!status) status = check_size("head_size", p->head_size, cache->config.head_size);
  if (!status) status = check_size("value_size", p->value_size, cache->config.value_size);
  for (int64_t i = 0; i < batch && !status; i++) {
    status = check_view_sequence(cache, sequences, i, p);
  }
  return status;
}

static bool consecutive(const int32_t *sequences, int64_t batch) {
  for (int64_t i = 1; sequences && i < batch; i++) {
    if (sequences[i] != sequences[0] + i) return false;
  }
  return true;
}

/* Tables, lengths and starts of the listed sequences, one array behind the other. */
static void copy_tables(const attn_cache *cache, int64_t batch, const int32_t *sequences,
                        int32_t *room, attn_params *p) {
  const int64_t width = cache->table_width;
  int32_t *lengths = room + batch * width, *starts = lengths + batch;
  for (int64_t i = 0; i < batch; i++) {
    const int32_t s = sequences[i];
    const int64_t used = (cache->lengths[s] + cache->page_size - 1) / cache->page_size;
    memcpy(room + i * width, cache->tables + s * width,
           (size_t)(used < width ? used : width) * sizeof(int32_t));
    lengths[i] = cache->lengths[s];
    if (cache->config.has_window) starts[i] = cache->starts[s];
  }
  p->pages.table = room;
  p->lengths.kv_lens = lengths;
  p->lengths.kv_starts = cache->config.has_window ? starts : NULL;
}

static void use_tables(const attn_cache *cache, int64_t first, attn_params *p) {
  p->pages.table = cache->tables + first * cache->table_width;
  p->lengths.kv_lens = cache->lengths + first;
  p->lengths.kv_starts = cache->config.has_window ? cache->starts + first : NULL;
}

attn_status attn_cache_view(const attn_cache *cache, int64_t batch, const int32_t *sequences,
                            int32_t *room, size_t room_size, attn_params *params) {
  const attn_status status = check_view(cache, batch, sequences, params);
  if (status) return status;
  const attn_cache_config *c = &cache->config;
  const bool copy = !consecutive(sequences, batch);
  const size_t needed = attn_cache_view_room(cache, batch);
  if (copy && (!room || room_size < needed)) {
    return attn_fail_memory("room", room, room_size, needed, "elements", "attn_cache_view_room");
  }
  int64_t longest = 0;
  for (int64_t i = 0; i < batch; i++) {
    const int64_t length = cache->lengths[attn_cache_listed(sequences, i)];
    if (length > longest) longest = length;
  }
  attn_params *p = params;
  p->batch = batch;
  p->kv_heads = c->kv_heads;
  p->kv_len = longest;
  p->head_size = c->head_size;
  p->value_size = c->value_size;
  p->k = (attn_input){cache->k, cache->k_page, cache->page_size * c->head_size, c->head_size, 1};
  p->v = (attn_input){cache->v, cache->v_page, cache->page_size * c->value_size, c->value_size, 1};
  p->lengths.cu_seqlens_k = p->lengths.left_padding = NULL;
  p->pages.table_stride = p->pages.table_width = cache->table_width;
  p->pages.page_size = cache->page_size;
  p->pages.num_pages = cache->num_pages;
  if (p->struct_size >= KEY_LAYOUT_END) p->key_layout = c->key_layout;
  if (copy) {
    copy_tables(cache, batch, sequences, room, p);
  } else {
    use_tables(cache, batch > 0 ? attn_cache_listed(sequences, 0) : 0, p);
  }
  return ATTN_OK;
}
