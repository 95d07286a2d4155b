/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* y = x W + b on packed weights. */
#ifndef ATTN_ENGINE_LINEAR_H
#define ATTN_ENGINE_LINEAR_H

#include <attn/layer.h>

#include "simd/kernels.h"

/* Weights packed for one instruction set: panels of `kernels->panel` columns, depth-major inside. */
typedef struct attn_linear {
  const attn_kernels *kernels;
  int64_t depth, columns;
  float *w;    /* whole panels; columns that do not exist are 0 */
  float *bias; /* the same; NULL: none */
} attn_linear;

/* All columns 0 and no bias; ATTN_OUT_OF_MEMORY when there is no room. */
attn_status attn_linear_init(attn_linear *linear, const attn_kernels *kernels, int64_t depth,
                             int64_t columns);
void attn_linear_free(attn_linear *linear);

/* Copies `count` columns of a matrix and its bias to columns [first, first + count). */
attn_status attn_linear_pack(attn_linear *linear, const attn_weight *weight, int64_t first,
                             int64_t count);

/* Bytes that attn_linear_run() needs for so many rows and at most so many threads. */
size_t attn_linear_workspace(const attn_linear *linear, int64_t rows, int32_t threads);

/* Rows of x and y are dense; consecutive rows are x_row and y_row apart. */
attn_status attn_linear_run(const attn_linear *linear, const float *x, int64_t x_row, int64_t rows,
                            float *y, int64_t y_row, int32_t threads, void *workspace,
                            attn_cancel_fn cancel, void *cancel_user);

#endif
