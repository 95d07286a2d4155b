/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* States of the online softmax, one lane after the other: maxima, sums, unnormalised values. So tasks exchange them
 * (kernels.h), and so few queries keep them. What is done to a lane is the same as in tiles. Part of
 * attention.c. */
#ifndef ATTN_SIMD_STATES_H
#define ATTN_SIMD_STATES_H

#include "keys.h"
#include "vector_math.h"

/* exp2((m - to) * scale), and 0 where m is -inf: no visible key so far. */
V_INLINE v_f32 rescale_factor(v_f32 m, v_f32 to, v_f32 scale) {
  v_f32 d = v_mul(v_sub(m, to), scale);
  return v_drop(v_eq(m, v_set1(-INFINITY)), v_exp2(d));
}

/* A maximum that may be subtracted: a row of scores that are all -inf weighs nothing, not NaN. */
V_INLINE v_f32 finite_max(v_f32 m) { return v_select(v_eq(m, v_set1(-INFINITY)), v_zero(), m); }

/* Log-sum-exp of a maximum and a sum. Visible keys that all weigh nothing (scores of -inf) have no
 * softmax. */
V_INLINE v_f32 lse_of(v_f32 m, v_f32 l, float scale) {
  v_f32 lse = v_fma(m, v_set1(scale), v_log(l));
  return v_canonical_nan(v_select(v_eq(l, v_zero()), v_set1(NAN), lse));
}

/* The output of a vector of values, wherever its elements belong. */
V_INLINE v_f32 output_of(v_f32 values, v_f32 l, bool dropout, float dropout_scale) {
  v_f32 o = v_div(values, l);
  if (dropout) o = v_mul(o, v_set1(dropout_scale));
  return v_canonical_nan(v_add(o, v_zero()));
}

/* Scores times this are exponents of 2. */
static float weight_scale_of(const attn_attention_task *task) {
  return fabsf(task->scale) * 1.44269504088896340736f; /* log2(e) */
}

typedef struct state_form {
  int64_t lanes, value_row; /* as padded in a state */
  float weight_scale;
} state_form;

static state_form form_of(const attn_attention_task *task, float weight_scale) {
  return (state_form){task->lanes, attn_state_pad(task->value_size), weight_scale};
}

static float *form_max(float *state) { return state; }
static float *form_sum(const state_form *f, float *state) {
  return state + attn_state_pad(f->lanes);
}
static float *form_values(const state_form *f, float *state, int64_t lane) {
  return state + 2 * attn_state_pad(f->lanes) + lane * f->value_row;
}

static void form_clear(const state_form *f, float *state) {
  const int64_t lanes = attn_state_pad(f->lanes);
  for (int64_t i = 0; i < lanes; i += V_LANES) {
    v_store(form_max(state) + i, v_set1(-INFINITY));
    v_store(form_sum(f, state) + i, v_zero());
  }
}

/* left <- left merged with right. A lane without visible keys on one side keeps the other's. */
static void form_merge(const void *how, float *left, float *right) {
  const state_form *f = how;
  const v_f32 scale = v_set1(f->weight_scale);
  for (int64_t i = 0; i < f->lanes; i += V_LANES) {
    float *sum = form_sum(f, left) + i, factor[2][V_LANES];
    v_f32 ml = v_load(form_max(left) + i), mr = v_load(form_max(right) + i);
    v_f32 m = v_max(mr, ml), safe = finite_max(m);
    v_f32 fl = rescale_factor(ml, safe, scale), fr = rescale_factor(mr, safe, scale);
    v_store(form_max(left) + i, m);
    v_store(sum, v_fma(v_load(form_sum(f, right) + i), fr, v_mul(v_load(sum), fl)));
    v_store(factor[0], fl);
    v_store(factor[1], fr);
    for (int64_t r = i; r < f->lanes && r < i + V_LANES; r++) {
      float *to = form_values(f, left, r);
      const float *from = form_values(f, right, r);
      fl = v_set1(factor[0][r - i]), fr = v_set1(factor[1][r - i]);
      for (int64_t d = 0; d < f->value_row; d += V_LANES) {
        v_store(to + d, v_fma(v_load(from + d), fr, v_mul(v_load(to + d), fl)));
      }
    }
  }
}

V_INLINE v_f32 load_strided(const float *p, int64_t stride, int64_t n) {
  if (stride == 1) return n >= V_LANES ? v_load(p) : v_load_n(p, n);
  float gather[V_LANES] = {0};
  for (int64_t j = 0; j < n && j < V_LANES; j++) gather[j] = p[j * stride];
  return v_load(gather);
}

V_INLINE void store_strided(float *p, v_f32 a, int64_t stride, int64_t n) {
  if (stride == 1 && n >= V_LANES) {
    v_store(p, a);
  } else if (stride == 1) {
    v_store_n(p, a, n);
  } else {
    float scatter[V_LANES];
    v_store(scatter, a);
    for (int64_t j = 0; j < n && j < V_LANES; j++) p[j * stride] = scatter[j];
  }
}

/* Columns [d, d + V_LANES) of V_LANES rows side by side, a vector each, `step` apart, with signs flipped by `sign`. */
V_INLINE void columns_of_rows(float *to, int64_t step, const float *const at[V_LANES], int64_t d,
                              int64_t dim, int64_t size, v_f32 sign) {
  v_f32 row[V_LANES];
  if (dim == 1 && size - d >= V_LANES) {
    V_UNROLL for (int i = 0; i < V_LANES; i++) row[i] = v_load(at[i] + d);
    v_transpose(row);
    V_UNROLL for (int i = 0; i < V_LANES; i++) v_store(to + i * step, v_xor(row[i], sign));
    return;
  }
  for (int i = 0; i < V_LANES; i++) row[i] = load_strided(at[i] + d * dim, dim, size - d);
  v_transpose(row);
  for (int i = 0; i < V_LANES && d + i < size; i++) v_store(to + i * step, v_xor(row[i], sign));
}

static void form_store_lane(const attn_attention_task *task, const state_form *f, float *state,
                            int64_t i) {
  const int64_t row = (task->lane + i) / task->group, head = (task->lane + i) % task->group;
  const bool sees = row_limit(task, row) >= 0;
  const v_f32 l = v_set1(form_sum(f, state)[i]);
  const float *values = form_values(f, state, i);
  float *o = task->o + row * task->o_row + head * task->o_head;
  for (int64_t d = 0; d < task->value_size; d += V_LANES) {
    v_f32 out = output_of(v_load(values + d), l, task->dropout, task->dropout_scale);
    store_strided(o + d * task->o_dim, sees ? out : v_zero(), task->o_dim, task->value_size - d);
  }
  if (!task->lse) return;
  float lse[V_LANES];
  v_store(lse, lse_of(v_set1(form_max(state)[i]), l, fabsf(task->scale)));
  task->lse[row * task->lse_row + head * task->lse_head] = sees ? lse[0] : -INFINITY;
}

/* o = O / l, or 0 for a row that sees no key; and the log-sum-exp. */
static void form_store(const attn_attention_task *task, const state_form *f, float *state) {
  for (int64_t i = 0; i < f->lanes; i++) form_store_lane(task, f, state, i);
}

#endif
