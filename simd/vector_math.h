/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* 2^d for the hot loop: bit for bit SLEEF's deterministic exp2f_u10 on [-126, 0], exactly 0 below (a weight
 * in the subnormal range would slow the value product many times), NaN for NaN. Elsewhere
 * undefined: weights and rescale factors are at most 1.
 *
 * SLEEF (Shibata & Petrogalli 2020) reduces d = q + s with q = rint(d) and evaluates a polynomial
 * of degree 6 in s; the coefficients are its published ones, here halved: adding 2^23 * 1.5 + 128
 * rounds d to the nearest integer, ties to even, and leaves q + 128 in the low bits, which shifted into
 * the exponent are 2^(q + 1). (127 would do without the halving but is odd, and would turn ties
 * the other way.) Powers of two scale exactly, so no bit differs, and multiplying instead of adding exponents
 * lets NaN through. */
#ifndef ATTN_SIMD_VECTOR_MATH_H
#define ATTN_SIMD_VECTOR_MATH_H

#include "isa.h"

#define V_EACH(i) V_UNROLL for (int i = 0; i < V_EXP_GROUP; i++)

#if defined(ATTN_ISA_generic) && !defined(ATTN_GENERIC_FMA)
/* 1/2 + a * b rounded once or nearly so, as SLEEF does without FMA: the product with its error
 * (Dekker 1971, halves by clearing 12 bits), then a sum with its error. */
V_INLINE v_f32 v_half_plus_product(v_f32 a, v_f32 b) {
  const v_i32 upper = v_set1_i(-4096);
  v_f32 ah = (v_f32)((v_i32)a & upper), bh = (v_f32)((v_i32)b & upper);
  v_f32 al = a - ah, bl = b - bh;
  v_f32 product = a * b;
  v_f32 error = ah * bh - product + al * bh + ah * bl + al * bl;
  v_f32 sum = v_set1(0.5f) + product;
  v_f32 rest = v_set1(0.5f) - sum + product + error;
  return sum + rest;
}
#else
V_INLINE v_f32 v_half_plus_product(v_f32 a, v_f32 b) { return v_fma(a, b, v_set1(0.5f)); }
#endif

/* Magic number, lowest argument, and the polynomial, highest power first. */
static const float exp2_constants[8] = {
    12583040.0f,
    -126.0f,
    0.5f * 0.1535920892e-3f,
    0.5f * 0.1339262701e-2f,
    0.5f * 0.9618384764e-2f,
    0.5f * 0.5550347269e-1f,
    0.5f * 0.2402264476e+0f,
    0.5f * 0.6931471825e+0f,
};

/* V_EXP_GROUP vectors at a time, step by step across them: one evaluation is a chain of some 45
 * cycles and 17 operations, and schedulers hold about four of those, so evaluated one after the
 * other they wait for each other. The constants are read anew each time, since a compiler that keeps them in
 * registers has none left for the values. */
V_INLINE void v_exp2_group(v_f32 d[V_EXP_GROUP]) {
  const float *c = exp2_constants;
  __asm__("" : "+r"(c));
  v_f32 w[V_EXP_GROUP], s[V_EXP_GROUP], u[V_EXP_GROUP];
  V_EACH(i) w[i] = v_add(d[i], v_broadcast(c));
  V_EACH(i) s[i] = v_sub(w[i], v_broadcast(c));
  V_EACH(i) s[i] = v_sub(d[i], s[i]);
  V_EACH(i) {
    v_mask flush = v_lt(d[i], v_broadcast(c + 1));
    w[i] = v_drop(flush, v_shl23(w[i]));
    s[i] = v_drop(flush, s[i]); /* -inf would make it NaN */
  }
  V_EACH(i) u[i] = v_fma(v_broadcast(c + 2), s[i], v_broadcast(c + 3));
  V_UNROLL for (int n = 4; n < 8; n++) V_EACH(i) u[i] = v_fma(u[i], s[i], v_broadcast(c + n));
  V_EACH(i) u[i] = v_half_plus_product(u[i], s[i]);
  V_EACH(i) d[i] = v_mul(u[i], w[i]);
}

V_INLINE v_f32 v_exp2(v_f32 d) {
  v_f32 group[V_EXP_GROUP];
  V_EACH(i) group[i] = d; /* the compiler sees that one is enough */
  v_exp2_group(group);
  return group[0];
}

/* The same through the library. */
V_INLINE v_f32 v_exp2_sleef(v_f32 d) { return v_drop(v_lt(d, v_set1(-126.0f)), v_sleef_exp2(d)); }

V_INLINE v_f32 v_log(v_f32 a) { return v_sleef_log(a); }

/* Every NaN as the one that is stored. */
V_INLINE v_f32 v_canonical_nan(v_f32 a) {
  return v_select(v_unordered(a), v_set1(__builtin_nanf("")), a);
}

#endif
