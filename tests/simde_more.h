/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* AVX-512 intrinsics that simd/isa_avx512.h uses and SIMDe 0.7 lacks. Included before everything
 * else where ATTN_SIMDE is defined, after the compiler's own header, whose names it takes over. */
#ifndef ATTN_TESTS_SIMDE_MORE_H
#define ATTN_TESTS_SIMDE_MORE_H

#include <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

/* Masked lanes touch no memory. */
static inline simde__m512 more_maskz_loadu(simde__mmask16 mask, const float *p) {
  float t[16];
  for (int i = 0; i < 16; i++) t[i] = (mask >> i) & 1 ? p[i] : 0.0f;
  return simde_mm512_loadu_ps(t);
}

static inline void more_mask_storeu(float *p, simde__mmask16 mask, simde__m512 a) {
  float t[16];
  simde_mm512_storeu_ps(t, a);
  for (int i = 0; i < 16; i++)
    if ((mask >> i) & 1) p[i] = t[i];
}

/* 128-bit lanes: two of a, two of b. */
static inline simde__m512 more_shuffle_f32x4(simde__m512 a, simde__m512 b, int order) {
  float from[2][16], to[16];
  simde_mm512_storeu_ps(from[0], a);
  simde_mm512_storeu_ps(from[1], b);
  for (int lane = 0; lane < 4; lane++)
    for (int i = 0; i < 4; i++)
      to[lane * 4 + i] = from[lane / 2][((order >> (2 * lane)) & 3) * 4 + i];
  return simde_mm512_loadu_ps(to);
}

#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm512_shuffle_f32x4
#define _mm512_maskz_loadu_ps more_maskz_loadu
#define _mm512_mask_storeu_ps more_mask_storeu
#define _mm512_shuffle_f32x4 more_shuffle_f32x4

#endif
