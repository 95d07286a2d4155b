/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* AArch64 Advanced SIMD: 4 floats a vector, 32 registers. */
#ifndef ATTN_SIMD_ISA_NEON_H
#define ATTN_SIMD_ISA_NEON_H

#include <arm_neon.h>

/* 8 x 3 accumulators, 3 vectors of the right side and a broadcast of the 32 registers. */
#define V_LANES 4
#define V_QUERIES 3
#define V_ROWS 8
#define V_EXP_GROUP 8

typedef float32x4_t v_f32;
typedef int32x4_t v_i32;
typedef uint32x4_t v_mask;

V_INLINE v_f32 v_load(const float *p) { return vld1q_f32(p); }
V_INLINE void v_store(float *p, v_f32 a) { vst1q_f32(p, a); }
V_INLINE v_i32 v_set1_i(int32_t a) { return vdupq_n_s32(a); }
V_INLINE v_i32 v_iota_i(void) {
  static const int32_t iota[4] = {0, 1, 2, 3};
  return vld1q_s32(iota);
}
V_INLINE v_f32 v_zero(void) { return vdupq_n_f32(0.0f); }
V_INLINE v_f32 v_set1(float a) { return vdupq_n_f32(a); }
V_INLINE v_f32 v_broadcast(const float *p) { return vld1q_dup_f32(p); }
V_INLINE v_f32 v_load_n(const float *p, int64_t n) {
  float t[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int64_t i = 0; i < n; i++) t[i] = p[i];
  return vld1q_f32(t);
}
V_INLINE void v_store_n(float *p, v_f32 a, int64_t n) {
  float t[4];
  vst1q_f32(t, a);
  for (int64_t i = 0; i < n; i++) p[i] = t[i];
}

V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return vaddq_f32(a, b); }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return vsubq_f32(a, b); }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return vmulq_f32(a, b); }
V_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return vdivq_f32(a, b); }
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return vfmaq_f32(c, a, b); }

V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return vbslq_f32(m, a, b); }
/* FMAX would propagate NaN and order zeros, which x86 does not: compare and choose. */
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
V_INLINE v_f32 v_keep(v_mask m, v_f32 a) {
  return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(a)));
}
V_INLINE v_f32 v_drop(v_mask m, v_f32 a) {
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), m));
}

V_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return vcltq_f32(a, b); }
V_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return vceqq_f32(a, b); }
V_INLINE v_mask v_unordered(v_f32 a) { return vmvnq_u32(vceqq_f32(a, a)); }
V_INLINE v_mask v_ge_i(v_i32 a, v_i32 b) { return vcgeq_s32(a, b); }
V_INLINE int v_all(v_mask m) { return vminvq_u32(m) != 0; }
V_INLINE v_mask v_and(v_mask a, v_mask b) { return vandq_u32(a, b); }

V_INLINE v_f32 v_shl23(v_f32 a) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(a), 23));
}
V_INLINE v_f32 v_xor(v_f32 a, v_f32 b) {
  return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}

V_INLINE void v_transpose(v_f32 r[V_LANES]) {
  v_f32 a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]);
  v_f32 c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);
  float64x2_t aa = vreinterpretq_f64_f32(a), bb = vreinterpretq_f64_f32(b);
  float64x2_t cc = vreinterpretq_f64_f32(c), dd = vreinterpretq_f64_f32(d);
  r[0] = vreinterpretq_f32_f64(vtrn1q_f64(aa, cc));
  r[1] = vreinterpretq_f32_f64(vtrn1q_f64(bb, dd));
  r[2] = vreinterpretq_f32_f64(vtrn2q_f64(aa, cc));
  r[3] = vreinterpretq_f32_f64(vtrn2q_f64(bb, dd));
}

V_INLINE v_f32 v_sleef_exp2(v_f32 a) { return Sleef_finz_exp2f4_u10advsimd(a); }
V_INLINE v_f32 v_sleef_log(v_f32 a) { return Sleef_finz_logf4_u10advsimd(a); }

#endif
