/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* A float result of these sizes is off by 1 to 5 FLT_EPSILON of the row's root mean square; what a
 * dropped key, a wrong head or a narrower product leaves is larger by orders. */
static const double tolerance = 16 * (double)FLT_EPSILON;

static bool row_is_right(const double *right, const float *row, int64_t n) {
  double error = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    double difference = (double)row[i] - right[i];
    error += difference * difference;
    size += right[i] * right[i];
  }
  return sqrt(error) <= tolerance * sqrt(size); /* false for NaN */
}

static void softmax(double *s, int64_t n) {
  double max = s[0], sum = 0;
  for (int64_t j = 1; j < n; j++) max = s[j] > max ? s[j] : max;
  for (int64_t j = 0; j < n; j++) sum += s[j] = exp(s[j] - max);
  for (int64_t j = 0; j < n; j++) s[j] /= sum;
}

/* Where a row of v is, in floats from the first; of k too, where it lies in rows. */
static int64_t row_offset(const perf_workload *w, const int32_t *table, int64_t n, int64_t kv_head,
                          int64_t key) {
  if (w->kind != PERF_CACHED) return ((n * w->kv_len + key) * w->kv_heads + kv_head) * w->head_size;
  int64_t size = perf_page_size(w), width = (w->kv_len + size - 1) / size;
  int64_t page = table[n * width + key / size]; /* (kv_head, slot, dim) */
  return ((page * w->kv_heads + kv_head) * size + key % size) * w->head_size;
}

/* The same of dim 0 of a key, and how far the next dim is. */
static int64_t key_offset(const perf_workload *w, const int32_t *table, int64_t n, int64_t kv_head,
                          int64_t key, int64_t *dim) {
  const bool interleaved = w->kind == PERF_CACHED && !w->keys_in_rows;
  *dim = interleaved ? 16 : 1;
  const int64_t in_group = key % *dim;
  return row_offset(w, table, n, kv_head, key - in_group) + in_group;
}

/* Row `row`, the last of sequence n. */
static bool attention_head_is_right(const perf_workload *w, const perf_arrays *a, int64_t n,
                                    int64_t row, int64_t head, double *s) {
  int64_t d = w->head_size, keys = perf_sequence_of(w, n).kv_len;
  int64_t kv_head = head / (w->heads / w->kv_heads), last = (row * w->heads + head) * d;
  double *right = s + w->kv_len;
  for (int64_t j = 0; j < keys; j++) {
    int64_t dim;
    const float *key = a->k + key_offset(w, a->table, n, kv_head, j, &dim);
    s[j] = 0;
    for (int64_t i = 0; i < d; i++) s[j] += (double)a->q[last + i] * (double)key[i * dim];
    s[j] /= sqrt((double)d);
  }
  softmax(s, keys);
  for (int64_t i = 0; i < d; i++) right[i] = 0;
  for (int64_t j = 0; j < keys; j++) {
    const float *value = a->v + row_offset(w, a->table, n, kv_head, j);
    for (int64_t i = 0; i < d; i++) right[i] += s[j] * (double)value[i];
  }
  return row_is_right(right, a->o + last, d);
}

bool perf_check_attention(const perf_workload *w, const perf_arrays *arrays) {
  double *s = malloc(sizeof(double) * (size_t)(w->kv_len + w->head_size));
  bool good = s != NULL;
  int64_t rows = 0;
  for (int64_t n = 0; n < w->batch; n++) {
    rows += perf_sequence_of(w, n).q_len;
    for (int64_t head = 0; good && head < w->heads; head++)
      good = attention_head_is_right(w, arrays, n, rows - 1, head, s);
  }
  free(s);
  return good;
}

/* out[n] = bias[n] + sum_i in[i] w[i][n] */
static void project(const double *in, int64_t depth, const float *w, int64_t w_row,
                    const float *bias, int64_t columns, double *out) {
  for (int64_t n = 0; n < columns; n++) out[n] = (double)bias[n];
  for (int64_t i = 0; i < depth; i++)
    for (int64_t n = 0; n < columns; n++) out[n] += in[i] * (double)w[i * w_row + n];
}

/* Mixed values of one head for the last row of x. The projections of all the keys are never formed:
 * q . (x_j Wk + bk) = x_j . (Wk q) + bk . q, and sum_j p_j (x_j Wv + bv) = (sum_j p_j x_j) Wv + bv,
 * where the constant bk . q leaves the softmax as it is. */
static void layer_head(const perf_workload *w, const perf_layer_weights *weights, int64_t head,
                       const float *x, double *scratch, double *mixed) {
  int64_t d = w->d_model, dh = w->head_size, row = 3 * d, column = head * dh;
  double *last = scratch, *q = last + d, *folded = q + dh, *s = folded + d;
  const float *wk = weights->qkv + d + column;
  for (int64_t i = 0; i < d; i++) last[i] = (double)x[(w->kv_len - 1) * d + i];
  project(last, d, weights->qkv + column, row, weights->qkv_bias + column, dh, q);
  for (int64_t i = 0; i < d; i++) {
    folded[i] = 0;
    for (int64_t n = 0; n < dh; n++) folded[i] += (double)wk[i * row + n] * q[n];
  }
  for (int64_t j = 0; j < w->kv_len; j++) {
    s[j] = 0;
    for (int64_t i = 0; i < d; i++) s[j] += (double)x[j * d + i] * folded[i];
    s[j] /= sqrt((double)dh);
  }
  softmax(s, w->kv_len);
  for (int64_t i = 0; i < d; i++) folded[i] = 0;
  for (int64_t j = 0; j < w->kv_len; j++)
    for (int64_t i = 0; i < d; i++) folded[i] += s[j] * (double)x[j * d + i];
  project(folded, d, weights->qkv + 2 * d + column, row, weights->qkv_bias + 2 * d + column, dh,
          mixed);
}

bool perf_check_layer(const perf_workload *w, const perf_layer_weights *weights, const float *x,
                      const float *y) {
  int64_t d = w->d_model;
  double *mixed = malloc(sizeof(double) * (size_t)(4 * d + w->head_size + w->kv_len));
  if (!mixed) return false;
  double *right = mixed + d, *scratch = right + d;
  const float *sequence = x + (w->batch - 1) * w->kv_len * d;
  for (int64_t head = 0; head < w->heads; head++)
    layer_head(w, weights, head, sequence, scratch, mixed + head * w->head_size);
  project(mixed, d, weights->out, d, weights->out_bias, d, right);
  bool good = row_is_right(right, y + (w->batch * w->q_len - 1) * d, d);
  free(mixed);
  return good;
}
