/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "oracle.h"

#include "check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A dense (batch, head, row, dim) array with the variance of its errors, in units of eps^2. */
typedef struct dense {
  int64_t heads, rows, dims;
  double *value;
  double *variance; /* NULL: exact */
} dense;

static int64_t at(const dense *a, int64_t b, int64_t h, int64_t i, int64_t d) {
  return ((b * a->heads + h) * a->rows + i) * a->dims + d;
}

static double *doubles(int64_t count) {
  double *p = check_alloc((size_t)count * sizeof(double));
  memset(p, 0, (size_t)count * sizeof(double));
  return p;
}

static dense from_view(const attn_input *view, int64_t batch, int64_t heads, int64_t rows,
                       int64_t dims) {
  dense a = {heads, rows, dims, doubles(batch * heads * rows * dims), NULL};
  const float *data = view->data;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < dims; d++)
          a.value[at(&a, b, h, i, d)] =
              (double)data[b * view->batch_stride + h * view->head_stride + i * view->row_stride +
                           d * view->dim_stride];
  return a;
}

static void free_dense(dense *a) {
  free(a->value);
  free(a->variance);
}

typedef struct core {
  dense q, k, v;
  int64_t batch;
  double scale;
  bool causal, exact_scores;
  double rate;
  attn_keep_mask keep;
} core;

/* s_j = scale q.k_j and the variance of its error. */
static double score(const core *c, int64_t b, int64_t h, int64_t i, int64_t g, int64_t j,
                    double *variance) {
  double dot = 0, var = 0;
  for (int64_t d = 0; d < c->q.dims; d++) {
    int64_t iq = at(&c->q, b, h, i, d), ik = at(&c->k, b, g, j, d);
    double q = c->q.value[iq], k = c->k.value[ik];
    dot += q * k;
    double q_var = c->q.variance ? c->q.variance[iq] : 0;
    double k_var = c->k.variance ? c->k.variance[ik] : 0;
    var += (q * q + q_var) * k * k + q * q * k_var;
  }
  double s = c->scale * dot;
  *variance = c->exact_scores ? 0 : c->scale * c->scale * var + s * s;
  return s;
}

/* What the weight of a key is multiplied by. */
static double gain(const core *c, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!c->keep.data) return 1;
  const attn_keep_mask *m = &c->keep;
  bool kept =
      m->data[b * m->batch_stride + h * m->head_stride + i * m->row_stride + j * m->key_stride] !=
      0;
  return kept ? 1 / (1 - c->rate) : 0;
}

/* One query row: o[0 .. value dims), the variance of its error, lse and its unit. w, s_var hold kv_len. */
static void attend(const core *c, int64_t b, int64_t h, int64_t i, double *w, double *s_var,
                   double *o, double *o_var, double *lse, double *lse_unit) {
  int64_t kv_len = c->k.rows, dims = c->v.dims, g = h / (c->q.heads / c->k.heads);
  int64_t position = i + kv_len - c->q.rows;
  int64_t visible = !c->causal ? kv_len : position < 0 ? 0 : position + 1;
  for (int64_t d = 0; d < dims; d++) o[d] = o_var[d] = 0;
  *lse = -INFINITY;
  *lse_unit = 1;
  if (visible == 0) return;

  double max = -INFINITY;
  for (int64_t j = 0; j < visible; j++) {
    w[j] = score(c, b, h, i, g, j, &s_var[j]);
    if (!(w[j] <= max)) max = w[j]; /* a NaN stays */
    if (isnan(max)) break;
  }
  if (isnan(max) || isinf(max)) {
    for (int64_t d = 0; d < dims; d++) o[d] = NAN;
    *lse = NAN;
    return;
  }
  double sum = 0;
  for (int64_t j = 0; j < visible; j++) sum += w[j] = exp(w[j] - max);
  *lse = max + log(sum);
  double noise = 0;
  for (int64_t j = 0; j < visible; j++) {
    w[j] /= sum;
    noise += w[j] * w[j] * (1 + s_var[j]);
    double kept = gain(c, b, h, i, j);
    if (kept == 0) continue;
    for (int64_t d = 0; d < dims; d++) o[d] += w[j] * kept * c->v.value[at(&c->v, b, g, j, d)];
  }
  *lse_unit = 1 + fabs(*lse) + sqrt(noise);
  for (int64_t j = 0; j < visible; j++) {
    double kept = gain(c, b, h, i, j);
    for (int64_t d = 0; d < dims; d++) {
      int64_t iv = at(&c->v, b, g, j, d);
      double v = kept == 0 ? 0 : kept * c->v.value[iv];
      double v_var = c->v.variance ? kept * kept * c->v.variance[iv] : v * v;
      o_var[d] += w[j] * w[j] * (v_var + (1 + s_var[j]) * (v - o[d]) * (v - o[d]));
    }
  }
  for (int64_t d = 0; d < dims; d++) o_var[d] += o[d] * o[d];
}

/* All rows; o and o_var as dense (batch, head, row, dim). */
static void attend_all(const core *c, dense *o, double *lse, double *lse_unit) {
  int64_t kv_len = c->k.rows, rows = c->batch * c->q.heads * c->q.rows;
  *o = (dense){c->q.heads, c->q.rows, c->v.dims, doubles(rows * c->v.dims),
               doubles(rows * c->v.dims)};
  double *w = doubles(kv_len), *s_var = doubles(kv_len);
  for (int64_t b = 0; b < c->batch; b++)
    for (int64_t h = 0; h < c->q.heads; h++)
      for (int64_t i = 0; i < c->q.rows; i++) {
        int64_t row = (b * c->q.heads + h) * c->q.rows + i;
        attend(c, b, h, i, w, s_var, o->value + row * o->dims, o->variance + row * o->dims,
               &lse[row], &lse_unit[row]);
      }
  free(w);
  free(s_var);
}

static double default_scale(int64_t head_size) { return 1 / sqrt((double)head_size); }

oracle_result oracle_attention(const attn_params *p, bool exact_scores) {
  core c = {.q = from_view(&p->q, p->batch, p->q_heads, p->q_len, p->head_size),
            .k = from_view(&p->k, p->batch, p->kv_heads, p->kv_len, p->head_size),
            .v = from_view(&p->v, p->batch, p->kv_heads, p->kv_len, p->value_size),
            .batch = p->batch,
            .scale = p->has_scale ? (double)p->scale : default_scale(p->head_size),
            .causal = p->causal,
            .exact_scores = exact_scores};
  if (!p->dropout.deterministic) c.keep = p->dropout.keep, c.rate = p->dropout.rate;
  int64_t rows = p->batch * p->q_heads * p->q_len;
  oracle_result r = {.lse = doubles(rows), .unit = doubles(rows), .lse_unit = doubles(rows)};
  dense o;
  attend_all(&c, &o, r.lse, r.lse_unit);
  for (int64_t row = 0; row < rows; row++) {
    double most = 0;
    for (int64_t d = 0; d < o.dims; d++) most = fmax(most, o.variance[row * o.dims + d]);
    r.unit[row] = sqrt(most);
  }
  r.o = o.value;
  free(o.variance);
  free_dense(&c.q);
  free_dense(&c.k);
  free_dense(&c.v);
  return r;
}

void oracle_free(oracle_result *r) {
  free(r->o);
  free(r->lse);
  free(r->unit);
  free(r->lse_unit);
  *r = (oracle_result){0};
}

/* (batch * len, in) times a kernel, as heads: element (row, n) goes to head n / dims. */
static dense project(const double *x, const double *x_var, int64_t batch, int64_t len, int64_t in,
                     const attn_weight *w, int64_t first, int64_t heads, int64_t dims) {
  dense y = {heads, len, dims, doubles(batch * len * heads * dims),
             doubles(batch * len * heads * dims)};
  const float *kernel = w->kernel, *biases = w->bias;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < len; t++)
      for (int64_t n = 0; n < heads * dims; n++) {
        double bias = biases ? (double)biases[first + n] : 0;
        double sum = bias, var = bias * bias;
        for (int64_t i = 0; i < in; i++) {
          double m = (double)kernel[i * w->in_stride + (first + n) * w->out_stride];
          double a = x[(b * len + t) * in + i];
          double a_var = x_var ? x_var[(b * len + t) * in + i] : 0;
          sum += a * m;
          var += (a * a + a_var) * m * m;
        }
        int64_t to = at(&y, b, n / dims, t, n % dims);
        y.value[to] = sum;
        y.variance[to] = var + sum * sum;
      }
  return y;
}

/* (batch, head, row, dim) as (batch, row, head * dim). */
static double *merge_heads(const double *a, int64_t batch, int64_t heads, int64_t len,
                           int64_t dims) {
  double *out = doubles(batch * heads * len * dims);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t t = 0; t < len; t++)
        for (int64_t d = 0; d < dims; d++)
          out[((b * len + t) * heads + h) * dims + d] = a[((b * heads + h) * len + t) * dims + d];
  return out;
}

void oracle_layer(const attn_layer_config *config, const attn_layer_weights *weights, int64_t batch,
                  int64_t len, const float *x, const attn_dropout *dropout, double **y,
                  double **unit) {
  int64_t width = config->d_model, heads = config->num_heads;
  int64_t kv_heads = config->has_num_kv_heads ? config->num_kv_heads : heads;
  int64_t dims = config->has_head_size ? config->head_size : width / heads;
  double *wide = doubles(batch * len * width);
  for (int64_t i = 0; i < batch * len * width; i++) wide[i] = (double)x[i];

  bool fused = weights->qkv.kernel != NULL;
  const attn_weight *wq = fused ? &weights->qkv : &weights->q;
  const attn_weight *wk = fused ? &weights->qkv : &weights->k;
  const attn_weight *wv = fused ? &weights->qkv : &weights->v;
  int64_t nq = heads * dims, nkv = kv_heads * dims;
  core c = {.q = project(wide, NULL, batch, len, width, wq, 0, heads, dims),
            .k = project(wide, NULL, batch, len, width, wk, fused ? nq : 0, kv_heads, dims),
            .v = project(wide, NULL, batch, len, width, wv, fused ? nq + nkv : 0, kv_heads, dims),
            .batch = batch,
            .scale = config->has_scale ? (double)config->scale : default_scale(dims),
            .causal = config->causal};
  if (dropout && !dropout->deterministic) c.keep = dropout->keep, c.rate = dropout->rate;
  double *lse = doubles(batch * heads * len), *lse_unit = doubles(batch * heads * len);
  dense o;
  attend_all(&c, &o, lse, lse_unit);

  double *mixed = merge_heads(o.value, batch, heads, len, dims);
  double *mixed_var = merge_heads(o.variance, batch, heads, len, dims);
  dense out = project(mixed, mixed_var, batch, len, nq, &weights->out, 0, 1, width);
  *y = out.value;
  *unit = doubles(batch * len);
  for (int64_t i = 0; i < batch * len * width; i++)
    (*unit)[i / width] = fmax((*unit)[i / width], sqrt(out.variance[i]));
  free(out.variance);
  free(mixed);
  free(mixed_var);
  free(wide);
  free(lse);
  free(lse_unit);
  free_dense(&o);
  free_dense(&c.q);
  free_dense(&c.k);
  free_dense(&c.v);
}

double oracle_error(double got, double want, double unit) {
  if (got == want || (isnan(got) && isnan(want))) return 0;
  if (!isfinite(got) || !isfinite(want)) return INFINITY;
  return fabs(got - want) / (ldexp(1, -23) * unit); /* unit 0: the row must be exact */
}

double oracle_worst_o(const attn_params *p, const oracle_result *r) {
  const float *data = p->o.data;
  double worst = 0;
  int64_t row = 0;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->q_heads; h++)
      for (int64_t i = 0; i < p->q_len; i++, row++)
        for (int64_t d = 0; d < p->value_size; d++) {
          double got = (double)data[b * p->o.batch_stride + h * p->o.head_stride +
                                    i * p->o.row_stride + d * p->o.dim_stride];
          worst = fmax(worst, oracle_error(got, r->o[row * p->value_size + d], r->unit[row]));
        }
  return worst;
}

double oracle_worst_lse(const attn_params *p, const oracle_result *r) {
  double worst = 0;
  int64_t row = 0;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->q_heads; h++)
      for (int64_t i = 0; i < p->q_len; i++, row++) {
        const float *got =
            p->lse.data + b * p->lse.batch_stride + h * p->lse.head_stride + i * p->lse.row_stride;
        worst = fmax(worst, oracle_error((double)*got, r->lse[row], r->lse_unit[row]));
      }
  return worst;
}
