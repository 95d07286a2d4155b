/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Plain compiler vectors of 4 floats: what every machine can run, without fused multiply-add. It is
 * therefore outside the promise of the same bits, unless ATTN_GENERIC_FMA (a test build) calls
 * fmaf() in its place. */
#ifndef ATTN_SIMD_ISA_GENERIC_H
#define ATTN_SIMD_ISA_GENERIC_H

#define V_LANES 4
#define V_QUERIES 2
#define V_ROWS 4
#define V_EXP_GROUP 2

typedef float v_f32 __attribute__((vector_size(16)));
typedef int32_t v_i32 __attribute__((vector_size(16)));
typedef int32_t v_mask __attribute__((vector_size(16)));

V_INLINE v_f32 v_load(const float *p) {
  v_f32 a;
  memcpy(&a, p, sizeof(a));
  return a;
}
V_INLINE void v_store(float *p, v_f32 a) { memcpy(p, &a, sizeof(a)); }
V_INLINE v_i32 v_set1_i(int32_t a) { return (v_i32){a, a, a, a}; }
V_INLINE v_i32 v_iota_i(void) { return (v_i32){0, 1, 2, 3}; }
V_INLINE v_f32 v_set1(float a) { return (v_f32){a, a, a, a}; }
V_INLINE v_f32 v_zero(void) { return v_set1(0.0f); }
V_INLINE v_f32 v_broadcast(const float *p) { return v_set1(*p); }
V_INLINE v_f32 v_load_n(const float *p, int64_t n) {
  v_f32 a = v_zero();
  for (int64_t i = 0; i < n; i++) a[i] = p[i];
  return a;
}
V_INLINE void v_store_n(float *p, v_f32 a, int64_t n) {
  for (int64_t i = 0; i < n; i++) p[i] = a[i];
}

V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return a + b; }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return a - b; }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return a * b; }
V_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return a / b; }
#ifdef ATTN_GENERIC_FMA
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) {
  return (v_f32){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]),
                 fmaf(a[3], b[3], c[3])};
}
#else
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return a * b + c; }
#endif

V_INLINE v_f32 v_keep(v_mask m, v_f32 a) { return (v_f32)(m & (v_mask)a); }
V_INLINE v_f32 v_drop(v_mask m, v_f32 a) { return (v_f32)(~m & (v_mask)a); }
V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) {
  return (v_f32)((m & (v_mask)a) | (~m & (v_mask)b));
}
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return v_select(a > b, a, b); }

V_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return a < b; }
V_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return a == b; }
V_INLINE v_mask v_unordered(v_f32 a) { return a != a; }
V_INLINE v_mask v_ge_i(v_i32 a, v_i32 b) { return a >= b; }
V_INLINE int v_all(v_mask m) { return (m[0] & m[1] & m[2] & m[3]) != 0; }
V_INLINE v_mask v_and(v_mask a, v_mask b) { return a & b; }

V_INLINE v_f32 v_shl23(v_f32 a) { return (v_f32)((v_i32)a << 23); }
V_INLINE v_f32 v_xor(v_f32 a, v_f32 b) { return (v_f32)((v_i32)a ^ (v_i32)b); }

V_INLINE void v_transpose(v_f32 r[V_LANES]) {
  v_f32 a = r[0], b = r[1], c = r[2], d = r[3];
  r[0] = (v_f32){a[0], b[0], c[0], d[0]};
  r[1] = (v_f32){a[1], b[1], c[1], d[1]};
  r[2] = (v_f32){a[2], b[2], c[2], d[2]};
  r[3] = (v_f32){a[3], b[3], c[3], d[3]};
}

/* One lane at a time; the fixed-result variants without or with FMA. */
#ifdef ATTN_GENERIC_FMA
#define ATTN_SLEEF_1(name) Sleef_finz_##name##f1_u10purecfma
#else
#define ATTN_SLEEF_1(name) Sleef_cinz_##name##f1_u10purec
#endif
V_INLINE v_f32 v_sleef_exp2(v_f32 a) {
  return (v_f32){ATTN_SLEEF_1(exp2)(a[0]), ATTN_SLEEF_1(exp2)(a[1]), ATTN_SLEEF_1(exp2)(a[2]),
                 ATTN_SLEEF_1(exp2)(a[3])};
}
V_INLINE v_f32 v_sleef_log(v_f32 a) {
  return (v_f32){ATTN_SLEEF_1(log)(a[0]), ATTN_SLEEF_1(log)(a[1]), ATTN_SLEEF_1(log)(a[2]),
                 ATTN_SLEEF_1(log)(a[3])};
}

#endif
