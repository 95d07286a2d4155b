/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Random initial weights. */
#ifndef ATTN_ENGINE_INIT_H
#define ATTN_ENGINE_INIT_H

#include <stdint.h>

/* Quantile function of the standard normal distribution for probabilities from 1e-11 to 1 - 1e-11,
 * with a relative error of about 1e-16. */
double attn_normal_quantile(double probability);

/* Fills a (fan_in, fan_out) kernel: element i of tensor `tensor` is a function of (seed, tensor, i,
 * fan_in) and of nothing else. */
void attn_init_kernel(float *kernel, int64_t fan_in, int64_t fan_out, uint64_t seed,
                      uint64_t tensor);

#endif
