/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Initial weights as the Flax modules draw them: LeCun normal kernels, zero biases. Every element has its own
 * counter of the generator, so the order in which they are made does not matter. */
#include "init.h"

#include "layer_config.h"
#include "philox.h"
#include "simd/kernels.h"
#include "status.h"

#include <math.h>
#include <sleef.h>
#include <stdlib.h>

/* P(x < -2) and P(|x| < 2) of the standard normal distribution. */
#define LOWER_TAIL 0.022750131948179209
#define MIDDLE 0.95449973610364158
/* Standard deviation of the standard normal distribution truncated to [-2, 2]. */
#define TRUNCATED_DEVIATION 0.87962566103423978

/* c[0] + c[1] x + ... + c[7] x^7 */
static double polynomial(const double c[8], double x) {
  double sum = c[7];
  for (int i = 6; i >= 0; i--) sum = sum * x + c[i];
  return sum;
}

/* Algorithm AS 241, PPND16 (Wichura, "The percentage points of the normal distribution", Applied
 * Statistics 37, 1988), without its branch for the far tails. The logarithm is SLEEF's fixed-result one, so that all machines
 * draw the same weights. */
double attn_normal_quantile(double probability) {
  static const double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                              1.9715909503065514427e3, 1.3731693765509461125e4,
                              4.5921953931549871457e4, 6.7265770927008700853e4,
                              3.3430575583588128105e4, 2.5090809287301226727e3};
  static const double b[8] = {1.0,
                              4.2313330701600911252e1,
                              6.8718700749205790830e2,
                              5.3941960214247511077e3,
                              2.1213794301586595867e4,
                              3.9307895800092710610e4,
                              2.8729085735721942674e4,
                              5.2264952788528545610e3};
  static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                              5.76949722146069140550e0,  3.64784832476320460504e0,
                              1.27045825245236838258e0,  2.41780725177450611770e-1,
                              2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static const double d[8] = {1.0,
                              2.05319162663775882187e0,
                              1.67638483018380384940e0,
                              6.89767334985100004550e-1,
                              1.48103976427480074590e-1,
                              1.51986665636164571966e-2,
                              5.47593808499534494600e-4,
                              1.05075007164441684324e-9};
  double q = probability - 0.5;
  if (fabs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  double tail = q < 0 ? probability : 1.0 - probability;
  double r = sqrt(-Sleef_cinz_logd1_u10purec(tail)) - 1.6;
  double x = polynomial(c, r) / polynomial(d, r);
  return q < 0 ? -x : x;
}

void attn_init_kernel(float *kernel, int64_t fan_in, int64_t fan_out, uint64_t seed,
                      uint64_t tensor) {
  double factor = 1.0 / (sqrt((double)fan_in) * TRUNCATED_DEVIATION);
  int64_t count = fan_in * fan_out;
  for (int64_t i = 0; i < count; i += 2) {
    attn_philox random = attn_philox4x32((uint64_t)i / 2, tensor, seed);
    for (int64_t j = 0; j < 2 && i + j < count; j++) {
      uint64_t bits = random.word[2 * j] | (uint64_t)random.word[2 * j + 1] << 32;
      double uniform = ((double)(bits >> 11) + 0.5) * 0x1p-53;
      kernel[i + j] = (float)(attn_normal_quantile(LOWER_TAIL + MIDDLE * uniform) * factor);
    }
  }
}

attn_status attn_layer_create_init(const attn_layer_config *config, uint64_t seed,
                                   attn_layer **layer) {
  if (layer == NULL)
    return attn_fail(ATTN_INVALID_ARGUMENT, "layer is NULL; it must point to a handle");
  attn_layer_config c;
  attn_status status = attn_layer_config_copy(config, &c);
  if (status == ATTN_OK) status = attn_layer_config_resolve(&c);
  if (status != ATTN_OK) return status;
  int64_t mixed = c.num_heads * c.head_size, all = mixed + 2 * c.num_kv_heads * c.head_size;
  float *qkv = malloc((size_t)(c.d_model * all) * sizeof(float));
  float *out = malloc((size_t)(c.d_model * mixed) * sizeof(float));
  if (qkv == NULL || out == NULL) {
    status = attn_fail(ATTN_OUT_OF_MEMORY,
                       "out of memory for the weights of a layer of d_model "
                       "%lld",
                       (long long)c.d_model);
  } else {
    attn_fpmode mode = attn_fpmode_enter();
    attn_init_kernel(qkv, c.d_model, all, seed, 0);
    attn_init_kernel(out, mixed, c.d_model, seed, 1);
    attn_fpmode_leave(mode);
    attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
    weights.qkv = (attn_weight){.kernel = qkv, .in_stride = all, .out_stride = 1};
    weights.out = (attn_weight){.kernel = out, .in_stride = c.d_model, .out_stride = 1};
    status = attn_layer_create(&c, &weights, layer);
  }
  free(qkv);
  free(out);
  return status;
}
