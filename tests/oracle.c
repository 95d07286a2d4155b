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

static void free_dense(dense *a) {
  free(a->value);
  free(a->variance);
}

typedef struct core {
  dense q, k, v;
  int64_t batch;
  int64_t kv_begin; /* keys before it are gone */
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
  return kept && c->rate < 1 ? 1 / (1 - c->rate) : 0; /* a rate of 1 keeps nothing */
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
  if (visible <= c->kv_begin) return;

  double max = -INFINITY;
  for (int64_t j = c->kv_begin; j < visible; j++) {
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
  for (int64_t j = c->kv_begin; j < visible; j++) sum += w[j] = exp(w[j] - max);
  *lse = max + log(sum);
  double noise = 0;
  for (int64_t j = c->kv_begin; j < visible; j++) {
    w[j] /= sum;
    noise += w[j] * w[j] * (1 + s_var[j]);
    double kept = gain(c, b, h, i, j);
    if (kept == 0) continue;
    for (int64_t d = 0; d < dims; d++) o[d] += w[j] * kept * c->v.value[at(&c->v, b, g, j, d)];
  }
  *lse_unit = 1 + fabs(*lse) + sqrt(noise);
  for (int64_t j = c->kv_begin; j < visible; j++) {
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

oracle_sequence oracle_sequence_of(const attn_params *p, int64_t n) {
  const attn_lengths *l = &p->lengths;
  oracle_sequence s = {
      .q_batch = n, .q_len = p->q_len, .kv_batch = n, .kv_len = p->kv_len, .kv_begin = 0};
  if (l->cu_seqlens_q) {
    s.q_batch = 0;
    s.q_row = l->cu_seqlens_q[n];
    s.q_len = l->cu_seqlens_q[n + 1] - l->cu_seqlens_q[n];
  }
  if (l->q_lens) s.q_len = l->q_lens[n];
  if (l->cu_seqlens_k) {
    s.kv_batch = 0;
    s.kv_row = l->cu_seqlens_k[n];
    s.kv_len = l->cu_seqlens_k[n + 1] - l->cu_seqlens_k[n];
  }
  if (l->left_padding) {
    s.kv_row += l->left_padding[n];
    s.kv_len -= l->left_padding[n];
  }
  if (l->kv_lens) s.kv_len = l->kv_lens[n];
  if (l->kv_starts) s.kv_begin = l->kv_starts[n];
  return s;
}

int64_t oracle_batch(const attn_params *p) { return p->lengths.cu_seqlens_q ? 1 : p->batch; }

/* Key `slot` of a page whose keys are interleaved. */
static double interleaved(const attn_params *p, int64_t b, int64_t h, int64_t slot, int64_t d) {
  const float *page = (const float *)p->k.data + b * p->k.batch_stride + h * p->k.head_stride;
  return (double)page[slot / 16 * 16 * p->head_size + d * 16 + slot % 16];
}

static double element(const attn_input *view, int64_t b, int64_t h, int64_t i, int64_t d) {
  const float *data = view->data;
  return (double)data[b * view->batch_stride + h * view->head_stride + i * view->row_stride +
                      d * view->dim_stride];
}

static dense gather_queries(const attn_params *p, const oracle_sequence *s) {
  dense a = {p->q_heads, s->q_len, p->head_size, doubles(p->q_heads * s->q_len * p->head_size),
             NULL};
  for (int64_t h = 0; h < a.heads; h++)
    for (int64_t i = 0; i < a.rows; i++)
      for (int64_t d = 0; d < a.dims; d++)
        a.value[at(&a, 0, h, i, d)] = element(&p->q, s->q_batch, h, s->q_row + i, d);
  return a;
}

/* K or V of sequence n; what is gone stays 0. */
static dense gather_keys(const attn_params *p, int64_t n, const oracle_sequence *s,
                         const attn_input *view, int64_t dims) {
  const attn_pages *pages = &p->pages;
  const bool side_by_side = view == &p->k && p->key_layout == ATTN_KEYS_INTERLEAVED;
  dense a = {p->kv_heads, s->kv_len, dims, doubles(p->kv_heads * s->kv_len * dims), NULL};
  for (int64_t j = s->kv_begin; j < a.rows; j++) {
    int64_t batch = s->kv_batch, slot = s->kv_row + j;
    if (pages->table) {
      batch = pages->table[n * pages->table_stride + slot / pages->page_size % pages->table_width];
      slot %= pages->page_size;
    }
    for (int64_t g = 0; g < a.heads; g++)
      for (int64_t d = 0; d < dims; d++)
        a.value[at(&a, 0, g, j, d)] =
            side_by_side ? interleaved(p, batch, g, slot, d) : element(view, batch, g, slot, d);
  }
  return a;
}

/* Puts row i of head h of a sequence where the row lies. */
static void scatter_row(const attn_params *p, const oracle_sequence *s, const dense *o, int64_t h,
                        int64_t i, oracle_result *r, double lse, double lse_unit) {
  const int64_t from = at(o, 0, h, i, 0);
  const int64_t to = (s->q_batch * p->q_heads + h) * p->q_len + s->q_row + i;
  double most = 0;
  for (int64_t d = 0; d < o->dims; d++) {
    r->o[to * o->dims + d] = o->value[from + d];
    most = fmax(most, o->variance[from + d]);
  }
  r->unit[to] = sqrt(most);
  r->lse[to] = lse;
  r->lse_unit[to] = lse_unit;
}

static void attend_sequence(const attn_params *p, int64_t n, bool exact_scores, oracle_result *r) {
  const oracle_sequence s = oracle_sequence_of(p, n);
  core c = {.q = gather_queries(p, &s),
            .k = gather_keys(p, n, &s, &p->k, p->head_size),
            .v = gather_keys(p, n, &s, &p->v, p->value_size),
            .batch = 1,
            .kv_begin = s.kv_begin,
            .scale = p->has_scale ? (double)p->scale : default_scale(p->head_size),
            .causal = p->causal,
            .exact_scores = exact_scores};
  if (!p->dropout.deterministic) c.keep = p->dropout.keep, c.rate = p->dropout.rate;
  if (c.keep.data) c.keep.data += n * c.keep.batch_stride;
  const int64_t rows = p->q_heads * s.q_len;
  double *lse = doubles(rows), *lse_unit = doubles(rows);
  dense o;
  attend_all(&c, &o, lse, lse_unit);
  for (int64_t row = 0; row < rows; row++)
    scatter_row(p, &s, &o, row / s.q_len, row % s.q_len, r, lse[row], lse_unit[row]);
  free(lse);
  free(lse_unit);
  free_dense(&o);
  free_dense(&c.q);
  free_dense(&c.k);
  free_dense(&c.v);
}

oracle_result oracle_attention(const attn_params *p, bool exact_scores) {
  const int64_t rows = oracle_batch(p) * p->q_heads * p->q_len;
  oracle_result r = {.o = doubles(rows * p->value_size),
                     .lse = doubles(rows),
                     .unit = doubles(rows),
                     .lse_unit = doubles(rows)};
  for (int64_t row = 0; row < rows; row++) r.unit[row] = r.lse_unit[row] = -1;
  for (int64_t n = 0; n < p->batch; n++) attend_sequence(p, n, exact_scores, &r);
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
  for (int64_t b = 0; b < oracle_batch(p); b++)
    for (int64_t h = 0; h < p->q_heads; h++)
      for (int64_t i = 0; i < p->q_len; i++, row++)
        for (int64_t d = 0; d < p->value_size && r->unit[row] >= 0; d++) {
          double got = (double)data[b * p->o.batch_stride + h * p->o.head_stride +
                                    i * p->o.row_stride + d * p->o.dim_stride];
          worst = fmax(worst, oracle_error(got, r->o[row * p->value_size + d], r->unit[row]));
        }
  return worst;
}

double oracle_worst_lse(const attn_params *p, const oracle_result *r) {
  double worst = 0;
  int64_t row = 0;
  for (int64_t b = 0; b < oracle_batch(p); b++)
    for (int64_t h = 0; h < p->q_heads; h++)
      for (int64_t i = 0; i < p->q_len; i++, row++) {
        if (r->lse_unit[row] < 0) continue;
        const float *got =
            p->lse.data + b * p->lse.batch_stride + h * p->lse.head_stride + i * p->lse.row_stride;
        worst = fmax(worst, oracle_error((double)*got, r->lse[row], r->lse_unit[row]));
      }
  return worst;
}
