/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* AVX2 and FMA: 8 floats a vector, 16 registers. */
#ifndef ATTN_SIMD_ISA_AVX2_H
#define ATTN_SIMD_ISA_AVX2_H

#include <immintrin.h>

/* 4 x 3 accumulators, 3 vectors of the right side and a broadcast fill the 16 registers;
 * 7 loads serve 12 multiply-adds. */
#define V_LANES 8
#define V_QUERIES 3
#define V_ROWS 4
#define V_EXP_GROUP 4

#ifdef __clang__
/* The value exists here. clang 19 else moves loads of the next step up so far that no register is left for one of
 * the accumulators, and the tile runs at half its speed. */
#define V_HOLD(a) __asm__ volatile("" : "+x"(a))
#endif

typedef __m256 v_f32;
typedef __m256i v_i32;
typedef __m256 v_mask;

#define V_MM(name) _mm256_##name
#include "isa_x86.h"

V_INLINE v_f32 v_load(const float *p) { return _mm256_loadu_ps(p); }
V_INLINE void v_store(float *p, v_f32 a) { _mm256_storeu_ps(p, a); }
V_INLINE v_i32 v_iota_i(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
V_INLINE v_i32 v_set1_i(int32_t a) { return _mm256_set1_epi32(a); }
V_INLINE __m256i v_first_n(int64_t n) {
  return _mm256_cmpgt_epi32(v_set1_i((int32_t)n), v_iota_i());
}
V_INLINE v_f32 v_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, v_first_n(n)); }
V_INLINE void v_store_n(float *p, v_f32 a, int64_t n) { _mm256_maskstore_ps(p, v_first_n(n), a); }
V_INLINE v_f32 v_zero(void) { return _mm256_setzero_ps(); }
V_INLINE v_f32 v_set1(float a) { return _mm256_set1_ps(a); }
/* Straight from memory: a scalar load followed by a shuffle would use the shuffle port. */
V_INLINE v_f32 v_broadcast(const float *p) { return _mm256_broadcast_ss(p); }

V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return _mm256_add_ps(a, b); }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return _mm256_sub_ps(a, b); }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return _mm256_mul_ps(a, b); }
V_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return _mm256_div_ps(a, b); }
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm256_fmadd_ps(a, b, c); }

/* MAXPS is a > b ? a : b, with b for unordered operands and equal zeros. */
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return _mm256_max_ps(a, b); }
V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return _mm256_blendv_ps(b, a, m); }
V_INLINE v_f32 v_keep(v_mask m, v_f32 a) { return _mm256_and_ps(m, a); }

V_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
V_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
V_INLINE v_mask v_unordered(v_f32 a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
V_INLINE v_mask v_ge_i(v_i32 a, v_i32 b) {
  return _mm256_castsi256_ps(_mm256_or_si256(_mm256_cmpgt_epi32(a, b), _mm256_cmpeq_epi32(a, b)));
}
V_INLINE int v_all(v_mask m) { return _mm256_movemask_ps(m) == 0xff; }
V_INLINE v_mask v_and(v_mask a, v_mask b) { return _mm256_and_ps(a, b); }
/* a where not m, else 0 */
V_INLINE v_f32 v_drop(v_mask m, v_f32 a) { return _mm256_andnot_ps(m, a); }

V_INLINE v_f32 v_shl23(v_f32 a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23));
}
V_INLINE v_f32 v_xor(v_f32 a, v_f32 b) { return _mm256_xor_ps(a, b); }

V_INLINE void v_transpose(v_f32 r[V_LANES]) {
  v_f32 b[8];
  for (int i = 0; i < 8; i += 4) v_quads(b + i, r + i);
  for (int i = 0; i < 4; i++) {
    r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

/* Rows i and i + 4 meet in a blend of two loads, which any port does, rather than in a shuffle: 1.1 times as fast. Each
 * load stays within the eight columns. */
#define V_COLUMNS 8
V_INLINE void v_load_columns(v_f32 column[4], const float *p, int64_t stride, const int part) {
  v_f32 r[4];
  for (int i = 0; i < 4; i++) {
    const float *low = p + i * stride, *high = low + 4 * stride;
    if (part == 0) {
      const __m256 upper = _mm256_broadcast_ps((const __m128 *)high);
      r[i] = _mm256_blend_ps(upper, _mm256_loadu_ps(low), 0x0f);
    } else {
      const __m256 lower = _mm256_broadcast_ps((const __m128 *)(low + 4));
      r[i] = _mm256_blend_ps(lower, _mm256_loadu_ps(high), 0xf0);
    }
  }
  v_quads(column, r);
}

V_INLINE v_f32 v_sleef_exp2(v_f32 a) { return Sleef_finz_exp2f8_u10avx2(a); }
V_INLINE v_f32 v_sleef_log(v_f32 a) { return Sleef_finz_logf8_u10avx2(a); }

#endif
