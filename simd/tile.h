/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The one register tile that scores, values and projections are made of:
 *
 *      acc[r][.] += left[r][k * step] * right[k][.]        for k ascending, one FMA each
 *
 * `left` is read element by element where it lies and broadcast, so it needs neither packing nor
 * any particular layout; `right` has V_TILE floats a row. V_ROWS x V_QUERIES accumulators, chosen in isa_<name>.h, hide the
 * latency of the multiply-adds. A tile with fewer rows repeats its last row pointer: no variants, no reads
 * outside. */
#ifndef ATTN_SIMD_TILE_H
#define ATTN_SIMD_TILE_H

#include "isa.h"

#define V_TILE (V_LANES * V_QUERIES)

/* Query tiles of one attention task at most. They share the packing of keys; more would bring little, be fewer tasks to
 * balance, and longer ones to wait for when a call is cancelled. */
enum { ATTN_TASK_TILES = 48 };

/* Few iterations, so that the branch predictor learns where the loop ends: a miss costs as much as
 * three or four steps, and a run over a small head has only 32. */
#define V_STEPS _Pragma("GCC unroll 4")

typedef struct tile_acc {
  v_f32 at[V_ROWS][V_QUERIES];
} tile_acc;

V_INLINE void tile_zero(tile_acc *acc) {
  V_UNROLL for (int r = 0; r < V_ROWS; r++) {
    V_UNROLL for (int q = 0; q < V_QUERIES; q++) acc->at[r][q] = v_zero();
  }
}

/* Row pointers first, first + stride, ... of `rows` valid rows, the last one repeated. */
V_INLINE void tile_rows(const float *left[V_ROWS], const float *first, int64_t stride,
                        int64_t rows) {
  V_UNROLL for (int r = 0; r < V_ROWS; r++) left[r] = first + (r < rows ? r : rows - 1) * stride;
}

/* Rows that begin one element apart, told to the compiler: it needs one address for all. With a step that it knows, too,
 * loops have a tenth fewer instructions, which is 1 % of 1024 x 64 (Zen 3). */
V_INLINE void side_by_side(const float *left[V_ROWS]) {
  V_UNROLL for (int r = 1; r < V_ROWS; r++) left[r] = left[0] + r;
}

/* Vectors [from, V_QUERIES) of the tile; `from` is a constant wherever this is inlined. */
V_INLINE void tile_accumulate_from(tile_acc *acc, const int from, const float *const left[V_ROWS],
                                   int64_t step, const float *right, int64_t n) {
  int64_t at = 0;
  V_STEPS for (int64_t k = 0; k < n; k++, at += step, right += V_TILE) {
    v_f32 b[V_QUERIES];
    V_UNROLL for (int q = from; q < V_QUERIES; q++) b[q] = v_load(right + q * V_LANES);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      v_f32 a = v_broadcast(left[r] + at);
      V_UNROLL for (int q = from; q < V_QUERIES; q++) acc->at[r][q] = v_fma(a, b[q], acc->at[r][q]);
      V_UNROLL for (int q = from; q < V_QUERIES; q++) V_HOLD(acc->at[r][q]);
    }
  }
}

/* The same where key k counts, in vector `from`, only for lanes with limit >= key + k. The right side
 * is 0 for the others; the left side is made 0 for them, since NaN and Inf times 0 would count. */
V_INLINE void tile_accumulate_masked(tile_acc *acc, const int from, const float *const left[V_ROWS],
                                     int64_t step, const float *right, int64_t n, v_i32 limit,
                                     int32_t key) {
  int64_t at = 0;
  V_STEPS for (int64_t k = 0; k < n; k++, at += step, right += V_TILE) {
    v_mask seen = v_ge_i(limit, v_set1_i(key + (int32_t)k));
    v_f32 b[V_QUERIES];
    V_UNROLL for (int q = from; q < V_QUERIES; q++) b[q] = v_load(right + q * V_LANES);
    V_UNROLL for (int r = 0; r < V_ROWS; r++) {
      v_f32 a = v_broadcast(left[r] + at);
      acc->at[r][from] = v_fma(v_keep(seen, a), b[from], acc->at[r][from]);
      V_UNROLL for (int q = from + 1; q < V_QUERIES; q++) {
        acc->at[r][q] = v_fma(a, b[q], acc->at[r][q]);
      }
      V_UNROLL for (int q = from; q < V_QUERIES; q++) V_HOLD(acc->at[r][q]);
    }
  }
}

/* A strip: few rows and many vectors, for products without V_ROWS rows to share what is read of `right`:
 *
 *      acc[(r * panels + p) * vectors + q] += left[r][k * left_step] * right[p][k * right_step + q * V_LANES + .]
 *
 * for k ascending, one FMA each, as in the tile. `rows`, `panels` and `vectors` are constants wherever this is
 * inlined. Their product, the number of accumulators, is V_ROWS * V_QUERIES at most, to stay in registers
 * (the fallback without FMA exceeds it), and should be 8 at least, to hide the latency of the multiply-adds. Panels are streams of their own: from behind the
 * second cache level, 3 or 4 are read at 1.3 to 1.5 times the speed of one (Zen 3). */
V_INLINE void strip_accumulate(v_f32 acc[], const int rows, const int panels, const int vectors,
                               const float *const left[], int64_t left_step,
                               const float *const right[], int64_t right_step, int64_t n) {
  const int wide = panels * vectors;
  int64_t at = 0, from = 0;
  V_STEPS for (int64_t k = 0; k < n; k++, at += left_step, from += right_step) {
    v_f32 held[V_ROWS]; /* the side with fewer vectors */
    if (rows <= wide) {
      V_UNROLL for (int r = 0; r < rows; r++) held[r] = v_broadcast(left[r] + at);
      V_UNROLL for (int i = 0; i < wide; i++) {
        const v_f32 b = v_load(right[i / vectors] + from + i % vectors * V_LANES);
        V_UNROLL for (int r = 0; r < rows; r++) {
          acc[r * wide + i] = v_fma(held[r], b, acc[r * wide + i]);
        }
      }
    } else {
      V_UNROLL for (int i = 0; i < wide; i++) {
        held[i] = v_load(right[i / vectors] + from + i % vectors * V_LANES);
      }
      V_UNROLL for (int r = 0; r < rows; r++) {
        const v_f32 a = v_broadcast(left[r] + at);
        V_UNROLL for (int i = 0; i < wide; i++) acc[r * wide + i] =
            v_fma(a, held[i], acc[r * wide + i]);
        V_UNROLL for (int i = 0; i < wide; i++) V_HOLD(acc[r * wide + i]);
      }
    }
  }
}

#endif
