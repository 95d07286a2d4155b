/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "problem.h"

#include "status.h"
#include "threads.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_THREADS = 1024 };
#define MAX_ROWS                                                                                   \
  ((int64_t)1 << 40) /* batch * q_heads * q_len: keeps every product inside 64 bits */

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

attn_status attn_check_extent(const char *name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT, "%s is %" PRId64 "; allowed: %" PRId64 " ... %" PRId64,
                   name, value, least, most);
}

attn_status attn_check_heads(int64_t q_heads, int64_t kv_heads) {
  attn_status status = attn_check_extent("q_heads", q_heads, 1, ATTN_MAX_EXTENT);
  if (!status) status = attn_check_extent("kv_heads", kv_heads, 1, ATTN_MAX_EXTENT);
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

attn_status attn_check_scale(bool has_scale, float scale) {
  /* |scale| * log2(e) has to be a number. */
  if (!has_scale || (isgreaterequal(scale, -1e38f) && islessequal(scale, 1e38f))) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT, "scale is %g; allowed: -1e38 ... 1e38", (double)scale);
}

attn_status attn_check_dropout(const attn_dropout *dropout) {
  /* Quiet comparisons: a caller may have unmasked the exception that NaN would raise. */
  if (isgreaterequal(dropout->rate, 0.0) && islessequal(dropout->rate, 1.0)) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT, "dropout.rate is %g; allowed: 0 ... 1", dropout->rate);
}

attn_status attn_check_threads(bool has_num_threads, int32_t num_threads, int32_t *threads) {
  if (has_num_threads) {
    const attn_status status = attn_check_extent("num_threads", num_threads, 1, MAX_THREADS);
    if (status) return status;
    *threads = num_threads;
  } else {
    *threads = attn_default_threads();
    if (*threads > MAX_THREADS) *threads = MAX_THREADS;
  }
  return ATTN_OK;
}

/* Default scale, group and diagonal follow from the shape. */
static void resolve(attn_problem *problem) {
  attn_params *p = &problem->params;
  if (!p->has_scale) {
    p->has_scale = true;
    p->scale = attn_default_scale(p->head_size);
  }
  problem->group = p->q_heads / p->kv_heads;
  problem->diagonal = p->causal ? p->kv_len - p->q_len : p->kv_len;
  problem->dropout = !p->dropout.deterministic && p->dropout.rate > 0.0;
}

static attn_status check_rows(const attn_params *p) {
  if (p->q_len == 0 || p->batch * p->q_heads <= MAX_ROWS / p->q_len) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "batch * q_heads * q_len is %" PRId64 " * %" PRId64 " * %" PRId64
                   "; allowed: up to 2^40",
                   p->batch, p->q_heads, p->q_len);
}

static attn_status check_shape(const attn_params *params, attn_problem *problem) {
  const attn_params initial = ATTN_PARAMS_INIT;
  attn_params *p = &problem->params;
  *p = initial;
  attn_status status = attn_copy_params("params", p, sizeof(*p), params);
  if (!status) status = attn_check_heads(p->q_heads, p->kv_heads);
  if (!status) status = attn_check_extent("batch", p->batch, 0, ATTN_MAX_EXTENT);
  if (!status) status = attn_check_extent("q_len", p->q_len, 0, ATTN_MAX_EXTENT);
  if (!status) status = attn_check_extent("kv_len", p->kv_len, 0, ATTN_MAX_EXTENT);
  if (!status) status = attn_check_extent("head_size", p->head_size, 1, ATTN_MAX_HEAD_SIZE);
  if (!status) status = attn_check_extent("value_size", p->value_size, 1, ATTN_MAX_HEAD_SIZE);
  if (!status) status = check_rows(p);
  if (!status) status = attn_check_scale(p->has_scale, p->scale);
  if (!status) status = attn_check_dropout(&p->dropout);
  if (!status) status = attn_check_threads(p->has_num_threads, p->num_threads, &p->num_threads);
  if (status) return status;
  p->has_num_threads = true;
  resolve(problem);
  return ATTN_OK;
}

attn_status attn_problem_shape(const attn_params *params, attn_problem *problem) {
  const attn_fpmode mode = attn_fpmode_enter();
  const attn_status status = check_shape(params, problem);
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
  attn_status status = attn_problem_shape(params, problem);
  if (status) return status;
  const attn_params *p = &problem->params;
  if (p->batch == 0 || p->q_len == 0) return ATTN_OK;
  const bool keys = p->kv_len > 0;
  status = check_pointer("q", p->q.data, keys);
  if (!status) status = check_pointer("k", p->k.data, keys);
  if (!status) status = check_pointer("v", p->v.data, keys);
  if (!status) status = check_pointer("o", p->o.data, true);
  if (!status) status = check_output("o.batch_stride", p->o.batch_stride, p->batch);
  if (!status) status = check_output("o.head_stride", p->o.head_stride, p->q_heads);
  if (!status) status = check_output("o.row_stride", p->o.row_stride, p->q_len);
  if (!status) status = check_output("o.dim_stride", p->o.dim_stride, p->value_size);
  if (!status && p->lse.data) {
    status = check_output("lse.batch_stride", p->lse.batch_stride, p->batch);
    if (!status) status = check_output("lse.head_stride", p->lse.head_stride, p->q_heads);
    if (!status) status = check_output("lse.row_stride", p->lse.row_stride, p->q_len);
  }
  return status;
}

double attn_problem_cost(const attn_problem *problem) {
  const attn_params *p = &problem->params;
  const attn_fpmode mode = attn_fpmode_enter();
  const double keys = (double)p->kv_len, rows = (double)p->q_len;
  double pairs = rows * keys;
  if (p->causal) {
    /* Row i sees i + 1 + kv_len - q_len keys, or none. */
    const double seeing = rows < keys ? rows : keys;
    pairs = seeing * keys - seeing * (seeing - 1) / 2;
  }
  const double heads = (double)p->batch * (double)p->q_heads;
  const double cost = heads * pairs * (double)(p->head_size + p->value_size);
  attn_fpmode_leave(mode);
  return cost;
}
