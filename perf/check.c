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

static bool attention_head_is_right(const perf_workload *w, int64_t head, const float *q,
                                    const float *k, const float *v, const float *o, double *s,
                                    double *right) {
  int64_t d = w->head_size, kv_row = w->kv_heads * d;
  int64_t kv_head = head / (w->heads / w->kv_heads);
  int64_t last = ((w->batch * w->q_len - 1) * w->heads + head) * d;
  const float *k0 = k + ((w->batch - 1) * w->kv_len * w->kv_heads + kv_head) * d;
  const float *v0 = v + ((w->batch - 1) * w->kv_len * w->kv_heads + kv_head) * d;
  for (int64_t j = 0; j < w->kv_len; j++) {
    s[j] = 0;
    for (int64_t i = 0; i < d; i++) s[j] += (double)q[last + i] * (double)k0[j * kv_row + i];
    s[j] /= sqrt((double)d);
  }
  softmax(s, w->kv_len);
  for (int64_t i = 0; i < d; i++) right[i] = 0;
  for (int64_t j = 0; j < w->kv_len; j++)
    for (int64_t i = 0; i < d; i++) right[i] += s[j] * (double)v0[j * kv_row + i];
  return row_is_right(right, o + last, d);
}

bool perf_check_attention(const perf_workload *w, const float *q, const float *k, const float *v,
                          const float *o) {
  double *s = malloc(sizeof(double) * (size_t)(w->kv_len + w->head_size));
  bool good = s != NULL;
  for (int64_t head = 0; good && head < w->heads; head++)
    good = attention_head_is_right(w, head, q, k, v, o, s, s + w->kv_len);
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
