/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Every bad argument is refused with its status and one line that names the thing and its value,
 * and the output stays as it was. Zero-sized problems succeed. */

#include "problem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool one_line(const char *text) {
  return text[0] != '\0' && strchr(text, '\n') == NULL && strlen(text) < 400;
}

/* The message names all of these words, separated by blanks. */
static void check_message(const char *words, const char *file, int line) {
  char copy[160];
  const char *message = attn_last_error();
  check_report(one_line(message), file, line, "not one line: '%s'", message);
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    check_report(strstr(message, word) != NULL, file, line, "'%s' does not name '%s'", message,
                 word);
}

/* The message is this, to the letter. */
static void check_says(const char *text, const char *file, int line) {
  check_report(strcmp(attn_last_error(), text) == 0, file, line, "says '%s'; wanted: '%s'",
               attn_last_error(), text);
}

/* attn_forward and attn_plan_create both refuse, and touch nothing. */
static void refuse(problem *p, attn_status want, const char *words, int line) {
  check_status(__FILE__, line, "attn_forward", (int)attn_forward(NULL, &p->params), (int)want);
  check_message(words, __FILE__, line);
  attn_plan *const unchanged = (attn_plan *)(uintptr_t)64;
  attn_plan *plan = unchanged;
  check_status(__FILE__, line, "attn_plan_create", (int)attn_plan_create(&p->params, &plan),
               (int)want);
  check_report(plan == unchanged, __FILE__, line, "the handle was written");
  check_report(canary_intact(p->o, p->o_count) && canary_intact(p->lse, p->lse_count), __FILE__,
               line, "output was written");
}

/* `spoil` acts on `a`, the parameters of a sound problem. */
#define BAD(spoil, words)                                                                          \
  do {                                                                                             \
    check_context("%s", #spoil);                                                                   \
    attn_params *a = &p.params, before = *a;                                                       \
    spoil;                                                                                         \
    refuse(&p, ATTN_INVALID_ARGUMENT, words, __LINE__);                                            \
    *a = before;                                                                                   \
  } while (0)

static problem sound(void) {
  problem p = problem_random((shape){2, 4, 2, 3, 5, 8, 6}, 8001);
  p.params.dropout.rate = 0.1;
  return p;
}

static void extents(void) {
  problem p = sound();
  BAD(a->batch = -1, "batch -1");
  BAD(a->q_heads = 0, "q_heads 0");
  BAD(a->q_heads = -4, "q_heads -4");
  BAD(a->kv_heads = 0, "kv_heads 0");
  BAD(a->kv_heads = -2, "kv_heads -2");
  BAD((a->q_heads = 0, a->kv_heads = 0), "heads 0");
  BAD((a->q_heads = 3, a->kv_heads = 2), "q_heads 3 kv_heads 2");
  BAD((a->q_heads = 33, a->kv_heads = 2), "q_heads 33 kv_heads 2");
  BAD((a->q_heads = 2, a->kv_heads = 3), "q_heads 2 kv_heads 3");
  BAD((a->q_heads = 1, a->kv_heads = 2), "q_heads 1 kv_heads 2");
  BAD(a->q_len = -1, "q_len -1");
  BAD(a->kv_len = -7, "kv_len -7");
  BAD(a->head_size = 0, "head_size 0 1024");
  BAD(a->head_size = -1, "head_size -1");
  BAD(a->head_size = 1025, "head_size 1025 1024");
  BAD(a->value_size = 0, "value_size 0");
  BAD(a->value_size = -1, "value_size -1");
  BAD(a->value_size = 1025, "value_size 1025");
  BAD(a->batch = INT64_C(1) << 31, "batch 2147483648");
  BAD(a->q_len = INT64_C(1) << 31, "q_len 2147483648");
  BAD(a->kv_len = INT64_C(1) << 31, "kv_len 2147483648");
  BAD((a->batch = 1 << 20, a->q_heads = 1 << 10, a->q_len = (1 << 10) + 1), "batch q_heads q_len");
  BAD(a->batch = INT64_MAX, "batch 9223372036854775807");
  BAD(a->batch = INT64_MIN, "batch -9223372036854775808");
  BAD(a->q_heads = INT64_MAX - 1, "q_heads 9223372036854775806");
  BAD(a->q_len = INT64_MAX, "q_len 9223372036854775807");
  BAD(a->kv_len = INT64_MAX, "kv_len 9223372036854775807");
  problem_free(&p);
}

static void options(void) {
  problem p = sound();
  BAD((a->has_scale = true, a->scale = NAN), "scale nan");
  BAD((a->has_scale = true, a->scale = INFINITY), "scale inf");
  BAD((a->has_scale = true, a->scale = -INFINITY), "scale -inf");
  BAD((a->has_scale = true, a->scale = 2e38f), "scale 2e+38");
  BAD((a->has_scale = true, a->scale = -2e38f), "scale -2e+38");
  BAD(a->dropout.rate = -0.5, "rate -0.5");
  BAD(a->dropout.rate = 1.5, "rate 1.5");
  BAD(a->dropout.rate = (double)NAN, "rate nan");
  BAD((a->has_num_threads = true, a->num_threads = 0), "num_threads 0");
  BAD((a->has_num_threads = true, a->num_threads = -1), "num_threads -1");
  BAD((a->has_num_threads = true, a->num_threads = 1025), "num_threads 1025 1024");
  BAD(a->struct_size = 0, "struct_size 0");
  BAD(a->struct_size = 3, "struct_size 3");
  BAD(a->q.data = NULL, "q NULL");
  BAD(a->k.data = NULL, "k NULL");
  BAD(a->v.data = NULL, "v NULL");
  BAD(a->o.data = NULL, "o NULL");
  BAD(a->o.batch_stride = 0, "o batch_stride 0");
  BAD(a->o.head_stride = 0, "o head_stride 0");
  BAD(a->o.row_stride = 0, "o row_stride 0");
  BAD(a->o.dim_stride = 0, "o dim_stride 0");
  BAD(a->lse.batch_stride = 0, "lse batch_stride 0");
  BAD(a->lse.head_stride = 0, "lse head_stride 0");
  BAD(a->lse.row_stride = 0, "lse row_stride 0");
  problem_free(&p);
}

/* ---- lengths and pages ---- */

/* Two sequences with room for 3 rows and 5 keys each, and arrays of lengths to be spoilt. */
typedef struct entries {
  int32_t cu_q[3], cu_k[3], q_lens[2], kv_lens[2], padding[2], starts[2];
} entries;

static const entries sound_entries = {.cu_q = {0, 1, 3},
                                      .cu_k = {0, 2, 5},
                                      .q_lens = {3, 0},
                                      .kv_lens = {4, 1},
                                      .padding = {1, 0},
                                      .starts = {4, 0}};

/* `spoil` acts on `e`; `use` sets the lengths `l`. Sound entries are taken, spoilt ones refused. */
#define BAD_ENTRY(use, spoil, words)                                                               \
  do {                                                                                             \
    check_context("%s, %s", #use, #spoil);                                                         \
    entries e = sound_entries;                                                                     \
    attn_params before = p.params;                                                                 \
    attn_lengths *l = &p.params.lengths;                                                           \
    use;                                                                                           \
    CHECK_OK(attn_forward(NULL, &p.params));                                                       \
    canary_fill(p.o, p.o_count);                                                                   \
    canary_fill(p.lse, p.lse_count);                                                               \
    spoil;                                                                                         \
    refuse(&p, ATTN_INVALID_ARGUMENT, words, __LINE__);                                            \
    size_t bytes = 12345;                                                                          \
    CHECK_STATUS(attn_workspace_size(&p.params, &bytes), ATTN_INVALID_ARGUMENT);                   \
    CHECK_INT(bytes, 12345);                                                                       \
    p.params = before;                                                                             \
  } while (0)

static void lengths(void) {
  problem p = sound();
  BAD_ENTRY(l->q_lens = e.q_lens, e.q_lens[0] = 4, "q_lens[0] 4; 3");
  BAD_ENTRY(l->q_lens = e.q_lens, e.q_lens[1] = -1, "q_lens[1] -1; 3");
  BAD_ENTRY(l->q_lens = e.q_lens, e.q_lens[1] = INT32_MIN, "q_lens[1] -2147483648; 3");
  BAD_ENTRY(l->kv_lens = e.kv_lens, e.kv_lens[0] = 6, "kv_lens[0] 6; 5");
  BAD_ENTRY(l->kv_lens = e.kv_lens, e.kv_lens[1] = -1, "kv_lens[1] -1; 5");
  BAD_ENTRY(l->kv_lens = e.kv_lens, e.kv_lens[1] = INT32_MAX, "kv_lens[1] 2147483647; 5");
  BAD_ENTRY(l->left_padding = e.padding, e.padding[0] = 6, "left_padding[0] 6; 5");
  BAD_ENTRY(l->left_padding = e.padding, e.padding[1] = -1, "left_padding[1] -1; 5");
  BAD_ENTRY(l->kv_starts = e.starts, e.starts[0] = 6, "kv_starts[0] 6; 5");
  BAD_ENTRY(l->kv_starts = e.starts, e.starts[1] = -1, "kv_starts[1] -1; 5");
  check_context("lengths in rooms made smaller by other arrays");
  BAD_ENTRY((l->left_padding = e.padding, l->kv_lens = e.kv_lens), e.padding[0] = 2,
            "kv_lens[0] 4; 3");
  BAD_ENTRY((l->kv_lens = e.kv_lens, l->kv_starts = e.starts), e.starts[0] = 5,
            "kv_starts[0] 5; 4");
  BAD_ENTRY((l->left_padding = e.padding, l->kv_starts = e.starts), e.starts[0] = 5,
            "kv_starts[0] 5; 4");
  BAD_ENTRY((l->cu_seqlens_q = e.cu_q, l->q_lens = e.q_lens, e.q_lens[0] = 1), e.q_lens[0] = 2,
            "q_lens[0] 2; 1");
  BAD_ENTRY((l->cu_seqlens_k = e.cu_k, l->kv_lens = e.kv_lens, e.kv_lens[0] = 2), e.kv_lens[0] = 3,
            "kv_lens[0] 3; 2");
  BAD_ENTRY((l->cu_seqlens_k = e.cu_k, l->left_padding = e.padding), e.padding[1] = 4,
            "left_padding[1] 4; 3");
  BAD_ENTRY((l->cu_seqlens_k = e.cu_k, l->kv_starts = e.starts, e.starts[0] = 2), e.starts[0] = 3,
            "kv_starts[0] 3; 2");
  problem_free(&p);
}

/* Offsets of packed sequences: from 0, up, to the end of the array. */
static void offsets(void) {
  problem p = sound();
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, e.cu_q[0] = 1, "cu_seqlens_q[0] 1; 0");
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, e.cu_q[0] = -1, "cu_seqlens_q[0] -1; 0");
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, e.cu_q[1] = -1, "cu_seqlens_q[1] -1; 3");
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, e.cu_q[1] = 4, "cu_seqlens_q[1] 4; 3");
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, (e.cu_q[1] = 3, e.cu_q[2] = 2), "cu_seqlens_q[2] 2; 3");
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, e.cu_q[2] = 2, "cu_seqlens_q[2] 2; q_len, 3");
  BAD_ENTRY(l->cu_seqlens_q = e.cu_q, e.cu_q[2] = 4, "cu_seqlens_q[2] 4; q_len");
  BAD_ENTRY(l->cu_seqlens_k = e.cu_k, e.cu_k[0] = 1, "cu_seqlens_k[0] 1; 0");
  BAD_ENTRY(l->cu_seqlens_k = e.cu_k, e.cu_k[1] = INT32_MIN, "cu_seqlens_k[1] -2147483648; 5");
  BAD_ENTRY(l->cu_seqlens_k = e.cu_k, e.cu_k[1] = 6, "cu_seqlens_k[1] 6; 5");
  BAD_ENTRY(l->cu_seqlens_k = e.cu_k, (e.cu_k[1] = 4, e.cu_k[2] = 3), "cu_seqlens_k[2] 3; 4");
  BAD_ENTRY(l->cu_seqlens_k = e.cu_k, e.cu_k[2] = 4, "cu_seqlens_k[2] 4; kv_len, 5");
  BAD_ENTRY(l->cu_seqlens_k = e.cu_k, e.cu_k[2] = 6, "cu_seqlens_k[2] 6; kv_len");
  check_context("no sequences");
  static const int32_t none[1] = {0};
  attn_params before = p.params;
  p.params.batch = 0;
  p.params.lengths.cu_seqlens_q = none;
  refuse(&p, ATTN_INVALID_ARGUMENT, "cu_seqlens_q[0] 0; q_len, 3", __LINE__);
  p.params.q_len = 0;
  CHECK_OK(attn_forward(NULL, &p.params));
  p.params = before;
  problem_free(&p);
}

/* The two sequences of sound(), 5 keys each, in 4 pages of 3 slots; what nobody needs is not looked at. */
typedef struct paging {
  int32_t table[2][3], kv_lens[2], starts[2], padding[2];
} paging;

static const paging sound_pages = {.table = {{3, 0, -1}, {1, 2, INT32_MAX}},
                                   .kv_lens = {5, 5},
                                   .starts = {3, 0},
                                   .padding = {1, 0}};

/* `spoil` acts on `g`, the params' pages, on `t`, the arrays, and on the lengths `l`. */
#define PAGED(spoil)                                                                               \
  check_context("%s", #spoil);                                                                     \
  paging t = sound_pages;                                                                          \
  attn_params before = p.params;                                                                   \
  attn_pages *g = &p.params.pages;                                                                 \
  attn_lengths *l = &p.params.lengths;                                                             \
  *g = (attn_pages){&t.table[0][0], 3, 3, 3, 4};                                                   \
  p.params.k = dense_input(pool, 2, 3, 8);                                                         \
  p.params.v = dense_input(pool, 2, 3, 6);                                                         \
  (void)l;                                                                                         \
  spoil
#define BAD_PAGE(spoil, words)                                                                     \
  do {                                                                                             \
    PAGED(spoil);                                                                                  \
    refuse(&p, ATTN_INVALID_ARGUMENT, words, __LINE__);                                            \
    p.params = before;                                                                             \
  } while (0)
#define GOOD_PAGE(spoil)                                                                           \
  do {                                                                                             \
    PAGED(spoil);                                                                                  \
    problem_run(&p);                                                                               \
    canary_fill(p.o, p.o_count);                                                                   \
    canary_fill(p.lse, p.lse_count);                                                               \
    p.params = before;                                                                             \
  } while (0)

static void bad_pages(void) {
  problem p = sound();
  float pool[4 * 2 * 3 * 8] = {0};
  GOOD_PAGE((void)0);
  BAD_PAGE(t.table[0][0] = -1, "pages.table[0][0] -1; 3");
  BAD_PAGE(t.table[0][1] = 4, "pages.table[0][1] 4; 3");
  BAD_PAGE(t.table[1][1] = INT32_MIN, "pages.table[1][1] -2147483648; 3");
  BAD_PAGE(t.table[1][0] = INT32_MAX, "pages.table[1][0] 2147483647; 3");
  BAD_PAGE(g->num_pages = 3, "pages.table[0][0] 3; 2");
  BAD_PAGE(g->num_pages = -1, "pages.num_pages -1");
  BAD_PAGE(g->num_pages = INT64_C(1) << 31, "pages.num_pages 2147483648");
  BAD_PAGE(g->page_size = 0, "pages.page_size 0; 1");
  BAD_PAGE(g->page_size = -3, "pages.page_size -3; 1");
  BAD_PAGE(g->page_size = INT64_MAX, "pages.page_size 9223372036854775807; 1");
  BAD_PAGE(g->table_width = 0, "pages.table_width 0; 1");
  BAD_PAGE(g->table_width = -1, "pages.table_width -1; 1");
  BAD_PAGE(g->table_width = INT64_MAX, "pages.table_width 9223372036854775807; 1");
  check_context("cu_seqlens_k beside pages");
  static const int32_t cu[] = {0, 2, 5};
  BAD_PAGE(l->cu_seqlens_k = cu, "cu_seqlens_k pages.table");
  check_context("key layouts");
  BAD_PAGE(p.params.key_layout = ATTN_KEYS_INTERLEAVED, "page_size 3; 16");
  BAD_PAGE((p.params.key_layout = ATTN_KEYS_INTERLEAVED, g->table = NULL), "key_layout pages");
  BAD_PAGE(p.params.key_layout = (attn_key_layout)2,
           "key_layout 2; ATTN_KEYS_IN_ROWS (0) ATTN_KEYS_INTERLEAVED (1)");
  BAD_PAGE((p.params.key_layout = (attn_key_layout)-1, g->table = NULL), "key_layout -1;");
  problem_free(&p);
}

/* A refusal names fields as they are written, what is allowed, and which other value has it so. */
static void wordings(void) {
  problem p = sound();
  attn_params before = p.params;
  attn_params *a = &p.params;
  attn_lengths *l = &a->lengths;
  entries e = sound_entries;
#define SAYS(spoil, text)                                                                          \
  do {                                                                                             \
    check_context("%s", #spoil);                                                                   \
    spoil;                                                                                         \
    CHECK_STATUS(attn_forward(NULL, a), ATTN_INVALID_ARGUMENT);                                    \
    check_says(text, __FILE__, __LINE__);                                                          \
    *a = before;                                                                                   \
    e = sound_entries;                                                                             \
  } while (0)
  SAYS((l->left_padding = e.padding, e.padding[0] = 6),
       "lengths.left_padding[0] is 6; allowed: 0 ... 5, by kv_len");
  SAYS((l->left_padding = e.padding, l->cu_seqlens_k = e.cu_k, e.padding[1] = 4),
       "lengths.left_padding[1] is 4; allowed: 0 ... 3, by lengths.cu_seqlens_k");
  SAYS((l->left_padding = e.padding, l->kv_lens = e.kv_lens, e.padding[0] = 2),
       "lengths.kv_lens[0] is 4; allowed: 0 ... 3, by kv_len and lengths.left_padding");
  SAYS((l->left_padding = e.padding, l->kv_starts = e.starts, e.starts[0] = 5),
       "lengths.kv_starts[0] is 5; allowed: 0 ... 4, by kv_len and lengths.left_padding");
  SAYS((l->kv_lens = e.kv_lens, l->kv_starts = e.starts, e.starts[0] = 5),
       "lengths.kv_starts[0] is 5; allowed: 0 ... 4, by lengths.kv_lens");
  SAYS((l->q_lens = e.q_lens, e.q_lens[0] = 4),
       "lengths.q_lens[0] is 4; allowed: 0 ... 3, by q_len");
  SAYS((l->cu_seqlens_q = e.cu_q, e.cu_q[2] = 2),
       "lengths.cu_seqlens_q[2] is 2; the last must be q_len, 3");
  static const int32_t table[] = {0, 1};
  a->kv_len = 1, a->pages = (attn_pages){table, 1, 1, 5, 2}, before = *a;
  SAYS(a->pages.num_pages = 0,
       "pages.num_pages is 0; sequence 0 has 1 key, which must lie in pages");
  SAYS(a->pages.num_pages = 1, "pages.table[1][0] is 1; allowed: 0 ... 0, pages.num_pages - 1");
  SAYS(a->key_layout = ATTN_KEYS_INTERLEAVED,
       "pages.page_size is 5; with ATTN_KEYS_INTERLEAVED it must be a multiple of 16");
  SAYS((a->pages.table = NULL, a->key_layout = (attn_key_layout)7),
       "key_layout is 7; allowed: ATTN_KEYS_IN_ROWS (0), ATTN_KEYS_INTERLEAVED (1)");
  SAYS((a->kv_len = 6, l->kv_starts = e.starts, e.starts[0] = 0),
       "sequence 0 has 6 keys from slot 0; pages.table_width 1 * pages.page_size 5 holds 5");
#undef SAYS
  problem_free(&p);
}

/* Tables that are too narrow for the length; rings, whose older keys are gone, need not be wider than what is left. */
static void narrow_tables(void) {
  problem p = sound();
  float pool[4 * 2 * 3 * 8] = {0};
  BAD_PAGE(g->table_width = 1, "sequence 0 5 1 3");
  BAD_PAGE((g->table_width = 1, l->kv_lens = t.kv_lens, t.kv_lens[0] = 3), "sequence 1 5 1 3");
  GOOD_PAGE((g->table_width = 1, l->kv_lens = t.kv_lens, t.kv_lens[0] = t.kv_lens[1] = 3));
  BAD_PAGE((t.padding[0] = 2, p.params.kv_len = 7, l->left_padding = t.padding,
            l->kv_lens = t.kv_lens, g->table_width = 2),
           "sequence 0 5 slot 2 6");
  BAD_PAGE((l->left_padding = t.padding, t.padding[0] = 4, t.table[0][1] = 9), "table[0][1] 9; 3");
  GOOD_PAGE((l->left_padding = t.padding, t.padding[0] = 4, t.table[0][0] = 9));
  check_context("rings");
  GOOD_PAGE((l->kv_starts = t.starts, t.starts[1] = 2, g->table_width = 1, t.table[0][1] = 9));
  BAD_PAGE((l->kv_starts = t.starts, t.starts[1] = 1, g->table_width = 1), "sequence 1 4 1 3");
  BAD_PAGE((l->kv_starts = t.starts, t.table[0][1] = 9), "table[0][1] 9; 3");
  GOOD_PAGE((l->kv_starts = t.starts, t.table[0][0] = 9));
  check_context("no keys, no pages: nothing is looked at");
  GOOD_PAGE((l->kv_lens = t.kv_lens, t.kv_lens[0] = 0, t.table[0][0] = t.table[0][1] = 9));
  GOOD_PAGE((l->kv_starts = t.starts, t.starts[0] = 5, t.table[0][0] = t.table[0][1] = 9));
  GOOD_PAGE((p.params.kv_len = 0, g->num_pages = 0));
  problem_free(&p);
}

/* Neither too small a workspace nor the others' NULLs. */
static void workspaces_and_handles(void) {
  problem p = sound();
  size_t need = 0;
  p.params.has_num_threads = true; /* of one thread: the size is what is needed, and no more */
  p.params.num_threads = 1;
  CHECK_OK(attn_workspace_size(&p.params, &need));
  CHECK(need > 0);
  char *workspace = check_alloc(need);
  p.params.workspace = workspace;
  p.params.workspace_size = need - 1;
  CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_INVALID_ARGUMENT);
  char text[160];
  const char *format =
      "workspace_size is %zu; it must be at least %zu bytes, as attn_workspace_size() says";
  snprintf(text, sizeof(text), format, need - 1, need);
  check_says(text, __FILE__, __LINE__);
  p.params.workspace_size = 0;
  CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text), format, (size_t)0, need);
  check_says(text, __FILE__, __LINE__);
  check_context("a ragged batch, whose schedule also lies in the workspace");
  const attn_params alike = p.params;
  size_t ragged = 0;
  p.params.lengths.q_lens = (int32_t[]){3, 2};
  p.params.has_num_threads = false;
  CHECK_OK(attn_workspace_size(&p.params, &ragged));
  for (int small = 0; small < 2; small++) {
    p.params.workspace_size = small ? 0 : 65; /* enough for no task */
    CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_INVALID_ARGUMENT);
    snprintf(text, sizeof(text), format, p.params.workspace_size, ragged);
    check_says(text, __FILE__, __LINE__);
  }
  p.params = alike;
  CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
  p.params.workspace_size = need;
  CHECK_OK(attn_forward(NULL, &p.params));
  free(workspace);

  CHECK_STATUS(attn_forward(NULL, NULL), ATTN_INVALID_ARGUMENT);
  check_message("params NULL", __FILE__, __LINE__);
  CHECK_STATUS(attn_workspace_size(&p.params, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_workspace_size(NULL, &need), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_plan_create(&p.params, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_context_create(NULL), ATTN_INVALID_ARGUMENT);
  size_t bytes = 12345;
  attn_params bad = p.params;
  bad.head_size = 1025;
  CHECK_STATUS(attn_workspace_size(&bad, &bytes), ATTN_INVALID_ARGUMENT);
  CHECK_INT(bytes, 12345);
  attn_params huge = p.params;
  huge.batch = huge.q_heads = huge.kv_heads = huge.q_len = huge.kv_len = INT32_MAX;
  CHECK(attn_workspace_size(&huge, &bytes) != ATTN_OK);
  CHECK(one_line(attn_last_error()));
  attn_plan_destroy(NULL);
  attn_plan_reset(NULL);
  attn_context_destroy(NULL);
  attn_context_trim(NULL);
  problem_free(&p);
}

static void plans(void) {
  problem p = sound();
  attn_plan *plan = NULL;
  p.params.workspace = NULL;
  CHECK_OK(attn_plan_create(&p.params, &plan));
  int64_t count = attn_plan_task_count(plan);
  size_t size = attn_plan_workspace_size(plan);
  char *workspace = check_alloc(size);
  const int64_t outside[] = {-1, count, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 4; i++) {
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)outside[i]);
    check_context("plan task %s", number);
    CHECK_STATUS(attn_plan_run_task(plan, outside[i], workspace, size), ATTN_INVALID_ARGUMENT);
    check_message(number, __FILE__, __LINE__);
  }
  char text[160];
  CHECK_STATUS(attn_plan_run_task(plan, count, workspace, size), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text), "task i is %lld; allowed: 0 ... %lld, attn_plan_task_count() - 1",
           (long long)count, (long long)count - 1);
  check_says(text, __FILE__, __LINE__);
  CHECK_STATUS(attn_plan_run_task(plan, 0, workspace, size - 1), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text),
           "workspace_size is %zu; it must be at least %zu bytes, as attn_plan_workspace_size() "
           "says",
           size - 1, size);
  check_says(text, __FILE__, __LINE__);
  CHECK_STATUS(attn_plan_run_task(plan, 0, NULL, size), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text),
           "workspace is NULL; it must point to %zu bytes, as attn_plan_workspace_size() says",
           size);
  check_says(text, __FILE__, __LINE__);
  CHECK_STATUS(attn_plan_run_task(NULL, 0, workspace, size), ATTN_INVALID_ARGUMENT);
  CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
  attn_plan_destroy(plan);
  free(workspace);
  problem_free(&p);
}

/* An older program's struct ends earlier: the rest has its default. A newer one's may be longer. */
static void struct_sizes(void) {
  problem p = sound();
  problem_run(&p);
  float *want = copy_floats(p.o, p.o_count);
  check_context("shorter struct");
  p.params.struct_size = offsetof(attn_params, causal);
  p.params.causal = false; /* not to be read, nor what follows */
  p.params.has_scale = true;
  p.params.scale = NAN;
  p.params.dropout.rate = -1;
  problem_run(&p);
  CHECK_BITS(p.o, want, p.o_count);

  check_context("longer struct");
  struct {
    attn_params params;
    uint64_t tail[4];
  } newer = {.tail = {0}};
  problem q = sound();
  newer.params = q.params;
  newer.params.struct_size = sizeof(newer);
  CHECK_OK(attn_forward(NULL, &newer.params));
  CHECK_BITS(q.o, want, q.o_count);
  canary_fill(q.o, q.o_count);
  newer.tail[3] = UINT64_C(1) << 63;
  CHECK_STATUS(attn_forward(NULL, &newer.params), ATTN_INVALID_ARGUMENT);
  check_message("struct_size", __FILE__, __LINE__);
  CHECK(canary_intact(q.o, q.o_count));
  free(want);
  problem_free(&p);
  problem_free(&q);
}

static void selection(void) {
  const char *isa = attn_isa_name(), *exp = attn_exp_name();
  check_context("attn_select");
  CHECK_STATUS(attn_select("avx1024", NULL), ATTN_INVALID_ARGUMENT);
  check_message("avx1024 generic", __FILE__, __LINE__);
  CHECK_STATUS(attn_select(NULL, "libm"), ATTN_INVALID_ARGUMENT);
  check_message("libm inline sleef", __FILE__, __LINE__);
  CHECK_STATUS(attn_select("generic", "libm"), ATTN_INVALID_ARGUMENT);
  check_context("attn_select with the set of another processor");
  const char *other = attn_isa_tile_sizes("neon", &(attn_tile_sizes){0}) ? "avx2" : "neon";
  CHECK_STATUS(attn_select(other, NULL), ATTN_UNSUPPORTED);
  check_message(other, __FILE__, __LINE__);
  CHECK(strcmp(attn_isa_name(), isa) == 0);
  CHECK(!attn_isa_supported("avx1024") && !attn_isa_supported("") && !attn_isa_supported(NULL));
  CHECK(attn_isa_supported("generic"));
  for (int i = 0; attn_isa_compiled(i); i++) {
    const char *name = attn_isa_compiled(i);
    bool supported = attn_isa_supported(name);
    CHECK_STATUS(attn_select(name, NULL), supported ? ATTN_OK : ATTN_UNSUPPORTED);
    if (!supported)
      check_message(name, __FILE__, __LINE__);
    else
      CHECK(strcmp(attn_isa_name(), name) == 0);
    CHECK_OK(attn_select(isa, exp));
  }
  CHECK(attn_isa_compiled(-1) == NULL && attn_isa_compiled(1000) == NULL);
  CHECK(strcmp(attn_isa_name(), isa) == 0 && strcmp(attn_exp_name(), exp) == 0);
  CHECK(strcmp(attn_status_string(ATTN_OK), "ok") == 0);
  CHECK(strcmp(attn_status_string((attn_status)99), "unknown status") == 0);
}

/* Nothing to do is success; no keys is zeros and -inf. */
static void empty(void) {
  problem p = sound();
  attn_params before = p.params;
  for (int n = 0; n < 4; n++) {
    check_context("zero-sized problem %d", n);
    if (n == 0) p.params.batch = 0;
    if (n == 1) p.params.q_len = 0;
    if (n == 2) p.params.batch = p.params.q_len = p.params.kv_len = 0;
    if (n == 3) p.params.batch = 0, p.params.o.data = NULL, p.params.q.data = NULL;
    CHECK_OK(attn_forward(NULL, &p.params));
    CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
    attn_plan *plan = NULL;
    CHECK_OK(attn_plan_create(&p.params, &plan));
    CHECK_INT(attn_plan_task_count(plan), 0);
    CHECK_STATUS(attn_plan_run_task(plan, 0, p.o, 0), ATTN_INVALID_ARGUMENT);
    check_says("task i is 0; this plan has no tasks", __FILE__, __LINE__);
    attn_plan_destroy(plan);
    p.params = before;
  }
  check_context("no keys");
  p.params.kv_len = 0;
  p.params.k.data = p.params.v.data = NULL;
  problem_run(&p);
  for (size_t i = 0; i < p.o_count; i++) CHECK_INT(float_bits(p.o[i]), 0);
  for (size_t i = 0; i < p.lse_count; i++) CHECK(p.lse[i] == -INFINITY);
  check_context("outputs of one element need no stride, and the lse is optional");
  problem one = problem_random((shape){1, 1, 1, 1, 4, 8, 1}, 8002);
  one.params.o = (attn_output){one.o, 0, 0, 0, 0};
  one.params.lse = (attn_lse_output){one.lse, 0, 0, 0};
  problem_run(&one);
  problem_check(&one);
  one.params.lse = (attn_lse_output){0};
  CHECK_OK(attn_forward(NULL, &one.params));
  problem_free(&one);
  problem_free(&p);
}

/* A failure's line stays until the next failure, and is each thread's own. */
static void last_error(void) {
  problem p = sound();
  p.params.head_size = 2000;
  CHECK(attn_forward(NULL, &p.params) != ATTN_OK);
  char message[512];
  snprintf(message, sizeof(message), "%s", attn_last_error());
  p.params.head_size = 8;
  CHECK_OK(attn_forward(NULL, &p.params));
  CHECK(strcmp(attn_last_error(), message) == 0);
  problem_free(&p);
}

int main(int argc, char **argv) {
  CHECK(strcmp(attn_last_error(), "") == 0);
  check_begin(&argc, argv);
  extents();
  options();
  lengths();
  offsets();
  bad_pages();
  wordings();
  narrow_tables();
  workspaces_and_handles();
  plans();
  struct_sizes();
  selection();
  empty();
  last_error();
  return check_done();
}
