/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Bad lengths and pages are refused, with one line that names the field as it is written, its value, what is
 * allowed, and what has it so; what nobody needs is not looked at. */

#include "refusal.h"

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
       "lengths.left_padding[1] is 4; allowed: 0 ... 3, by cu_seqlens_k");
  SAYS((l->left_padding = e.padding, l->kv_lens = e.kv_lens, e.padding[0] = 2),
       "lengths.kv_lens[0] is 4; allowed: 0 ... 3, by kv_len and left_padding");
  SAYS((l->left_padding = e.padding, l->kv_starts = e.starts, e.starts[0] = 5),
       "lengths.kv_starts[0] is 5; allowed: 0 ... 4, by kv_len and left_padding");
  SAYS((l->kv_lens = e.kv_lens, l->kv_starts = e.starts, e.starts[0] = 5),
       "lengths.kv_starts[0] is 5; allowed: 0 ... 4, by kv_lens");
  SAYS((l->q_lens = e.q_lens, e.q_lens[0] = 4),
       "lengths.q_lens[0] is 4; allowed: 0 ... 3, by q_len");
  SAYS((l->cu_seqlens_q = e.cu_q, e.cu_q[2] = 2),
       "lengths.cu_seqlens_q[2] is 2; the last must be q_len, 3");
  static const int32_t table[] = {0, 1};
  a->kv_len = 1, a->pages = (attn_pages){table, 1, 1, 5, 2}, before = *a;
  SAYS(a->pages.num_pages = 0,
       "pages.num_pages is 0; keys of sequence 0, which must lie in pages: 1");
  SAYS(a->pages.num_pages = 1, "pages.table[1][0] is 1; allowed: 0 ... 0, pages.num_pages - 1");
  SAYS(a->key_layout = ATTN_KEYS_INTERLEAVED,
       "pages.page_size is 5; with ATTN_KEYS_INTERLEAVED it must be a multiple of 16");
  SAYS((a->pages.table = NULL, a->key_layout = (attn_key_layout)7),
       "key_layout is 7; allowed: ATTN_KEYS_IN_ROWS (0), ATTN_KEYS_INTERLEAVED (1)");
  SAYS((a->kv_len = 6, l->kv_starts = e.starts, e.starts[0] = 0),
       "keys of sequence 0: 6, from slot 0; pages.table_width 1 * pages.page_size 5 holds 5");
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

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  lengths();
  offsets();
  bad_pages();
  wordings();
  narrow_tables();
  return check_done();
}
