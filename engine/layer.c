/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The layer: x -> q, k, v (one projection with the columns of all three), attention, which leaves
 * its result where q was, and the output projection. */

#include <attn/layer.h>

#include "context.h"
#include "isa.h"
#include "layer_config.h"
#include "linear.h"
#include "problem.h"
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>

struct attn_layer {
  attn_layer_config config; /* every has_... is true */
  const attn_kernels *kernels;
  attn_linear qkv, out;
};

static int64_t q_columns(const attn_layer_config *c) { return c->num_heads * c->head_size; }
static int64_t kv_columns(const attn_layer_config *c) { return c->num_kv_heads * c->head_size; }

/* ---- creating ---- */

static attn_status check_weights(const attn_layer_weights *w) {
  const int separate = (w->q.kernel != NULL) + (w->k.kernel != NULL) + (w->v.kernel != NULL);
  if (!w->out.kernel)
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "weights.out.kernel is NULL; it must point to the array");
  if (w->qkv.kernel && separate > 0) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "weights.qkv is given beside q, k or v; allowed: either qkv, or q, k and v");
  }
  if (!w->qkv.kernel && separate < 3) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "weights.%s.kernel is NULL; allowed: either qkv, or q, k and v",
                     !w->q.kernel   ? "q"
                     : !w->k.kernel ? "k"
                                    : "v");
  }
  return ATTN_OK;
}

static attn_status pack(attn_layer *layer, const attn_layer_weights *w) {
  const attn_layer_config *c = &layer->config;
  const int64_t nq = q_columns(c), nkv = kv_columns(c);
  attn_status status = attn_linear_init(&layer->qkv, layer->kernels, c->d_model, nq + 2 * nkv);
  if (!status) status = attn_linear_init(&layer->out, layer->kernels, nq, c->d_model);
  if (!status) status = attn_linear_pack(&layer->out, &w->out, 0, c->d_model);
  if (status) return status;
  if (w->qkv.kernel) return attn_linear_pack(&layer->qkv, &w->qkv, 0, nq + 2 * nkv);
  status = attn_linear_pack(&layer->qkv, &w->q, 0, nq);
  if (!status) status = attn_linear_pack(&layer->qkv, &w->k, nq, nkv);
  if (!status) status = attn_linear_pack(&layer->qkv, &w->v, nq + nkv, nkv);
  return status;
}

attn_status attn_layer_create(const attn_layer_config *config, const attn_layer_weights *weights,
                              attn_layer **layer) {
  attn_layer_config resolved;
  attn_layer_weights w = ATTN_LAYER_WEIGHTS_INIT;
  const attn_kernels *kernels;
  if (!layer) return attn_fail(ATTN_INVALID_ARGUMENT, "layer is NULL; it must point to a handle");
  attn_status status = attn_layer_config_copy(config, &resolved);
  if (!status) status = attn_layer_config_resolve(&resolved);
  if (!status) status = attn_copy_params("weights", &w, sizeof(w), weights);
  if (!status) status = check_weights(&w);
  if (!status) status = attn_kernels_current(&kernels);
  if (status) return status;
  attn_layer *made = calloc(1, sizeof(*made));
  if (!made) return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a layer");
  made->config = resolved;
  made->kernels = kernels;
  status = pack(made, &w);
  if (status) {
    attn_layer_destroy(made);
    return status;
  }
  *layer = made;
  return ATTN_OK;
}

void attn_layer_destroy(attn_layer *layer) {
  if (!layer) return;
  attn_linear_free(&layer->qkv);
  attn_linear_free(&layer->out);
  free(layer);
}

static attn_status check_handle(const attn_layer *layer) {
  return layer ? ATTN_OK
               : attn_fail(ATTN_INVALID_ARGUMENT, "layer is NULL; it must be a layer's handle");
}

attn_status attn_layer_get_config(const attn_layer *layer, attn_layer_config *config) {
  const attn_status status = check_handle(layer);
  return status ? status : attn_copy_out("config", config, &layer->config, sizeof(layer->config));
}

/* ---- running ---- */

static attn_status check_rows(const char *name, const void *data, const char *stride_name,
                              int64_t stride, int64_t rows, int64_t d_model, bool output) {
  if (!data)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; it must point to the array", name);
  if (!output || rows <= 1 || stride >= d_model || stride <= -d_model) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "%s is %" PRId64 "; rows of y must not overlap, so at least d_model, %" PRId64,
                   stride_name, stride, d_model);
}

static attn_status resolve_params(const attn_layer *layer, const attn_layer_params *theirs,
                                  attn_layer_params *p) {
  const attn_layer_params initial = ATTN_LAYER_PARAMS_INIT;
  *p = initial;
  attn_status status = check_handle(layer);
  if (!status) status = attn_copy_params("params", p, sizeof(*p), theirs);
  if (!status) status = attn_check_range("batch", p->batch, 0, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_range("len", p->len, 0, ATTN_MAX_EXTENT, NULL);
  if (!status) status = attn_check_dropout(&p->dropout);
  if (!status) status = attn_check_threads(p->has_num_threads, p->num_threads, &p->num_threads);
  if (status) return status;
  p->has_num_threads = true;
  const int64_t d = layer->config.d_model;
  if (!p->has_strides) {
    p->x_row_stride = p->y_row_stride = d;
    p->x_batch_stride = p->y_batch_stride = p->len * d;
    p->has_strides = true;
  }
  if (p->batch == 0 || p->len == 0) return ATTN_OK;
  status = check_rows("x", p->x, "x_row_stride", p->x_row_stride, p->len, d, false);
  if (!status) status = check_rows("y", p->y, "y_row_stride", p->y_row_stride, p->len, d, true);
  if (!status)
    status = check_rows("y", p->y, "y_batch_stride", p->y_batch_stride, p->batch, d, true);
  return status;
}

/* One projection over all sequences: in one piece where the rows of all lie evenly. */
static attn_status project(const attn_linear *linear, const attn_layer_params *p, void *workspace,
                           const float *x, int64_t x_batch, int64_t x_row, float *y,
                           int64_t y_batch, int64_t y_row) {
  const bool even = p->batch == 1 || (x_batch == x_row * p->len && y_batch == y_row * p->len);
  const int64_t pieces = even ? 1 : p->batch, rows = even ? p->batch * p->len : p->len;
  attn_status status = ATTN_OK;
  for (int64_t b = 0; b < pieces && !status; b++) {
    status = attn_linear_run(linear, x + b * x_batch, x_row, rows, y + b * y_batch, y_row,
                             p->num_threads, workspace, p->cancel, p->cancel_user);
  }
  return status;
}

/* Scratch of a pass: q, k and v of all rows, then what a projection needs. 0 when it is too much. */
static size_t pass_bytes(const attn_layer *layer, const attn_layer_params *p, size_t *qkv) {
  const attn_layer_config *c = &layer->config;
  const int64_t rows = p->batch * p->len;
  const size_t row = (size_t)(q_columns(c) + 2 * kv_columns(c)) * sizeof(float);
  const size_t first = attn_linear_workspace(&layer->qkv, rows, p->num_threads);
  const size_t last = attn_linear_workspace(&layer->out, rows, p->num_threads);
  size_t bytes;
  if (__builtin_mul_overflow((size_t)rows, row, qkv)) return 0;
  *qkv = attn_align(*qkv);
  return __builtin_add_overflow(*qkv, first > last ? first : last, &bytes) ? 0 : bytes;
}

/* Attention inside the fused buffer, the result in the place of q. */
static attn_status attend(attn_context *context, const attn_layer *layer,
                          const attn_layer_params *p, float *qkv) {
  const attn_layer_config *c = &layer->config;
  const int64_t nq = q_columns(c), nkv = kv_columns(c), row = nq + 2 * nkv;
  const int64_t batch = row * p->len, head = c->head_size;
  attn_params a = ATTN_PARAMS_INIT;
  a.batch = p->batch;
  a.q_heads = c->num_heads;
  a.kv_heads = c->num_kv_heads;
  a.q_len = a.kv_len = p->len;
  a.head_size = a.value_size = head;
  a.q = (attn_input){qkv, batch, head, row, 1};
  a.k = (attn_input){qkv + nq, batch, head, row, 1};
  a.v = (attn_input){qkv + nq + nkv, batch, head, row, 1};
  a.o = (attn_output){qkv, batch, head, row, 1};
  a.causal = c->causal;
  a.has_scale = true;
  a.scale = c->scale;
  a.dropout = p->dropout;
  a.has_num_threads = true;
  a.num_threads = p->num_threads;
  a.cancel = p->cancel;
  a.cancel_user = p->cancel_user;
  return attn_forward_with(context, &a, layer->kernels);
}

attn_status attn_layer_forward(attn_context *context, const attn_layer *layer,
                               const attn_layer_params *params) {
  attn_layer_params p;
  attn_status status = resolve_params(layer, params, &p);
  if (status || p.batch == 0 || p.len == 0) return status;
  const attn_layer_config *c = &layer->config;
  const int64_t row = q_columns(c) + 2 * kv_columns(c);
  size_t qkv_bytes;
  const size_t bytes = pass_bytes(layer, &p, &qkv_bytes);
  float *qkv = bytes ? attn_scratch_acquire(context, bytes) : NULL;
  if (!qkv) {
    return attn_fail(ATTN_OUT_OF_MEMORY,
                     "no memory for q, k and v of %" PRId64 " * %" PRId64 " rows", p.batch, p.len);
  }
  char *sums = (char *)qkv + qkv_bytes;
  status =
      project(&layer->qkv, &p, sums, p.x, p.x_batch_stride, p.x_row_stride, qkv, row * p.len, row);
  if (!status) status = attend(context, layer, &p, qkv);
  if (!status) {
    status = project(&layer->out, &p, sums, qkv, row * p.len, row, p.y, p.y_batch_stride,
                     p.y_row_stride);
  }
  attn_scratch_release(context, qkv);
  return status;
}
