/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the objects of one instruction set offer to their table (table.c). */
#ifndef ATTN_SIMD_BODY_H
#define ATTN_SIMD_BODY_H

#include "isa.h"
#include "kernels.h"

void ATTN_NAME(attention)(const attn_kernels *kernels, const attn_attention_task *task,
                          void *workspace);
void ATTN_NAME(combine)(const attn_attention_task *task, const float *states, int64_t first,
                        int64_t count, size_t stride, void *workspace);
void ATTN_NAME(interleave)(float *keys, int64_t slot, const float *from, int64_t row, int64_t dim,
                           int64_t size, int64_t rows);
size_t ATTN_NAME(attention_workspace)(const attn_attention_task *task);
size_t ATTN_NAME(combine_workspace)(const attn_attention_task *task, int64_t count);
size_t ATTN_NAME(linear_workspace)(int64_t rows);
void ATTN_NAME(linear)(const attn_linear_task *task, void *workspace);
double ATTN_NAME(peak)(int64_t n);

#endif
