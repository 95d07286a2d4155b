/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The table of kernels of one instruction set, in two kinds: exp2 inline, and by libsleef. */

#include "body.h"
#include "tile.h"

#define ATTN_TEXT_(x) #x
#define ATTN_TEXT(x) ATTN_TEXT_(x)

double ATTN_NAME(peak)(int64_t n) {
  enum { CHAINS = V_ROWS * V_QUERIES };
  v_f32 acc[CHAINS];
  v_f32 a = v_set1(0.999f), b = v_set1(1e-3f);
  V_UNROLL for (int i = 0; i < 4; i++) __asm__ volatile("" : "+m"(a), "+m"(b));
  /* From different values: equal chains would be compiled into one. */
  V_UNROLL for (int c = 0; c < CHAINS; c++) acc[c] = v_set1((float)(c + 1));
  for (int64_t i = 0; i < n; i++) {
    _Pragma("GCC unroll 32") for (int c = 0; c < CHAINS; c++) acc[c] = v_fma(acc[c], a, b);
  }
  v_f32 sum = acc[0];
  _Pragma("GCC unroll 32") for (int c = 1; c < CHAINS; c++) sum = v_add(sum, acc[c]);
  float sink[V_LANES];
  v_store(sink, sum);
  __asm__ volatile("" : : "m"(sink));
  return (double)(n * CHAINS * V_LANES * 2);
}

#ifdef ATTN_PLANT_SLOWDOWN
#include "plant.h"
#define ATTN_ENTRY_ATTENTION planted_attention
#define ATTN_ENTRY_LINEAR planted_linear
#else
#define ATTN_ENTRY_ATTENTION ATTN_NAME(attention)
#define ATTN_ENTRY_LINEAR ATTN_NAME(linear)
#endif

#define ATTN_TABLE(exp_name, sleef)                                                                \
  {.isa = ATTN_TEXT(ATTN_ISA),                                                                     \
   .exp = exp_name,                                                                                \
   .exp_sleef = sleef,                                                                             \
   .vector = V_LANES,                                                                              \
   .lanes = V_TILE,                                                                                \
   .max_lanes = ATTN_TASK_TILES * V_TILE,                                                          \
   .rows = V_ROWS,                                                                                 \
   .panel = V_TILE,                                                                                \
   .attention = ATTN_ENTRY_ATTENTION,                                                              \
   .combine = ATTN_NAME(combine),                                                                  \
   .linear = ATTN_ENTRY_LINEAR,                                                                    \
   .interleave = ATTN_NAME(interleave),                                                            \
   .attention_workspace = ATTN_NAME(attention_workspace),                                          \
   .linear_workspace = ATTN_NAME(linear_workspace),                                                \
   .combine_workspace = ATTN_NAME(combine_workspace),                                              \
   .peak = ATTN_NAME(peak)}

extern const attn_kernels ATTN_NAME(kernels)[2];
const attn_kernels ATTN_NAME(kernels)[2] = {ATTN_TABLE("inline", false), ATTN_TABLE("sleef", true)};
