/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What caches refuse, with which words, and that nothing changes by it; and attention on some sequences while others
 * are changed. */

#include "problem.h"
#include "random.h"
#include <attn/cache.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, SIZE = 4, SEQUENCES = 4, CAPACITY = 8, FLOATS = CAPACITY * HEADS * SIZE };

static float tokens[FLOATS];

/* Checks the status, and that the message says what it should. */
#define REFUSED(call, want, text)                                                                  \
  do {                                                                                             \
    CHECK_STATUS(call, want);                                                                      \
    check_report(strstr(attn_last_error(), text) != NULL, __FILE__, __LINE__,                      \
                 "message \"%s\" lacks \"%s\"", attn_last_error(), text);                          \
  } while (0)

static attn_cache_config small(void) {
  attn_cache_config c = ATTN_CACHE_CONFIG_INIT;
  c.kv_heads = HEADS;
  c.head_size = SIZE;
  c.max_sequences = SEQUENCES;
  c.has_capacity = true;
  c.capacity = CAPACITY;
  return c;
}

static attn_cache *create(const attn_cache_config *c) {
  attn_cache *cache = NULL;
  CHECK_OK(attn_cache_create(c, &cache));
  return cache;
}

/* Rows (batch, kv_len, head, dim), all batch entries the same. */
static attn_cache_rows rows_of(int64_t batch, const int32_t *sequences, int64_t kv_len) {
  attn_cache_rows r = ATTN_CACHE_ROWS_INIT;
  r.batch = batch;
  r.sequences = sequences;
  r.kv_len = kv_len;
  r.k = r.v = (attn_input){tokens, 0, SIZE, HEADS * SIZE, 1};
  return r;
}

static attn_status feed(attn_cache *cache, int32_t sequence, int64_t rows) {
  const attn_cache_rows r = rows_of(1, &sequence, rows);
  return attn_cache_append(cache, &r);
}

/* ---- creating ---- */

static void config_refused(const attn_cache_config *c, attn_status want, const char *text) {
  size_t bytes = 12345;
  attn_cache *cache = (attn_cache *)&bytes;
  REFUSED(attn_cache_bytes(c, &bytes), want, text);
  CHECK_INT(bytes, 12345);
  REFUSED(attn_cache_create(c, &cache), want, text);
  CHECK(cache == (attn_cache *)&bytes);
}

typedef struct bad_number {
  const char *name;
  size_t at; /* of an int64_t in the config */
  int64_t values[3];
} bad_number;

static void bad_numbers(void) {
#define AT(field) #field, offsetof(attn_cache_config, field)
  static const bad_number numbers[] = {
      {AT(kv_heads), {0, -1, (int64_t)1 << 31}},
      {AT(head_size), {0, 1025, INT64_MIN}},
      {AT(value_size), {0, 1025, -8}},
      {AT(max_sequences), {0, -1, INT64_MAX}},
      {AT(page_size), {0, -16, (int64_t)1 << 31}},
      {AT(num_pages), {0, -1, INT64_MAX}},
      {AT(capacity), {4, -1, (int64_t)1 << 31}}, /* less than the window */
      {AT(window), {0, -1, (int64_t)1 << 31}},
  };
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    for (int n = 0; n < 3; n++) {
      attn_cache_config c = small();
      c.has_value_size = c.has_pages = c.has_window = true;
      c.value_size = c.page_size = c.num_pages = 4;
      c.window = 5;
      memcpy((char *)&c + numbers[i].at, &numbers[i].values[n], sizeof(int64_t));
      config_refused(&c, ATTN_INVALID_ARGUMENT, numbers[i].name);
    }
  }
}

static void configs(void) {
  check_context("configs");
  bad_numbers();
  config_refused(NULL, ATTN_INVALID_ARGUMENT, "config is NULL");
  attn_cache_config c = small();
  c.struct_size = 3;
  config_refused(&c, ATTN_INVALID_ARGUMENT, "struct_size is 3");
  c = small();
  c.has_capacity = false;
  config_refused(&c, ATTN_INVALID_ARGUMENT, "has_capacity");
  c = small();
  c.dtype = ATTN_BF16;
  config_refused(&c, ATTN_UNSUPPORTED, "dtype is BF16");
  c.dtype = (attn_dtype)99;
  config_refused(&c, ATTN_INVALID_ARGUMENT, "dtype is 99; allowed in this version: ATTN_F32 (0)");
  c = small();
  c.has_num_threads = true;
  config_refused(&c, ATTN_INVALID_ARGUMENT, "num_threads is 0");
  c = small();
  c.has_key_layout = true;
  c.key_layout = (attn_key_layout)7;
  config_refused(&c, ATTN_INVALID_ARGUMENT,
                 "key_layout is 7; allowed: ATTN_KEYS_IN_ROWS (0), ATTN_KEYS_INTERLEAVED (1)");
  c.key_layout = ATTN_KEYS_INTERLEAVED;
  c.capacity = INT32_MAX;
  config_refused(&c, ATTN_INVALID_ARGUMENT, "capacity of interleaved keys is 2147483647");
  c.has_pages = true;
  c.num_pages = 4;
  c.page_size = 24;
  config_refused(&c, ATTN_INVALID_ARGUMENT,
                 "page_size is 24; with ATTN_KEYS_INTERLEAVED it must be a multiple of 16");
  c = small();
  c.has_window = true;
  c.window = CAPACITY + 1;
  config_refused(&c, ATTN_INVALID_ARGUMENT, "capacity is 8; it must be at least window, 9");
  /* Products beyond 64 bits, in each of the arrays. */
  c = small();
  c.capacity = c.kv_heads = INT32_MAX;
  config_refused(&c, ATTN_OUT_OF_MEMORY, "2^62");
  c.kv_heads = 1 << 16;
  c.head_size = 1024;
  c.max_sequences = INT32_MAX;
  config_refused(&c, ATTN_OUT_OF_MEMORY, "2^62");
  c = small();
  c.capacity = c.max_sequences = INT32_MAX; /* 2^31 * 2^31 * 8 floats */
  config_refused(&c, ATTN_OUT_OF_MEMORY, "2^62");
  c = small();
  REFUSED(attn_cache_create(&c, NULL), ATTN_INVALID_ARGUMENT, "cache is NULL");
  REFUSED(attn_cache_bytes(&c, NULL), ATTN_INVALID_ARGUMENT, "bytes is NULL");
}

static void memory(void) {
  check_context("memory");
  attn_cache_config c = small();
  attn_cache *cache = NULL;
  size_t bytes = 0;
  c.capacity = 1 << 30, c.kv_heads = 1 << 14; /* fits 64 bits, but no machine */
  CHECK_OK(attn_cache_bytes(&c, &bytes));
  CHECK(bytes > (size_t)1 << 49);
  REFUSED(attn_cache_create(&c, &cache), ATTN_OUT_OF_MEMORY, "no memory for a cache of");
  c = small();
  CHECK_OK(attn_cache_bytes(&c, &bytes));
  c.memory = check_alloc(bytes);
  c.memory_size = bytes - 1;
  char text[128];
  snprintf(text, sizeof(text),
           "memory_size is %zu; it must be at least %zu bytes, as attn_cache_bytes() says",
           bytes - 1, bytes);
  REFUSED(attn_cache_create(&c, &cache), ATTN_INVALID_ARGUMENT, text);
  CHECK(cache == NULL);
  c.memory_size = bytes;
  cache = create(&c);
  attn_cache_destroy(cache);
  free(c.memory);
}

/* Callers whose structs end before the key layout know rows only. */
static void older_callers(void) {
  check_context("structs without a key layout");
  attn_cache_config c = small(), got = ATTN_CACHE_CONFIG_INIT;
  c.struct_size = offsetof(attn_cache_config, has_key_layout);
  attn_cache *cache = create(&c);
  CHECK_OK(attn_cache_get_config(cache, &got));
  CHECK(got.key_layout == ATTN_KEYS_IN_ROWS);
  attn_params p = ATTN_PARAMS_INIT;
  p.struct_size = offsetof(attn_params, key_layout);
  p.key_layout = (attn_key_layout)77; /* what lies behind is not the view's */
  CHECK_OK(attn_cache_view(cache, 1, NULL, NULL, 0, &p));
  CHECK_INT(p.key_layout, 77);
  p.struct_size = offsetof(attn_params, pages);
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "struct_size");
  p.struct_size = sizeof(p);
  CHECK_OK(attn_cache_view(cache, 1, NULL, NULL, 0, &p));
  CHECK(p.key_layout == ATTN_KEYS_IN_ROWS);
  attn_cache_destroy(cache);
}

static void resolved(void) {
  check_context("what a config resolves to");
  attn_cache_config c = small(), got = ATTN_CACHE_CONFIG_INIT;
  c.has_capacity = false;
  c.has_pages = true;
  c.page_size = 3;
  c.num_pages = 5;
  attn_cache *cache = create(&c);
  CHECK_OK(attn_cache_get_config(cache, &got));
  CHECK(got.has_capacity && got.has_value_size && got.has_num_threads && !got.has_window);
  CHECK_INT(got.capacity, 15);
  CHECK(got.has_key_layout && got.key_layout == ATTN_KEYS_IN_ROWS);
  CHECK_INT(got.value_size, SIZE);
  CHECK(got.num_threads >= 1);
  attn_cache_destroy(cache);
  c.has_window = true;
  c.window = 7;
  cache = create(&c);
  CHECK_OK(attn_cache_get_config(cache, &got));
  CHECK_INT(got.capacity, 7);
  check_context("what a config says without being looked at");
  attn_cache_destroy(cache);
  c = small();
  c.value_size = c.page_size = c.num_pages = c.window = c.num_threads = 77;
  c.memory_size = 77;
  c.key_layout = (attn_key_layout)77;
  cache = create(&c);
  CHECK_OK(attn_cache_get_config(cache, &got));
  CHECK(!got.has_pages && got.page_size == 0 && got.num_pages == 0);
  CHECK(!got.has_window && got.window == 0);
  CHECK(!got.memory && got.memory_size == 0);
  CHECK_INT(got.value_size, SIZE);
  CHECK(got.num_threads == attn_default_threads() && got.key_layout == ATTN_KEYS_INTERLEAVED);
  REFUSED(attn_cache_get_config(cache, NULL), ATTN_INVALID_ARGUMENT, "config is NULL");
  REFUSED(attn_cache_get_usage(cache, NULL), ATTN_INVALID_ARGUMENT, "usage is NULL");
  REFUSED(attn_cache_get_config(NULL, &got), ATTN_INVALID_ARGUMENT, "cache is NULL");
  attn_cache_destroy(cache);
}

/* ---- changing ---- */

static void appends(void) {
  check_context("appends");
  attn_cache_config c = small();
  attn_cache *cache = create(&c);
  CHECK_OK(feed(cache, 2, 3));
  attn_cache_rows r = rows_of(1, NULL, 1);
  REFUSED(attn_cache_append(NULL, &r), ATTN_INVALID_ARGUMENT, "cache is NULL");
  REFUSED(attn_cache_append(cache, NULL), ATTN_INVALID_ARGUMENT, "rows is NULL");
  r.struct_size = 0;
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "rows.struct_size is 0");
  r = rows_of(-1, NULL, 1);
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "batch is -1");
  r = rows_of(SEQUENCES + 1, NULL, 1);
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT,
          "batch is 5; allowed: 0 ... 4, max_sequences");
  r = rows_of(1, NULL, -1);
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "kv_len is -1");
  r = rows_of(1, NULL, 1);
  r.k.data = NULL;
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "k.data is NULL");
  r = rows_of(1, NULL, 1);
  r.v.data = NULL;
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "v.data is NULL");
  r = rows_of(1, NULL, 1);
  r.has_num_threads = true;
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "num_threads is 0");
  r = rows_of(3, (int32_t[]){0, 2, 0}, 1);
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "sequences[2] is 0, as is");
  r = rows_of(2, (int32_t[]){0, SEQUENCES}, 1);
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT,
          "sequences[1] is 4; allowed: 0 ... 3, max_sequences - 1");
  r = rows_of(1, (int32_t[]){-1}, 1);
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "sequences[0] is -1");
  r = rows_of(2, NULL, 2);
  r.kv_lens = (int32_t[]){2, 3};
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT,
          "kv_lens[1] is 3; allowed: 0 ... 2, by kv_len");
  CHECK(strncmp(attn_last_error(), "kv_lens", 7) == 0); /* a field of the rows themselves */
  r.left_padding = (int32_t[]){-1, 0};
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "left_padding[0] is -1");
  r = rows_of(3, NULL, 6); /* the last of three passes its capacity */
  REFUSED(attn_cache_append(cache, &r), ATTN_INVALID_ARGUMENT, "sequence 2: keys 3, new rows 6;");
  for (int s = 0; s < SEQUENCES; s++) CHECK_INT(attn_cache_length(cache, s), s == 2 ? 3 : 0);
  r = rows_of(3, NULL, 5); /* refusals have left no marks */
  CHECK_OK(attn_cache_append(cache, &r));
  r = rows_of(0, NULL, 0);
  CHECK_OK(attn_cache_append(cache, &r));
  r = rows_of(2, NULL, 0);
  r.k.data = r.v.data = NULL;
  CHECK_OK(attn_cache_append(cache, &r));
  CHECK_INT(attn_cache_length(cache, 2), 8);
  attn_cache_destroy(cache);
}

static void rings(void) {
  check_context("rings");
  attn_cache_config c = small();
  c.has_capacity = false;
  c.has_window = true;
  c.window = 4;
  attn_cache *cache = create(&c);
  REFUSED(feed(cache, 0, 5), ATTN_UNSUPPORTED,
          "sequence 0: keys 0, new rows at once 5; allowed: up to 4, until its window of 4 is "
          "full, then 1");
  CHECK_OK(feed(cache, 0, 1));
  REFUSED(feed(cache, 0, 4), ATTN_UNSUPPORTED,
          "sequence 0: keys 1, new rows at once 4; allowed: up to 3, until its window of 4 is "
          "full, then 1");
  CHECK_OK(feed(cache, 0, 2));
  REFUSED(feed(cache, 0, 2), ATTN_UNSUPPORTED, "allowed: up to 1, until its window of 4 is full");
  REFUSED(feed(cache, 0, INT32_MAX), ATTN_INVALID_ARGUMENT,
          "allowed: 2147483647 in all, the most positions that there are");
  CHECK_OK(feed(cache, 0, 1));
  REFUSED(feed(cache, 0, 2), ATTN_UNSUPPORTED,
          "sequence 0: keys 4, new rows at once 2; allowed: 1, since its window of 4 is full");
  CHECK_OK(feed(cache, 0, 1));
  attn_params p = ATTN_PARAMS_INIT;
  p.q_len = 2;
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, &p), ATTN_UNSUPPORTED,
          "q_len of sequence 0 is 2; allowed: 1, since keys have left its window of 4: 1");
  p.lengths.q_lens = (int32_t[]){1};
  CHECK_OK(attn_cache_view(cache, 1, NULL, NULL, 0, &p));
  p.lengths.q_lens = NULL;
  p.lengths.cu_seqlens_q = (int32_t[]){0, 2};
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, &p), ATTN_UNSUPPORTED, "q_len of sequence 0");
  REFUSED(attn_cache_truncate(cache, 0, 4), ATTN_INVALID_ARGUMENT, "holds keys from 1 on");
  CHECK_INT(attn_cache_length(cache, 0), 5);
  CHECK_OK(attn_cache_truncate(cache, 0, 5));
  CHECK_OK(attn_cache_truncate(cache, 0, 0));
  CHECK_OK(feed(cache, 0, 4));
  attn_cache_destroy(cache);
}

static void sequences(void) {
  check_context("truncate, fork, reset");
  attn_cache_config c = small();
  attn_cache *cache = create(&c);
  CHECK_OK(feed(cache, 0, 3));
  REFUSED(attn_cache_truncate(cache, 0, 4), ATTN_INVALID_ARGUMENT,
          "length is 4; allowed: 0 ... 3, the length that the sequence has");
  REFUSED(attn_cache_truncate(cache, 0, -1), ATTN_INVALID_ARGUMENT, "length is -1");
  REFUSED(attn_cache_truncate(cache, SEQUENCES, 0), ATTN_INVALID_ARGUMENT,
          "sequence is 4; allowed: 0 ... 3, max_sequences - 1");
  REFUSED(attn_cache_truncate(NULL, 0, 0), ATTN_INVALID_ARGUMENT, "cache is NULL");
  REFUSED(attn_cache_fork(cache, -1, 0), ATTN_INVALID_ARGUMENT, "from is -1");
  REFUSED(attn_cache_fork(cache, 0, SEQUENCES), ATTN_INVALID_ARGUMENT, "to is 4");
  REFUSED(attn_cache_fork(cache, 0, 0), ATTN_INVALID_ARGUMENT, "to is 0, as is from");
  REFUSED(attn_cache_fork(NULL, 0, 1), ATTN_INVALID_ARGUMENT, "cache is NULL");
  REFUSED(attn_cache_reset(cache, INT64_MAX), ATTN_INVALID_ARGUMENT, "sequence is");
  REFUSED(attn_cache_reset(NULL, 0), ATTN_INVALID_ARGUMENT, "cache is NULL");
  CHECK_INT(attn_cache_length(cache, 0), 3);
  CHECK_INT(attn_cache_length(cache, -1), -1);
  CHECK_INT(attn_cache_length(cache, SEQUENCES), -1);
  CHECK_INT(attn_cache_length(NULL, 0), -1);
  attn_cache_destroy(cache);
}

/* Pages run out in the middle of a batch, where a copy on write is the one too many. */
static void out_of_pages(void) {
  check_context("out of pages");
  attn_cache_config c = small();
  c.has_pages = true;
  c.page_size = 4;
  c.num_pages = 3;
  attn_cache *cache = create(&c);
  CHECK_OK(feed(cache, 0, 6));
  CHECK_OK(attn_cache_fork(cache, 0, 1));
  CHECK_OK(attn_cache_fork(cache, 0, 2));
  attn_cache_rows r = rows_of(3, NULL, 1); /* two copies, and the third writes where all are now */
  REFUSED(attn_cache_append(cache, &r), ATTN_OUT_OF_MEMORY,
          "the new rows need 2 pages; free: 1 of num_pages, 3");
  for (int s = 0; s < 3; s++) CHECK_INT(attn_cache_length(cache, s), 6);
  r.batch = 2; /* one copy would do if the third were not there */
  REFUSED(attn_cache_append(cache, &r), ATTN_OUT_OF_MEMORY,
          "the new rows need 2 pages; free: 1 of num_pages, 3");
  CHECK_OK(attn_cache_truncate(cache, 2, 4));
  CHECK_OK(attn_cache_append(cache, &r));
  REFUSED(feed(cache, 2, 1), ATTN_OUT_OF_MEMORY,
          "the new rows need 1 pages; free: 0 of num_pages, 3");
  CHECK_OK(attn_cache_reset(cache, 1));
  CHECK_OK(feed(cache, 2, 1));
  attn_cache_destroy(cache);
}

/* ---- views ---- */

static void views(void) {
  check_context("views");
  attn_cache_config c = small();
  attn_cache *cache = create(&c);
  CHECK_OK(feed(cache, 1, 3));
  attn_params p = ATTN_PARAMS_INIT, before;
  const int32_t apart[] = {3, 1};
  int32_t room[8];
  p.head_size = SIZE + 1;
  p.value_size = SIZE;
  memcpy(&before, &p, sizeof(p));
  REFUSED(attn_cache_view(NULL, 1, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "cache is NULL");
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, NULL), ATTN_INVALID_ARGUMENT, "params is NULL");
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "head_size is 5");
  p.head_size = SIZE;
  p.value_size = 1;
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "value_size is 1");
  p.head_size = before.head_size;
  p.value_size = SIZE;
  CHECK(memcmp(&p, &before, sizeof(p)) == 0);
  p.head_size = 0;
  p.struct_size = offsetof(attn_params, key_layout); /* could not say how keys lie */
  REFUSED(attn_cache_view(cache, 1, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "struct_size");
  p.struct_size = sizeof(p);
  REFUSED(attn_cache_view(cache, -1, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "batch is -1");
  REFUSED(attn_cache_view(cache, 5, NULL, NULL, 0, &p), ATTN_INVALID_ARGUMENT, "batch is 5");
  REFUSED(attn_cache_view(cache, 1, (int32_t[]){4}, NULL, 0, &p), ATTN_INVALID_ARGUMENT,
          "sequences[0] is 4; allowed: 0 ... 3");
  CHECK_INT(attn_cache_view_room(cache, 2), 4);
  CHECK_INT(attn_cache_view_room(cache, -1), 0);
  CHECK_INT(attn_cache_view_room(NULL, 1), 0);
  REFUSED(attn_cache_view(cache, 2, apart, NULL, 8, &p), ATTN_INVALID_ARGUMENT,
          "room is NULL; it must point to 4 elements, as attn_cache_view_room() says");
  REFUSED(attn_cache_view(cache, 2, apart, room, 3, &p), ATTN_INVALID_ARGUMENT,
          "room_size is 3; it must be at least 4 elements, as attn_cache_view_room() says");
  CHECK(p.batch == 0 && !p.pages.table && !p.k.data);
  /* What an earlier use left behind must not contradict the view. */
  p.lengths.cu_seqlens_k = p.lengths.left_padding = apart;
  p.q_heads = HEADS;
  CHECK_OK(attn_cache_view(cache, 2, apart, room, 4, &p));
  CHECK(p.head_size == SIZE && p.value_size == SIZE && p.kv_heads == HEADS && p.batch == 2);
  CHECK(p.kv_len == 3 && p.lengths.kv_lens[0] == 0 && p.lengths.kv_lens[1] == 3);
  CHECK_OK(attn_forward(NULL, &p));
  CHECK_OK(attn_cache_view(cache, 0, NULL, NULL, 0, &p));
  CHECK_OK(attn_forward(NULL, &p));
  attn_cache_destroy(cache);
}

/* ---- threads ---- */

enum { READERS = 3, CALLS = 200 };

typedef struct reader {
  const attn_cache *cache;
  int32_t sequence;
  int failed;
} reader;

/* Attends to its sequence over and over; the bits are those of the first time. */
static void *read_on(void *user) {
  reader *r = user;
  problem p = problem_new((shape){1, HEADS, HEADS, 1, 0, SIZE, SIZE});
  problem_fill(&p, 77, 1);
  p.params.has_num_threads = true;
  p.params.num_threads = 1;
  float first[HEADS * SIZE];
  for (int i = 0; i < CALLS; i++) {
    r->failed += attn_cache_view(r->cache, 1, &r->sequence, NULL, 0, &p.params) != ATTN_OK;
    r->failed += attn_forward(NULL, &p.params) != ATTN_OK;
    if (i == 0) memcpy(first, p.o, sizeof(first));
    r->failed += memcmp(first, p.o, sizeof(first)) != 0;
  }
  problem_free(&p);
  return NULL;
}

/* Sequences 0 ... 2 share pages with 3, which is fed, cut, emptied and made from them again. */
static void threads(void) {
  check_context("readers beside a writer");
  attn_cache_config c = small();
  c.has_pages = true;
  c.page_size = 4;
  c.num_pages = 9;
  attn_cache *cache = create(&c);
  reader readers[READERS];
  pthread_t ids[READERS];
  for (int32_t s = 0; s < READERS; s++) {
    if (s == 0) CHECK_OK(feed(cache, s, 6));
    if (s > 0) CHECK_OK(attn_cache_fork(cache, 0, s));
    if (s == 2) CHECK_OK(feed(cache, s, 1));
    readers[s] = (reader){cache, s, 0};
  }
  for (int s = 0; s < READERS; s++) {
    CHECK_INT(pthread_create(&ids[s], NULL, read_on, &readers[s]), 0);
  }
  for (int i = 0; i < CALLS; i++) {
    CHECK_OK(attn_cache_reset(cache, 3));
    CHECK_OK(feed(cache, 3, 5));
    CHECK_OK(attn_cache_truncate(cache, 3, 2));
    CHECK_OK(feed(cache, 3, 1));
  }
  for (int s = 0; s < READERS; s++) {
    pthread_join(ids[s], NULL);
    CHECK_INT(readers[s].failed, 0);
  }
  attn_cache_destroy(cache);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  sm_fill(tokens, FLOATS, 9, 1);
  configs();
  memory();
  resolved();
  older_callers();
  appends();
  rings();
  sequences();
  out_of_pages();
  views();
  threads();
  return check_done();
}
