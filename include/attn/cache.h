/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/** @file
 * Key/value cache: the keys and values of many sequences of one layer, for attn_forward(). The
 * conventions of attn.h hold.
 *
 * A step of generation, prefill or decode, is: attn_cache_append() the keys and values of the new tokens,
 * attn_cache_view() the sequences concerned into an ::attn_params, attn_forward() their queries.
 * Results have the bits of one call over plain arrays, however the tokens came in.
 *
 * Memory is pages of `page_size` slots, each an array (kv_head, slot, dim) of keys, by default with 16 of them
 * interleaved (::attn_key_layout), and one of values; key j of a sequence lies in slot j % page_size of the page that
 * the sequence's table names for j / page_size.
 * Pages are shared by sequences that were forked from each other, and copied before one of them writes
 * (copy on write). Without pages ("contiguous") every sequence has one page of `capacity` slots,
 * up to the next multiple of 16 where keys are interleaved.
 *
 * Threads: one call at a time may change a cache. Views, and attention on them, may go on meanwhile for
 * sequences that this call does not name; those it names must be at rest. Different
 * caches have nothing in common.
 */
#ifndef ATTN_CACHE_H
#define ATTN_CACHE_H

#include <attn/attn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attn_cache attn_cache;

/** Shape of a cache. Initialise with ::ATTN_CACHE_CONFIG_INIT. */
typedef struct attn_cache_config {
  size_t struct_size;
  attn_dtype dtype;    /**< of what is stored. Default ::ATTN_F32, the only one in this version */
  int64_t kv_heads;    /**< >= 1 */
  int64_t head_size;   /**< of keys, 1 ... 1024 */
  bool has_value_size; /**< false: head_size */
  int64_t value_size;  /**< 1 ... 1024 */

  int64_t max_sequences; /**< >= 1; sequences are numbered 0 ... max_sequences - 1 */

  bool has_pages;    /**< false: contiguous, memory for `capacity` keys of every sequence */
  int64_t page_size; /**< slots of a page, >= 1 */
  int64_t num_pages; /**< shared by all sequences, >= 1 */

  /** Without a window: the most keys of a sequence; must be given without pages, while with pages
   *  the default is all of them. (A sequence's page table has room for that many, so a bound saves memory.)
   *  With a window: the most keys that are kept, `window` at least and by default. Those beyond the window
   *  are there to be truncated: capacity - window is how far attn_cache_truncate() can go back. */
  bool has_capacity;
  int64_t capacity;

  /** A ring: only the last `window` keys of a sequence are seen, as by queries that look at themselves
   *  and window - 1 keys to the left; older ones are overwritten, or their pages used again. Length and
   *  positions go on counting, up to 2^31 - 1. In pages, n keys lie in (n + page_size - 2) / page_size + 1 at
   *  most. See attn_cache_append(). */
  bool has_window;
  int64_t window; /**< >= 1 */

  /** The caller's memory, attn_cache_bytes() of it at least, any alignment, from creation to
   *  destruction the cache's alone. NULL: the library's own, in huge pages where the system grants
   *  them, all of it touched at creation by `num_threads` threads, so that it lies near them and no
   *  append waits for the system. */
  void *memory;
  size_t memory_size;
  bool has_num_threads; /**< false: attn_default_threads() */
  int32_t num_threads;  /**< 1 ... 1024 */

  /** Default: ::ATTN_KEYS_INTERLEAVED, the fastest to read, without pages or with `page_size` a multiple of 16; others
   *  can only have ::ATTN_KEYS_IN_ROWS, which callers also get whose struct has no such field yet. */
  bool has_key_layout;
  attn_key_layout key_layout;
} attn_cache_config;

#ifdef __cplusplus
ATTN_SIZED_(attn_cache_config)
#define ATTN_CACHE_CONFIG_INIT attn_cache_config_init_()
#else
#define ATTN_CACHE_CONFIG_INIT {.struct_size = sizeof(attn_cache_config)}
#endif

/** Bytes of memory of a cache of this shape. Its handle, some hundred bytes, is the library's in any case. */
ATTN_API attn_status attn_cache_bytes(const attn_cache_config *config, size_t *bytes);

/** Every sequence exists from the start, and is empty.
 *  @return ATTN_INVALID_ARGUMENT, ATTN_UNSUPPORTED or ATTN_OUT_OF_MEMORY. */
ATTN_API attn_status attn_cache_create(const attn_cache_config *config, attn_cache **cache);

/** No view may be in use. NULL is fine. */
ATTN_API void attn_cache_destroy(attn_cache *cache);

/** New keys and values for some sequences. Initialise with ::ATTN_CACHE_ROWS_INIT.
 *
 *  Which rows belong to which sequence is said as in ::attn_lengths: the i-th listed sequence gets
 *  the kv_len rows of batch entry i, or what cu_seqlens_k, left_padding and kv_lens make of them. */
typedef struct attn_cache_rows {
  size_t struct_size;
  int64_t batch;               /**< sequences that get rows, 0 ... max_sequences */
  const int32_t *sequences;    /**< `batch` different numbers; NULL: 0 ... batch - 1 */
  int64_t kv_len;              /**< rows of each; with cu_seqlens_k, of all together */
  const int32_t *cu_seqlens_k; /**< batch + 1 offsets, 0 = first <= ... <= last = kv_len: packed */
  const int32_t *left_padding; /**< batch entries: rows at the start that are none */
  const int32_t *kv_lens;      /**< batch entries: only so many rows */
  attn_input k;                /**< (batch, kv_heads, kv_len, head_size) */
  attn_input v;                /**< (batch, kv_heads, kv_len, value_size) */
  bool has_num_threads;        /**< false: attn_default_threads(), fewer for few rows */
  int32_t num_threads;
} attn_cache_rows;

#ifdef __cplusplus
ATTN_SIZED_(attn_cache_rows)
#define ATTN_CACHE_ROWS_INIT attn_cache_rows_init_()
#else
#define ATTN_CACHE_ROWS_INIT {.struct_size = sizeof(attn_cache_rows)}
#endif

/** Copies the rows behind the keys that the sequences have. All is checked first; a call that fails has
 *  changed nothing.
 *
 *  A ring takes several rows of a sequence at once only while no key leaves the window by it, and
 *  otherwise one at a time with an attention call after each: later rows would take keys from earlier ones.
 *
 *  @return ATTN_INVALID_ARGUMENT, also when a sequence would pass its capacity; ATTN_OUT_OF_MEMORY when
 *          free pages are fewer than are needed, copies before writing included; ATTN_UNSUPPORTED
 *          for rows that a ring cannot take at once. */
ATTN_API attn_status attn_cache_append(attn_cache *cache, const attn_cache_rows *rows);

/** Drops all keys of a sequence but the first `length`, as after speculation. 0 ... its length.
 *  @return ATTN_INVALID_ARGUMENT, also when a ring has lost keys that it would have to show again. */
ATTN_API attn_status attn_cache_truncate(attn_cache *cache, int64_t sequence, int64_t length);

/** Makes `to` equal to `from`, whatever it held; the two are independent from then on. Copies nothing: the pages
 *  are shared until one of them writes to a page. A shorter common prefix: truncate `to` afterwards. */
ATTN_API attn_status attn_cache_fork(attn_cache *cache, int64_t from, int64_t to);

/** Makes a sequence empty, as at creation. */
ATTN_API attn_status attn_cache_reset(attn_cache *cache, int64_t sequence);

/** Keys appended and not truncated, also those that have left a window; -1 when there is no such sequence. */
ATTN_API int64_t attn_cache_length(const attn_cache *cache, int64_t sequence);

/** Initialise with ::ATTN_CACHE_USAGE_INIT. */
typedef struct attn_cache_usage {
  size_t struct_size;
  size_t bytes;         /**< as of attn_cache_bytes() */
  size_t bytes_in_use;  /**< of the pages in use, shared ones counted once */
  int64_t num_pages;    /**< without pages: max_sequences */
  int64_t pages_in_use; /**< the others are free */
} attn_cache_usage;

#ifdef __cplusplus
ATTN_SIZED_(attn_cache_usage)
#define ATTN_CACHE_USAGE_INIT attn_cache_usage_init_()
#else
#define ATTN_CACHE_USAGE_INIT {.struct_size = sizeof(attn_cache_usage)}
#endif

ATTN_API attn_status attn_cache_get_usage(const attn_cache *cache, attn_cache_usage *usage);

/** What the cache was created with, every optional value resolved, and 0 in fields that were not looked at: those of
 *  pages and window where it has none, memory_size where the memory is the library's. As much of it as
 *  config->struct_size has room for, so initialise it first. */
ATTN_API attn_status attn_cache_get_config(const attn_cache *cache, attn_cache_config *config);

/** Writes into `params` where the keys of `batch` sequences are: batch, kv_heads, kv_len, k, v, pages, key_layout,
 *  kv_lens and kv_starts, none of the other lengths for keys, and head_size and value_size where they are 0
 *  (others must fit). The rest is the caller's: q, o, q_heads, and q_len (or q_lens, cu_seqlens_q),
 *  to be set before, since sequences whose keys have begun to leave their window can
 *  be attended to by one row only. Params that are used for plain arrays afterwards need pages, lengths
 *  and key_layout set back.
 *
 *  Tables of sequences that are numbered one after the other, also of a single one, are used where they are;
 *  for other lists they are copied into `room`, which must last as long as the view. A view holds until
 *  one of its sequences is changed. Allocates nothing.
 *
 *  @param sequences numbers, repeats are fine; NULL: 0 ... batch - 1
 *  @param room may be NULL when it is not needed
 *  @param room_size in elements, attn_cache_view_room(cache, batch) always suffice
 *  @return ATTN_INVALID_ARGUMENT or ATTN_UNSUPPORTED, with `params` untouched. */
ATTN_API attn_status attn_cache_view(const attn_cache *cache, int64_t batch,
                                     const int32_t *sequences, int32_t *room, size_t room_size,
                                     attn_params *params);

/** Elements of `room` for any `batch` sequences; 0 for a negative batch. */
ATTN_API size_t attn_cache_view_room(const attn_cache *cache, int64_t batch);

#ifdef __cplusplus
}
#endif
#endif
