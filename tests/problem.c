/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "problem.h"

#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

attn_input dense_input(const float *data, int64_t heads, int64_t rows, int64_t dims) {
  return (attn_input){data, heads * rows * dims, rows * dims, dims, 1};
}

attn_output dense_output(float *data, int64_t heads, int64_t rows, int64_t dims) {
  return (attn_output){data, heads * rows * dims, rows * dims, dims, 1};
}

problem problem_new(shape s) {
  problem p = {.shape = s, .params = ATTN_PARAMS_INIT};
  p.q_count = (size_t)(s.batch * s.q_heads * s.q_len * s.head_size);
  p.k_count = (size_t)(s.batch * s.kv_heads * s.kv_len * s.head_size);
  p.v_count = (size_t)(s.batch * s.kv_heads * s.kv_len * s.value_size);
  p.o_count = (size_t)(s.batch * s.q_heads * s.q_len * s.value_size);
  p.lse_count = (size_t)(s.batch * s.q_heads * s.q_len);
  p.q = check_floats(p.q_count);
  p.k = check_floats(p.k_count);
  p.v = check_floats(p.v_count);
  p.o = check_floats(p.o_count);
  p.lse = check_floats(p.lse_count);
  canary_fill(p.o, p.o_count);
  canary_fill(p.lse, p.lse_count);
  attn_params *a = &p.params;
  a->batch = s.batch;
  a->q_heads = s.q_heads;
  a->kv_heads = s.kv_heads;
  a->q_len = s.q_len;
  a->kv_len = s.kv_len;
  a->head_size = s.head_size;
  a->value_size = s.value_size;
  a->q = dense_input(p.q, s.q_heads, s.q_len, s.head_size);
  a->k = dense_input(p.k, s.kv_heads, s.kv_len, s.head_size);
  a->v = dense_input(p.v, s.kv_heads, s.kv_len, s.value_size);
  a->o = dense_output(p.o, s.q_heads, s.q_len, s.value_size);
  a->lse = (attn_lse_output){p.lse, s.q_heads * s.q_len, s.q_len, 1};
  return p;
}

void problem_free(problem *p) {
  free(p->q);
  free(p->k);
  free(p->v);
  free(p->o);
  free(p->lse);
  *p = (problem){0};
}

void problem_fill(problem *p, uint64_t seed, double factor) {
  sm_fill(p->q, p->q_count, seed, factor);
  sm_fill(p->k, p->k_count, seed + 1, 1);
  sm_fill(p->v, p->v_count, seed + 2, 1);
}

problem problem_random(shape s, uint64_t seed) {
  problem p = problem_new(s);
  problem_fill(&p, seed, 2);
  check_context(SHAPE_FORMAT " seed %llu", SHAPE_VALUES(s), (unsigned long long)seed);
  return p;
}

void canary_fill(float *a, size_t count) {
  const uint32_t bits = CANARY_BITS;
  for (size_t i = 0; i < count; i++) memcpy(&a[i], &bits, sizeof(bits));
}

bool canary_intact(const float *a, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (float_bits(a[i]) != CANARY_BITS) return false;
  return true;
}

static bool all_written(const float *a, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (float_bits(a[i]) == CANARY_BITS) return false;
  return true;
}

void problem_run(problem *p) {
  canary_fill(p->o, p->o_count);
  canary_fill(p->lse, p->lse_count);
  CHECK_OK(attn_forward(NULL, &p->params));
  if (p->params.o.data == p->o) CHECK(all_written(p->o, p->o_count));
  if (p->params.lse.data == p->lse) CHECK(all_written(p->lse, p->lse_count));
}

void problem_run_threads(problem *p, int32_t threads) {
  p->params.has_num_threads = true;
  p->params.num_threads = threads;
  problem_run(p);
}

double problem_check(const problem *p) {
  oracle_result r = oracle_attention(&p->params, false);
  double worst = oracle_worst_o(&p->params, &r);
  CHECK_NEAR(worst, 0.0, 8.0);
  if (p->params.lse.data) CHECK_NEAR(oracle_worst_lse(&p->params, &r), 0.0, 4.0);
  oracle_free(&r);
  return worst;
}

static attn_input input_from(attn_input v, int64_t batch, int64_t head, int64_t row) {
  const float *data = v.data;
  v.data = data + batch * v.batch_stride + head * v.head_stride + row * v.row_stride;
  return v;
}

void params_move(attn_params *a, int64_t batch, int64_t q_head, int64_t kv_head, int64_t row) {
  a->q = input_from(a->q, batch, q_head, row);
  a->k = input_from(a->k, batch, kv_head, 0);
  a->v = input_from(a->v, batch, kv_head, 0);
  float *o = a->o.data;
  a->o.data = o + batch * a->o.batch_stride + q_head * a->o.head_stride + row * a->o.row_stride;
  if (a->lse.data)
    a->lse.data +=
        batch * a->lse.batch_stride + q_head * a->lse.head_stride + row * a->lse.row_stride;
  attn_keep_mask *keep = &a->dropout.keep;
  if (keep->data)
    keep->data += batch * keep->batch_stride + q_head * keep->head_stride + row * keep->row_stride;
}

attn_params problem_rows(const problem *p, int64_t begin, int64_t end) {
  attn_params a = p->params;
  a.q_len = end - begin;
  if (a.causal) a.kv_len = p->params.kv_len - (p->params.q_len - end);
  params_move(&a, 0, 0, 0, begin);
  return a;
}

float *copy_floats(const float *a, size_t count) {
  float *copy = check_floats(count);
  memcpy(copy, a, count * sizeof(float));
  return copy;
}
