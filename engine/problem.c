/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "problem.h"

#include <attn/cache.h>
#include <attn/layer.h>

#include "status.h"
#include "threads.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024 };
#define MAX_ROWS                                                                                   \
  ((int64_t)1 << 40) /* batch * q_heads * q_len: keeps every product inside 64 bits */

/* A field that a later version put into padding at the end would leave struct_size as it is, and be ignored silently by
 * this one. */
#define ENDS_WITH(type, last)                                                                      \
  _Static_assert(sizeof(type) == offsetof(type, last) + sizeof(((type *)NULL)->last),              \
                 #type " ends in padding: name it `reserved`, and check that it is 0")
ENDS_WITH(attn_params, reserved);
ENDS_WITH(attn_cache_config, key_layout);
ENDS_WITH(attn_cache_rows, num_threads);
ENDS_WITH(attn_cache_usage, pages_in_use);
ENDS_WITH(attn_layer_config, scale);
ENDS_WITH(attn_layer_weights, out);
ENDS_WITH(attn_layer_params, cancel_user);

attn_status attn_copy_params(const char *name, void *ours, size_t our_size, const void *theirs) {
  size_t size;
  if (!theirs)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; it must point to a struct", name);
  memcpy(&size, theirs, sizeof(size));
  if (size < sizeof(size)) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "%s.struct_size is %zu; initialise the struct with its _INIT macro", name,
                     size);
  }
  for (size_t i = our_size; i < size; i++) {
    if (((const char *)theirs)[i]) {
      return attn_fail(ATTN_INVALID_ARGUMENT,
                       "%s.struct_size is %zu and sets an option that this version (%zu) lacks",
                       name, size, our_size);
    }
  }
  memcpy(ours, theirs, size < our_size ? size : our_size);
  memcpy(ours, &our_size, sizeof(our_size));
  return ATTN_OK;
}

attn_status attn_check_range(const char *name, int64_t value, int64_t least, int64_t most,
                             const char *limit) {
  if (value >= least && value <= most) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s is %" PRId64 "; allowed: %" PRId64 " ... %" PRId64 "%s%s", name, value,
                   least, most, limit ? ", " : "", limit ? limit : "");
}

attn_status attn_check_entry(const char *prefix, const char *name, int64_t i, int64_t value,
                             int64_t least, int64_t most, const char *limit) {
  if (value >= least && value <= most) return ATTN_OK; /* before a name is made for nothing */
  char entry[128];
  snprintf(entry, sizeof(entry), "%s%s[%" PRId64 "]", prefix, name, i);
  return attn_check_range(entry, value, least, most, limit);
}

attn_status attn_check_heads(int64_t q_heads, int64_t kv_heads) {
  attn_status status = attn_check_range("q_heads", q_heads, 1, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("kv_heads", kv_heads, 1, ATTN_MAX_EXTENT, NULL);
  if (status) return status;
  if (q_heads % kv_heads == 0) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "q_heads is %" PRId64 "; it must be a multiple of kv_heads, %" PRId64, q_heads,
                   kv_heads);
}

attn_status attn_copy_out(const char *name, void *theirs, const void *ours, size_t our_size) {
  size_t size;
  if (!theirs)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; it must point to a struct", name);
  memcpy(&size, theirs, sizeof(size));
  if (size < sizeof(size)) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "%s.struct_size is %zu; initialise the struct with its _INIT macro", name,
                     size);
  }
  if (size > our_size) memset((char *)theirs + our_size, 0, size - our_size);
  memcpy(theirs, ours, size < our_size ? size : our_size);
  memcpy(theirs, &size, sizeof(size));
  return ATTN_OK;
}

float attn_default_scale(int64_t head_size) {
  const attn_fpmode mode = attn_fpmode_enter();
  volatile double size = (double)head_size; /* not to be computed before the mode is set */
  volatile float scale = (float)(1.0 / sqrt(size));
  attn_fpmode_leave(mode);
  return scale;
}

typedef struct number {
  char text[32];
} number;

/* In as few digits as tell the value from its neighbours: a bound and what is just beyond it differ. */
static const char *shortest(number *n, double value, bool single) {
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(n->text, sizeof(n->text), "%.*g", digits, value);
    const double read = strtod(n->text, NULL);
    if (single ? (float)read == (float)value : read == value) break;
  }
  return n->text;
}

attn_status attn_check_scale(bool has_scale, float scale) {
  /* |scale| * log2(e) has to be a number. */
  if (!has_scale || (isgreaterequal(scale, -1e38f) && islessequal(scale, 1e38f))) return ATTN_OK;
  number text;
  return attn_fail(ATTN_INVALID_ARGUMENT, "scale is %s; allowed: -1e38 ... 1e38",
                   shortest(&text, (double)scale, true));
}

attn_status attn_check_dropout(const attn_dropout *dropout) {
  /* Quiet comparisons: a caller may have unmasked the exception that NaN would raise. */
  if (isgreaterequal(dropout->rate, 0.0) && islessequal(dropout->rate, 1.0)) return ATTN_OK;
  number text;
  return attn_fail(ATTN_INVALID_ARGUMENT, "dropout.rate is %s; allowed: 0 ... 1",
                   shortest(&text, dropout->rate, false));
}

attn_status attn_check_threads(bool has_num_threads, int32_t num_threads, int32_t *threads) {
  if (has_num_threads) {
    const attn_status status = attn_check_range("num_threads", num_threads, 1, MAX_THREADS, NULL);
    if (status) return status;
    *threads = num_threads;
  } else {
    *threads = attn_default_threads();
    if (*threads > MAX_THREADS) *threads = MAX_THREADS;
  }
  return ATTN_OK;
}

/* What follows from the rest. */
static void resolve(attn_problem *problem) {
  attn_params *p = &problem->params;
  if (!p->has_scale) {
    p->has_scale = true;
    p->scale = attn_default_scale(p->head_size);
  }
  const attn_lengths *l = &p->lengths;
  problem->group = p->q_heads / p->kv_heads;
  problem->ragged = l->cu_seqlens_q || l->cu_seqlens_k || l->q_lens || l->kv_lens ||
                    l->left_padding || l->kv_starts;
  problem->dropout = !p->dropout.deterministic && p->dropout.rate > 0.0;
}

static attn_status check_rows(const attn_params *p) {
  const int64_t batch = p->lengths.cu_seqlens_q ? 1 : p->batch;
  if (p->q_len == 0 || batch * p->q_heads <= MAX_ROWS / p->q_len) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "batch * q_heads * q_len is %" PRId64 " * %" PRId64 " * %" PRId64
                   "; allowed: up to 2^40",
                   batch, p->q_heads, p->q_len);
}

/* ---- lengths and pages ---- */

attn_sequence attn_sequence_room(const attn_params *p, int64_t n) {
  const attn_lengths *l = &p->lengths;
  attn_sequence s = {.batch = n, .kv_batch = n, .q_len = p->q_len, .kv_len = p->kv_len};
  if (l->cu_seqlens_q) {
    s.batch = 0;
    s.q_row = l->cu_seqlens_q[n];
    s.q_len = l->cu_seqlens_q[n + 1] - s.q_row;
  }
  if (l->cu_seqlens_k) {
    s.kv_batch = 0;
    s.kv_row = l->cu_seqlens_k[n];
    s.kv_len = l->cu_seqlens_k[n + 1] - s.kv_row;
  }
  if (p->pages.table) s.kv_batch = 0;
  return s;
}

attn_sequence attn_problem_sequence(const attn_problem *problem, int64_t n) {
  const attn_params *p = &problem->params;
  const attn_lengths *l = &p->lengths;
  attn_sequence s = attn_sequence_room(p, n);
  if (problem->ragged) {
    if (l->left_padding) {
      s.kv_row += l->left_padding[n];
      s.kv_len -= l->left_padding[n];
    }
    if (l->q_lens) s.q_len = l->q_lens[n];
    if (l->kv_lens) s.kv_len = l->kv_lens[n];
    if (l->kv_starts) s.kv_begin = l->kv_starts[n];
  }
  s.diagonal = p->causal ? s.kv_len - s.q_len : s.kv_len;
  return s;
}

double attn_sequence_cost(const attn_problem *problem, const attn_sequence *s) {
  const attn_params *p = &problem->params;
  const double keys = (double)(s->kv_len - s->kv_begin), rows = (double)s->q_len;
  double pairs = rows * keys;
  if (p->causal) {
    /* The last row sees all keys, each one before it one less, until there are none. */
    const double seeing = rows < keys ? rows : keys;
    pairs = seeing * keys - seeing * (seeing - 1) / 2;
  }
  return (double)problem->group * pairs * (double)(p->head_size + p->value_size);
}

/* What follows from the lengths, once they are known to be right. */
static void measure(attn_problem *problem) {
  const attn_params *p = &problem->params;
  const int64_t different = problem->ragged ? p->batch : p->batch > 0;
  const int64_t alike = problem->ragged ? 1 : p->batch;
  double cost = 0, keys = 0;
  for (int64_t n = 0; n < different; n++) {
    const attn_sequence s = attn_problem_sequence(problem, n);
    cost += attn_sequence_cost(problem, &s);
    keys += (double)(s.kv_len - s.kv_begin);
  }
  const double heads = (double)alike * (double)p->kv_heads;
  const double bytes = keys * heads * (double)((p->head_size + p->value_size) * 4);
  problem->cost = cost * heads;
  problem->kv_bytes = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

static attn_status check_offsets(const char *prefix, const char *name, const int32_t *offsets,
                                 int64_t batch, const char *total_name, int64_t total) {
  if (!offsets) return ATTN_OK;
  if (offsets[0] != 0) {
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s%s[0] is %" PRId32 "; it must be 0", prefix, name,
                     offsets[0]);
  }
  for (int64_t n = 1; n <= batch; n++) {
    if (offsets[n] >= offsets[n - 1] && offsets[n] <= total) continue;
    char limit[64];
    snprintf(limit, sizeof(limit), "from the entry before it to %s", total_name);
    return attn_check_entry(prefix, name, n, offsets[n], offsets[n - 1], total, limit);
  }
  if (offsets[batch] == total) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s%s[%" PRId64 "] is %" PRId32 "; the last must be %s, %" PRId64, prefix, name,
                   batch, offsets[batch], total_name, total);
}

/* Sequence n inside the room it has. */
static attn_status check_sequence(const attn_params *p, const char *prefix, int64_t n) {
  const attn_lengths *l = &p->lengths;
  const attn_sequence room = attn_sequence_room(p, n);
  const char *rows_by = l->cu_seqlens_q ? "by cu_seqlens_q" : "by q_len";
  const char *keys_by = l->cu_seqlens_k ? "by cu_seqlens_k" : "by kv_len";
  int64_t keys = room.kv_len;
  attn_status status = ATTN_OK;
  if (l->q_lens) {
    status = attn_check_entry(prefix, "q_lens", n, l->q_lens[n], 0, room.q_len, rows_by);
  }
  if (!status && l->left_padding) {
    status = attn_check_entry(prefix, "left_padding", n, l->left_padding[n], 0, keys, keys_by);
    keys -= l->left_padding[n];
    keys_by = l->cu_seqlens_k ? "by cu_seqlens_k and left_padding" : "by kv_len and left_padding";
  }
  if (!status && l->kv_lens) {
    status = attn_check_entry(prefix, "kv_lens", n, l->kv_lens[n], 0, keys, keys_by);
    keys = l->kv_lens[n];
    keys_by = "by kv_lens";
  }
  if (!status && l->kv_starts) {
    status = attn_check_entry(prefix, "kv_starts", n, l->kv_starts[n], 0, keys, keys_by);
  }
  return status;
}

static attn_status check_lengths(const attn_problem *problem, const char *prefix) {
  const attn_params *p = &problem->params;
  const attn_lengths *l = &p->lengths;
  if (!problem->ragged) return ATTN_OK;
  attn_status status =
      check_offsets(prefix, "cu_seqlens_q", l->cu_seqlens_q, p->batch, "q_len", p->q_len);
  if (!status) {
    status = check_offsets(prefix, "cu_seqlens_k", l->cu_seqlens_k, p->batch, "kv_len", p->kv_len);
  }
  for (int64_t n = 0; n < p->batch && !status; n++) status = check_sequence(p, prefix, n);
  return status;
}

/* The page of every key that is there. */
static attn_status check_table(const attn_problem *problem, int64_t n) {
  const attn_pages *g = &problem->params.pages;
  const attn_sequence s = attn_problem_sequence(problem, n);
  const int64_t keys = s.kv_len - s.kv_begin;
  if (keys == 0) return ATTN_OK;
  if (keys > g->table_width * g->page_size ||
      (s.kv_begin == 0 && s.kv_row + keys > g->table_width * g->page_size)) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "keys of sequence %" PRId64 ": %" PRId64 ", from slot %" PRId64
                     "; pages.table_width %" PRId64 " * pages.page_size %" PRId64 " holds %" PRId64,
                     n, keys, s.kv_row + s.kv_begin, g->table_width, g->page_size,
                     g->table_width * g->page_size);
  }
  if (g->num_pages == 0) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "pages.num_pages is 0; keys of sequence %" PRId64
                     ", which must lie in pages: %" PRId64,
                     n, keys);
  }
  const int32_t *row = g->table + n * g->table_stride;
  const int64_t first = (s.kv_row + s.kv_begin) / g->page_size;
  const int64_t last = (s.kv_row + s.kv_len - 1) / g->page_size;
  for (int64_t i = first; i <= last; i++) {
    const int64_t at = i % g->table_width;
    if (row[at] >= 0 && row[at] < g->num_pages) continue;
    char table[64];
    snprintf(table, sizeof(table), "pages.table[%" PRId64 "]", n);
    return attn_check_entry(table, "", at, row[at], 0, g->num_pages - 1, "pages.num_pages - 1");
  }
  return ATTN_OK;
}

attn_status attn_check_key_layout(attn_key_layout layout, const char *page_size_name,
                                  int64_t page_size) {
  if (layout == ATTN_KEYS_IN_ROWS) return ATTN_OK;
  if (layout != ATTN_KEYS_INTERLEAVED) {
    return attn_fail(
        ATTN_INVALID_ARGUMENT,
        "key_layout is %d; allowed: ATTN_KEYS_IN_ROWS (%d), ATTN_KEYS_INTERLEAVED (%d)",
        (int)layout, ATTN_KEYS_IN_ROWS, ATTN_KEYS_INTERLEAVED);
  }
  if (!page_size_name) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "key_layout is ATTN_KEYS_INTERLEAVED, but pages.table is NULL; allowed "
                     "without pages: ATTN_KEYS_IN_ROWS");
  }
  if (page_size % ATTN_KEY_GROUP == 0) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s is %" PRId64 "; with ATTN_KEYS_INTERLEAVED it must be a multiple of %d",
                   page_size_name, page_size, ATTN_KEY_GROUP);
}

static attn_status check_pages(const attn_problem *problem) {
  const attn_params *p = &problem->params;
  const attn_pages *g = &p->pages;
  if (!g->table) return attn_check_key_layout(p->key_layout, NULL, 0);
  if (p->lengths.cu_seqlens_k) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "lengths.cu_seqlens_k and pages.table are both given; allowed: one of them, "
                     "keys lie packed or in pages");
  }
  attn_status status =
      attn_check_range("pages.table_width", g->table_width, 1, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("pages.page_size", g->page_size, 1, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("pages.num_pages", g->num_pages, 0, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_key_layout(p->key_layout, "pages.page_size", g->page_size);
  for (int64_t n = 0; n < p->batch && !status; n++) status = check_table(problem, n);
  return status;
}

static attn_status check_shape(const attn_params *params, const char *lengths_prefix,
                               attn_problem *problem) {
  const attn_params initial = ATTN_PARAMS_INIT;
  attn_params *p = &problem->params;
  *p = initial;
  attn_status status = attn_copy_params("params", p, sizeof(*p), params);
  if (!status) status = attn_check_range("reserved", p->reserved, 0, 0, "for later versions");
  if (!status) status = attn_check_heads(p->q_heads, p->kv_heads);
  if (!status) status = attn_check_range("batch", p->batch, 0, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("q_len", p->q_len, 0, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("kv_len", p->kv_len, 0, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("head_size", p->head_size, 1, ATTN_MAX_HEAD_SIZE, NULL);
  if (!status) status = attn_check_range("value_size", p->value_size, 1, ATTN_MAX_HEAD_SIZE, NULL);
  if (!status) status = check_rows(p);
  if (!status) status = attn_check_scale(p->has_scale, p->scale);
  if (!status) status = attn_check_dropout(&p->dropout);
  if (!status) status = attn_check_threads(p->has_num_threads, p->num_threads, &p->num_threads);
  if (status) return status;
  p->has_num_threads = true;
  resolve(problem);
  status = check_lengths(problem, lengths_prefix);
  if (!status) status = check_pages(problem);
  if (!status) measure(problem);
  return status;
}

attn_status attn_problem_shape(const attn_params *params, const char *lengths_prefix,
                               attn_problem *problem) {
  const attn_fpmode mode = attn_fpmode_enter();
  const attn_status status = check_shape(params, lengths_prefix, problem);
  attn_fpmode_leave(mode);
  return status;
}

static attn_status check_pointer(const char *name, const void *data, bool read) {
  if (data || !read) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT, "%s.data is NULL; it must point to the array", name);
}

/* Outputs whose elements share an address cannot be right: a stride of 0 over more than one. */
static attn_status check_output(const char *name, int64_t stride, int64_t extent) {
  if (stride != 0 || extent <= 1) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s is 0 over %" PRId64 " elements; outputs must not overlap", name, extent);
}

attn_status attn_problem_init(const attn_params *params, attn_problem *problem) {
  attn_status status = attn_problem_shape(params, "lengths.", problem);
  if (status) return status;
  const attn_params *p = &problem->params;
  if (p->batch == 0 || p->q_len == 0) return ATTN_OK;
  const bool keys = p->kv_len > 0;
  const int64_t batch = p->lengths.cu_seqlens_q ? 1 : p->batch; /* whose stride is used */
  status = check_pointer("q", p->q.data, keys);
  if (!status) status = check_pointer("k", p->k.data, keys);
  if (!status) status = check_pointer("v", p->v.data, keys);
  if (!status) status = check_pointer("o", p->o.data, true);
  if (!status) status = check_output("o.batch_stride", p->o.batch_stride, batch);
  if (!status) status = check_output("o.head_stride", p->o.head_stride, p->q_heads);
  if (!status) status = check_output("o.row_stride", p->o.row_stride, p->q_len);
  if (!status) status = check_output("o.dim_stride", p->o.dim_stride, p->value_size);
  if (!status && p->lse.data) {
    status = check_output("lse.batch_stride", p->lse.batch_stride, batch);
    if (!status) status = check_output("lse.head_stride", p->lse.head_stride, p->q_heads);
    if (!status) status = check_output("lse.row_stride", p->lse.row_stride, p->q_len);
  }
  return status;
}
