/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* AVX-512 F, BW, DQ, VL: 16 floats a vector, 32 registers, mask registers. */
#ifndef ATTN_SIMD_ISA_AVX512_H
#define ATTN_SIMD_ISA_AVX512_H

#ifdef ATTN_SIMDE
/* The same source run on lesser machines, for tests: SIMDe stands in for the intrinsics. */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>
#else
#include <immintrin.h>
#endif

/* 8 x 3 accumulators, 3 vectors of the right side and a broadcast of the 32 registers;
 * 11 loads, 8 of them folded broadcasts, serve 24 multiply-adds. */
#define V_LANES 16
#define V_QUERIES 3
#define V_ROWS 8
#define V_BAND_BYTES (400 << 10) /* CPUs that have it have a second level of 1 MB and more */
#define V_EXP_GROUP 8

typedef __m512 v_f32;
typedef __m512i v_i32;
typedef __mmask16 v_mask;

#define V_MM(name) _mm512_##name
#include "isa_x86.h"

V_INLINE v_f32 v_load(const float *p) { return _mm512_loadu_ps(p); }
V_INLINE void v_store(float *p, v_f32 a) { _mm512_storeu_ps(p, a); }
V_INLINE v_i32 v_iota_i(void) {
  return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}
V_INLINE v_i32 v_set1_i(int32_t a) { return _mm512_set1_epi32(a); }
V_INLINE v_mask v_first_n(int64_t n) { return (v_mask)((1u << n) - 1u); }
V_INLINE v_f32 v_load_n(const float *p, int64_t n) {
  return _mm512_maskz_loadu_ps(v_first_n(n), p);
}
V_INLINE void v_store_n(float *p, v_f32 a, int64_t n) { _mm512_mask_storeu_ps(p, v_first_n(n), a); }
V_INLINE v_f32 v_zero(void) { return _mm512_setzero_ps(); }
V_INLINE v_f32 v_set1(float a) { return _mm512_set1_ps(a); }
V_INLINE v_f32 v_broadcast(const float *p) { return _mm512_set1_ps(*p); }

V_INLINE v_f32 v_add(v_f32 a, v_f32 b) { return _mm512_add_ps(a, b); }
V_INLINE v_f32 v_sub(v_f32 a, v_f32 b) { return _mm512_sub_ps(a, b); }
V_INLINE v_f32 v_mul(v_f32 a, v_f32 b) { return _mm512_mul_ps(a, b); }
V_INLINE v_f32 v_div(v_f32 a, v_f32 b) { return _mm512_div_ps(a, b); }
V_INLINE v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm512_fmadd_ps(a, b, c); }

/* VMAXPS is a > b ? a : b, with b for unordered operands and equal zeros. */
V_INLINE v_f32 v_max(v_f32 a, v_f32 b) { return _mm512_max_ps(a, b); }
V_INLINE v_f32 v_select(v_mask m, v_f32 a, v_f32 b) { return _mm512_mask_blend_ps(m, b, a); }
V_INLINE v_f32 v_keep(v_mask m, v_f32 a) { return _mm512_maskz_mov_ps(m, a); }
V_INLINE v_f32 v_drop(v_mask m, v_f32 a) { return _mm512_maskz_mov_ps((v_mask)~m, a); }

V_INLINE v_mask v_lt(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V_INLINE v_mask v_eq(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
V_INLINE v_mask v_unordered(v_f32 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
V_INLINE v_mask v_ge_i(v_i32 a, v_i32 b) { return _mm512_cmpge_epi32_mask(a, b); }
V_INLINE int v_all(v_mask m) { return m == 0xffff; }
V_INLINE v_mask v_and(v_mask a, v_mask b) { return (v_mask)(a & b); }
/* The upper half of the lanes in the lower one. */
V_INLINE v_f32 v_upper(v_f32 a) { return _mm512_shuffle_f32x4(a, a, 0xee); }

V_INLINE v_f32 v_shl23(v_f32 a) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23));
}
V_INLINE v_f32 v_xor(v_f32 a, v_f32 b) { return _mm512_xor_ps(a, b); }

V_INLINE void v_transpose(v_f32 r[V_LANES]) {
  v_f32 b[16];
  for (int i = 0; i < 16; i += 4) v_quads(b + i, r + i);
  /* b[4g + c] holds, in 128-bit lane l, column 4l + c of rows 4g ... 4g + 3. */
  for (int c = 0; c < 4; c++) {
    v_f32 low01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x44);
    v_f32 high01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xee);
    v_f32 low23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x44);
    v_f32 high23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xee);
    r[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    r[4 + c] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    r[8 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    r[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

/* Rows i, i + 4, i + 8 and i + 12 meet in the load, which spares shuffles across quarters. */
#define V_COLUMNS 4
V_INLINE void v_load_columns(v_f32 column[4], const float *p, int64_t stride, const int part) {
  (void)part; /* there is one */
  v_f32 r[4];
  for (int i = 0; i < 4; i++) {
    const float *q = p + i * stride;
    v_f32 row = _mm512_castps128_ps512(_mm_loadu_ps(q));
    row = _mm512_insertf32x4(row, _mm_loadu_ps(q + 4 * stride), 1);
    row = _mm512_insertf32x4(row, _mm_loadu_ps(q + 8 * stride), 2);
    r[i] = _mm512_insertf32x4(row, _mm_loadu_ps(q + 12 * stride), 3);
  }
  v_quads(column, r);
}

#ifdef ATTN_SIMDE
/* libsleef declares its 512-bit functions only to compilers that target AVX-512; its fixed-result
 * functions of 256 bits give the same bits. */
V_INLINE v_f32 v_sleef_halves(v_f32 a, __typeof__(Sleef_finz_exp2f8_u10avx2) *f) {
  float t[16];
  v_store(t, a);
  _mm256_storeu_ps(t, f(_mm256_loadu_ps(t)));
  _mm256_storeu_ps(t + 8, f(_mm256_loadu_ps(t + 8)));
  return v_load(t);
}
V_INLINE v_f32 v_sleef_exp2(v_f32 a) { return v_sleef_halves(a, Sleef_finz_exp2f8_u10avx2); }
V_INLINE v_f32 v_sleef_log(v_f32 a) { return v_sleef_halves(a, Sleef_finz_logf8_u10avx2); }
#else
V_INLINE v_f32 v_sleef_exp2(v_f32 a) { return Sleef_finz_exp2f16_u10avx512f(a); }
V_INLINE v_f32 v_sleef_log(v_f32 a) { return Sleef_finz_logf16_u10avx512f(a); }
#endif

#endif
