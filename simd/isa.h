/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The vector wrappers of the instruction set that this object is compiled for.
 *
 * The build defines ATTN_ISA (a name) and ATTN_ISA_<name>; without either, as in an editor, this
 * is the generic set. Every isa_<name>.h provides, for V_LANES floats a vector:
 *
 *   types      v_f32, v_i32, v_mask (one truth value per lane)
 *   V_QUERIES  vectors of query rows, and V_ROWS rows, of the register tile
 *   V_EXP_GROUP vectors of exponentials evaluated side by side, divides ATTN_WEIGHT_SUMS
 *   memory     v_load v_store (element alignment) v_load_n v_store_n (first n lanes; a load gives 0 elsewhere)
 *   constants  v_zero v_set1 v_set1_i v_iota_i
 *   arithmetic v_add v_sub v_mul v_div v_fma(a, b, c) = a * b + c, rounded once (generic: twice)
 *   choice     v_max(a, b) = a > b ? a : b, also for NaN and zeros; v_select(m, a, b); v_keep(m, a) = m ? a : 0
 *   masks      v_lt v_eq v_ge_i v_unordered v_all v_and
 *   v_upper    the upper half of the lanes in the lower one; only for 16 lanes
 *   bits       v_shl23 (as integers), v_xor
 *   v_transpose(v_f32 row[V_LANES])
 *   V_COLUMNS, v_load_columns(column, p, stride, part): four columns, those from 4 * part on, of V_LANES rows, of
 *              which V_COLUMNS are there
 *   V_BAND_BYTES queries and values of tiles that walk the keys together, where the second cache level is large
 *   V_HOLD(a)  keeps a compiler from putting an accumulator out of its register, where one does
 *   libsleef   v_sleef_exp2 v_sleef_log
 */
#ifndef ATTN_SIMD_ISA_H
#define ATTN_SIMD_ISA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <sleef.h>

#ifndef ATTN_ISA
#define ATTN_ISA generic
#define ATTN_ISA_generic 1
#endif

/* The one place where names are pasted: ATTN_NAME(attention) is attn_attention_avx2. */
#define ATTN_NAME__(base, isa) attn_##base##_##isa
#define ATTN_NAME_(base, isa) ATTN_NAME__(base, isa)
#define ATTN_NAME(base) ATTN_NAME_(base, ATTN_ISA)

#define V_INLINE static inline __attribute__((always_inline, unused))
#define V_NOINLINE __attribute__((noinline))
/* Loops over registers are unrolled whole, so that arrays of vectors live in them. */
#define V_UNROLL _Pragma("GCC unroll 16")

#if defined(ATTN_ISA_avx512)
#include "isa_avx512.h"
#elif defined(ATTN_ISA_avx2)
#include "isa_avx2.h"
#elif defined(ATTN_ISA_neon)
#include "isa_neon.h"
#else
#include "isa_generic.h"
#endif

/* The compiler forgets how an address or a distance came about, rather than keep one per accumulator, most of them in
 * memory. */
#define V_FORGET(p) __asm__("" : "+r"(p))

#ifndef V_HOLD
#define V_HOLD(a) (void)0
#endif

#ifndef V_BAND_BYTES
#define V_BAND_BYTES (200 << 10)
#endif

#ifndef V_COLUMNS
#define V_COLUMNS 4
_Static_assert(V_LANES == 4, "a set of wider vectors has its own v_load_columns");
V_INLINE void v_load_columns(v_f32 column[4], const float *p, int64_t stride, const int part) {
  (void)part; /* there is one */
  V_UNROLL for (int i = 0; i < V_LANES; i++, p += stride) column[i] = v_load(p);
  v_transpose(column);
}
#endif

#endif
