/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "ragged.h"

#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the sequences ---- */

int64_t ragged_rows(const ragged *r) {
  int64_t rows = 0;
  for (int64_t n = 0; n < r->batch; n++) rows += r->q_heads * r->q_len[n];
  return rows;
}

int64_t ragged_row(const ragged *r, int64_t n, int64_t head, int64_t row) {
  int64_t before = 0;
  for (int64_t m = 0; m < n; m++) before += r->q_heads * r->q_len[m];
  return before + head * r->q_len[n] + row;
}

double ragged_cost(const ragged *r) {
  double pairs = 0, keys = 0;
  for (int64_t n = 0; n < r->batch; n++) {
    pairs += (double)r->q_len[n] * (double)(r->kv_len[n] - r->kv_begin[n]);
    keys += (double)r->kv_len[n];
  }
  return (pairs * (double)r->q_heads + 4 * keys * (double)r->kv_heads) *
         (double)(r->head_size + r->value_size);
}

/* Element d of a row; `which` tells q, k and v apart. */
static float value(const ragged *r, int which, int64_t n, int64_t head, int64_t row, int64_t d) {
  const uint64_t place =
      (((uint64_t)n << 8 | (uint64_t)head) << 24 | (uint64_t)row) << 12 | (uint64_t)d;
  return sm(r->seed + (uint64_t)which, place);
}

static bool kept(const ragged *r, int64_t n, int64_t head, int64_t row, int64_t key) {
  return (double)value(r, 3, n, head, row, 0) * (double)value(r, 4, n, head, key, 0) <
         0.9 - 1.8 * r->rate;
}

part part_all(const ragged *r) {
  part p = {.count = r->batch};
  for (int64_t n = 0; n < r->batch; n++) {
    p.n[n] = n;
    p.end[n] = r->q_len[n];
  }
  return p;
}

int64_t pick(draws *d, int64_t bound) {
  return d->seed ? (int64_t)sm_below(d->seed, &d->count, (uint64_t)bound) : 0;
}

/* ---- memory ---- */

static guarded *reserve(laid *l, size_t bytes, draws *d) {
  guarded *g = &l->memory[l->count++];
  *g = guard_alloc(bytes, pick(d, 2) ? GUARD_BEFORE : GUARD_AFTER);
  return g;
}

static int32_t *ints(laid *l, int64_t count, draws *d) {
  return reserve(l, (size_t)count * sizeof(int32_t), d)->data;
}

/* (batch, head, row, dim) in some order, perhaps with gaps; `extent` floats from first to last. */
typedef struct array {
  int64_t batch, head, row, dim, extent;
} array;

static array strides(int64_t batches, int64_t heads, int64_t rows, int64_t dims, draws *d) {
  array a = {.dim = pick(d, 6) == 1 ? 2 : 1};
  const int64_t row = dims * a.dim + (pick(d, 4) == 1 ? 3 : 0);
  if (pick(d, 2)) { /* rows first */
    a.head = row;
    a.row = heads * row;
  } else {
    a.row = row;
    a.head = rows * row;
  }
  a.batch = heads * rows * row + (pick(d, 4) == 1 ? 5 : 0);
  if (batches > 0 && heads > 0 && rows > 0)
    a.extent = (batches - 1) * a.batch + (heads - 1) * a.head + (rows - 1) * a.row +
               (dims - 1) * a.dim + 1;
  return a;
}

static guarded *array_new(laid *l, const array *a, draws *d) {
  guarded *g = reserve(l, (size_t)a->extent * sizeof(float), d);
  canary_fill(g->data, (size_t)a->extent);
  return g;
}

static attn_input input_of(const guarded *g, const array *a) {
  return (attn_input){g->data, a->batch, a->head, a->row, a->dim};
}

/* ---- queries and results ---- */

static int64_t rows_of(const part *p, int64_t s) { return p->end[s] - p->begin[s]; }

/* Room behind what a sequence has, for most layouts none. */
static int64_t slack(draws *d) { return pick(d, 3) == 1 ? 1 + pick(d, 5) : 0; }

static void lay_query_rooms(laid *l, draws *d) {
  attn_params *a = &l->params;
  const part *p = &l->p;
  const bool packed = pick(d, 2), roomy = pick(d, 3) == 1;
  bool all = true;
  int32_t *cu = packed ? ints(l, p->count + 1, d) : NULL;
  if (packed) {
    cu[0] = 0;
    for (int64_t s = 0; s < p->count; s++)
      cu[s + 1] = cu[s] + (int32_t)(rows_of(p, s) + (roomy ? slack(d) : 0));
    a->q_len = cu[p->count];
    all = !roomy;
  } else {
    for (int64_t s = 0; s < p->count; s++)
      if (rows_of(p, s) > a->q_len) a->q_len = rows_of(p, s);
    if (roomy) a->q_len += slack(d);
    for (int64_t s = 0; s < p->count; s++) all &= rows_of(p, s) == a->q_len;
  }
  a->lengths.cu_seqlens_q = cu;
  if (all && !pick(d, 3)) return;
  int32_t *lens = ints(l, p->count, d);
  for (int64_t s = 0; s < p->count; s++) lens[s] = (int32_t)rows_of(p, s);
  a->lengths.q_lens = lens;
}

/* Row 0 of sequence s of the part. */
static float *row_at(const laid *l, const void *data, int64_t batch_stride, int64_t row_stride,
                     int64_t s) {
  const int32_t *cu = l->params.lengths.cu_seqlens_q;
  return (float *)(uintptr_t)data + (cu ? cu[s] * row_stride : s * batch_stride);
}

static void fill_queries(laid *l) {
  const attn_input *q = &l->params.q;
  for (int64_t s = 0; s < l->p.count; s++)
    for (int64_t h = 0; h < l->r->q_heads; h++)
      for (int64_t i = l->p.begin[s]; i < l->p.end[s]; i++)
        for (int64_t d = 0; d < l->r->head_size; d++)
          row_at(l, q->data, q->batch_stride, q->row_stride,
                 s)[h * q->head_stride + (i - l->p.begin[s]) * q->row_stride + d * q->dim_stride] =
              2 * value(l->r, 0, l->p.n[s], h, i, d);
}

static void lay_rows(laid *l, draws *d) {
  attn_params *a = &l->params;
  lay_query_rooms(l, d);
  const int64_t batches = a->lengths.cu_seqlens_q ? 1 : a->batch;
  array x = strides(batches, a->q_heads, a->q_len, a->head_size, d);
  guarded *q = array_new(l, &x, d);
  a->q = input_of(q, &x);
  fill_queries(l);
  l->o = q;
  if (a->head_size != a->value_size || pick(d, 3) != 1) {
    x = strides(batches, a->q_heads, a->q_len, a->value_size, d);
    l->o = array_new(l, &x, d);
  }
  a->o = (attn_output){l->o->data, x.batch, x.head, x.row, x.dim};
  x = strides(batches, a->q_heads, a->q_len, 1, d);
  l->lse = array_new(l, &x, d);
  a->lse = (attn_lse_output){l->lse->data, x.batch, x.head, x.row};
}

/* ---- keys and values ---- */

static int64_t slots(const laid *l, int64_t s) { return l->pad[s] + l->keys[s]; }

static int64_t most_slots(const laid *l) {
  int64_t most = 0;
  for (int64_t s = 0; s < l->p.count; s++)
    if (slots(l, s) > most) most = slots(l, s);
  return most;
}

/* One array of lengths, where one is needed, or perhaps where not. */
static const int32_t *length_array(laid *l, const int64_t *of, bool needed, draws *d) {
  if (!needed && pick(d, 4) != 1) return NULL;
  int32_t *a = ints(l, l->p.count, d);
  for (int64_t s = 0; s < l->p.count; s++) a[s] = (int32_t)of[s];
  return a;
}

/* Element 0 of key j of sequence s, and how far the next one is. */
static float *key_at(const laid *l, const attn_input *view, int64_t s, int64_t j, int64_t *dim) {
  const attn_lengths *lengths = &l->params.lengths;
  const attn_pages *g = &l->params.pages;
  int64_t batch = lengths->cu_seqlens_k ? 0 : s, slot = l->pad[s] + j;
  if (lengths->cu_seqlens_k) slot += lengths->cu_seqlens_k[s];
  if (g->table) {
    batch = g->table[s * g->table_stride + slot / g->page_size % g->table_width];
    slot %= g->page_size;
  }
  int64_t at = slot * view->row_stride;
  *dim = view->dim_stride;
  if (view == &l->params.k && l->params.key_layout == ATTN_KEYS_INTERLEAVED) {
    at = slot / 16 * 16 * l->r->head_size + slot % 16;
    *dim = 16;
  }
  return (float *)(uintptr_t)view->data + batch * view->batch_stride + at;
}

static void fill_keys(laid *l, const attn_input *view, int which, int64_t dims) {
  for (int64_t s = 0; s < l->p.count; s++)
    for (int64_t j = l->kv_begin[s]; j < l->keys[s]; j++) {
      int64_t dim;
      float *key = key_at(l, view, s, j, &dim);
      const int64_t n = j < l->r->prefix ? 0 : l->p.n[s];
      for (int64_t g = 0; g < l->r->kv_heads; g++)
        for (int64_t d = 0; d < dims; d++)
          key[g * view->head_stride + d * dim] = value(l->r, which, n, g, j, d);
    }
}

static void key_arrays(laid *l, int64_t batches, int64_t rows, draws *d) {
  attn_params *a = &l->params;
  array x = strides(batches, a->kv_heads, rows, a->head_size, d);
  if (a->key_layout == ATTN_KEYS_INTERLEAVED) { /* of a page and head, all in one */
    x = strides(batches, a->kv_heads, 1, rows * a->head_size, &(draws){0});
    x.row = x.dim = -1; /* not used */
  }
  a->k = input_of(array_new(l, &x, d), &x);
  x = strides(batches, a->kv_heads, rows, a->value_size, d);
  a->v = input_of(array_new(l, &x, d), &x);
  fill_keys(l, &a->k, 1, a->head_size);
  fill_keys(l, &a->v, 2, a->value_size);
}

static void lay_rooms(laid *l, draws *d) {
  attn_params *a = &l->params;
  const bool packed = pick(d, 2), roomy = pick(d, 3) == 1;
  int32_t *cu = packed ? ints(l, l->p.count + 1, d) : NULL;
  if (packed) {
    cu[0] = 0;
    for (int64_t s = 0; s < l->p.count; s++)
      cu[s + 1] = cu[s] + (int32_t)(slots(l, s) + (roomy ? slack(d) : 0));
    a->kv_len = cu[l->p.count];
  } else {
    a->kv_len = most_slots(l) + (roomy ? slack(d) : 0);
  }
  bool whole = !packed || !roomy;
  for (int64_t s = 0; s < l->p.count && !packed; s++) whole &= slots(l, s) == a->kv_len;
  a->lengths.cu_seqlens_k = cu;
  a->lengths.kv_lens = length_array(l, l->keys, !whole, d);
  key_arrays(l, packed ? 1 : a->batch, a->kv_len, d);
}

/* A page that sequence 0 has, with the same keys in the same slots, and nothing else. */
static bool shared_page(const laid *l, int64_t s, int64_t page) {
  const int64_t size = l->params.pages.page_size, width = l->params.pages.table_width;
  const int64_t first = page * size - l->pad[s], end = first + size;
  return s > 0 && l->pad[s] == l->pad[0] && end <= l->r->prefix && end <= l->keys[0] &&
         end <= l->keys[s] && l->kv_begin[0] <= (first > 0 ? first : 0) &&
         slots(l, 0) <= width * size && slots(l, s) <= width * size;
}

/* Page numbers in the order in which they are needed; -1 where none is. */
static int32_t number_pages(const laid *l, int32_t *table) {
  const attn_pages *g = &l->params.pages;
  int32_t used = 0;
  for (int64_t i = 0; i < l->p.count * g->table_stride; i++) table[i] = -1;
  for (int64_t s = 0; s < l->p.count; s++) {
    int32_t *row = table + s * g->table_stride;
    if (l->keys[s] == l->kv_begin[s]) continue;
    const int64_t last = (slots(l, s) - 1) / g->page_size;
    for (int64_t i = (l->pad[s] + l->kv_begin[s]) / g->page_size; i <= last; i++) {
      const int64_t at = i % g->table_width; /* has a page already when a ring comes round */
      if (row[at] < 0) row[at] = shared_page(l, s, i) ? table[at] : used++;
    }
  }
  return used;
}

/* Pages in any order; entries that nobody needs name none, and are not looked at. */
static int32_t *make_table(laid *l, draws *d) {
  static const int32_t junk[] = {-1, INT32_MIN, INT32_MAX, 1 << 20};
  attn_pages *g = &l->params.pages;
  const int64_t entries = l->p.count * g->table_stride;
  int32_t *table = ints(l, entries, d);
  g->num_pages = number_pages(l, table) + pick(d, 4);
  int32_t *order = check_alloc((size_t)g->num_pages * sizeof(*order));
  for (int32_t i = 0; i < g->num_pages; i++) {
    const int64_t other = pick(d, i + 1);
    order[i] = order[other];
    order[other] = i;
  }
  for (int64_t i = 0; i < entries; i++) {
    const bool needed = table[i] >= 0;
    table[i] = needed ? order[table[i]] : junk[pick(d, 4)];
    if (!needed) guard_poison(&table[i], sizeof(table[i]));
  }
  free(order);
  return table;
}

static void lay_pages(laid *l, draws *d) {
  static const int64_t sizes[] = {16, 1, 2, 3, 7, 48, 128, 1000, 32};
  attn_params *a = &l->params;
  attn_pages *g = &a->pages;
  const bool rings = pick(d, 2);
  g->page_size = sizes[pick(d, 9)];
  if (g->page_size % 16 == 0 && pick(d, 2)) a->key_layout = ATTN_KEYS_INTERLEAVED;
  g->table_width = 1;
  for (int64_t s = 0; s < l->p.count; s++) {
    const int64_t held = l->kv_begin[s] > 0 && rings ? l->keys[s] - l->kv_begin[s] : slots(l, s);
    const int64_t width = (held + g->page_size - 1) / g->page_size;
    if (width > g->table_width) g->table_width = width;
  }
  g->table_width += pick(d, 2);
  g->table_stride = g->table_width + pick(d, 3);
  g->table = make_table(l, d);
  a->kv_len = most_slots(l) + pick(d, 3);
  bool whole = true;
  for (int64_t s = 0; s < l->p.count; s++) whole &= slots(l, s) == a->kv_len;
  a->lengths.kv_lens = length_array(l, l->keys, !whole, d);
  key_arrays(l, g->num_pages, g->page_size, d);
}

/* The keys that there are when the part's last row is the sequence's last. */
static void lay_keys(laid *l, draws *d) {
  bool padded = false, begun = false;
  const bool pad = pick(d, 4) == 1, pages = pick(d, 2);
  for (int64_t s = 0; s < l->p.count; s++) {
    const int64_t n = l->p.n[s], later = l->r->q_len[n] - l->p.end[s];
    int64_t keys = l->r->kv_len[n] - (l->r->causal ? later : 0);
    keys = keys < 0 ? 0 : keys;
    l->keys[s] = keys;
    l->kv_begin[s] = l->r->kv_begin[n] < keys ? l->r->kv_begin[n] : keys;
    l->pad[s] = pad ? pick(d, 3) * pick(d, 70) : 0;
    padded |= l->pad[s] > 0;
    begun |= l->kv_begin[s] > 0;
  }
  l->params.lengths.left_padding = length_array(l, l->pad, padded, d);
  l->params.lengths.kv_starts = length_array(l, l->kv_begin, begun, d);
  if (pages)
    lay_pages(l, d);
  else
    lay_rooms(l, d);
}

/* ---- all of it ---- */

static void lay_mask(laid *l, draws *d) {
  attn_dropout *dropout = &l->params.dropout;
  dropout->deterministic = false;
  dropout->rate = l->r->rate;
  dropout->seed = l->r->seed;
  if (!l->r->recorded) return;
  int64_t rows = 0;
  for (int64_t s = 0; s < l->p.count; s++)
    if (rows_of(&l->p, s) > rows) rows = rows_of(&l->p, s);
  const int64_t keys = most_slots(l), heads = l->r->q_heads;
  uint8_t *keep = reserve(l, (size_t)(l->p.count * heads * rows * keys), d)->data;
  dropout->keep = (attn_keep_mask){keep, heads * rows * keys, rows * keys, keys, 1};
  for (int64_t s = 0; s < l->p.count; s++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < rows_of(&l->p, s); i++)
        for (int64_t j = 0; j < l->keys[s]; j++)
          keep[((s * heads + h) * rows + i) * keys + j] =
              kept(l->r, l->p.n[s], h, l->p.begin[s] + i, j);
}

static void describe(laid *l) {
  const attn_lengths *a = &l->params.lengths;
  const attn_pages *g = &l->params.pages;
  snprintf(l->text, sizeof(l->text), "%lld of%s%s%s%s%s%s%s%s pages %lld x %lld of %lld%s",
           (long long)l->p.count, a->cu_seqlens_q ? " cu_q" : "", a->cu_seqlens_k ? " cu_k" : "",
           a->q_lens ? " q_lens" : "", a->kv_lens ? " kv_lens" : "",
           a->left_padding ? " left_padding" : "", a->kv_starts ? " kv_starts" : "",
           l->params.key_layout ? " interleaved" : "", g->table ? "" : " no",
           (long long)g->table_width, (long long)g->page_size, (long long)g->num_pages,
           l->params.o.data == l->params.q.data ? " in place" : "");
}

void laid_make(laid *l, const ragged *r, const part *p, draws *d) {
  memset(l, 0, sizeof(*l));
  l->r = r;
  l->p = *p;
  attn_params *a = &l->params;
  *a = (attn_params)ATTN_PARAMS_INIT;
  a->batch = p->count;
  a->q_heads = r->q_heads;
  a->kv_heads = r->kv_heads;
  a->head_size = r->head_size;
  a->value_size = r->value_size;
  a->causal = r->causal;
  a->has_scale = r->has_scale;
  a->scale = r->scale;
  lay_rows(l, d);
  lay_keys(l, d);
  if (r->rate > 0) lay_mask(l, d);
  describe(l);
}

void laid_take(laid *l, float *o, float *lse) {
  const attn_output *out = &l->params.o;
  const attn_lse_output *sum = &l->params.lse;
  const int64_t dims = l->r->value_size;
  for (int64_t s = 0; s < l->p.count; s++)
    for (int64_t h = 0; h < l->r->q_heads; h++)
      for (int64_t i = l->p.begin[s]; i < l->p.end[s]; i++) {
        const int64_t row = ragged_row(l->r, l->p.n[s], h, i), near = i - l->p.begin[s];
        float *from = row_at(l, out->data, out->batch_stride, out->row_stride, s) +
                      h * out->head_stride + near * out->row_stride;
        for (int64_t d = 0; d < dims; d++) {
          o[row * dims + d] = from[d * out->dim_stride];
          canary_fill(&from[d * out->dim_stride], 1);
        }
        from = row_at(l, sum->data, sum->batch_stride, sum->row_stride, s) + h * sum->head_stride +
               near * sum->row_stride;
        lse[row] = *from;
        canary_fill(from, 1);
      }
  CHECK(canary_intact(l->o->data, l->o->size / sizeof(float)));
  CHECK(canary_intact(l->lse->data, l->lse->size / sizeof(float)));
  for (int i = 0; i < l->count; i++) CHECK(guard_intact(&l->memory[i]));
}

void laid_free(laid *l) {
  for (int i = 0; i < l->count; i++) guard_free(&l->memory[i]);
  l->count = 0;
}
