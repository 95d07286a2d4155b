/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Initial weights: the distribution that LeCun normal promises, and values that depend on seed and place
 * alone, on every machine. */

#include "check.h"
#include "engine/init.h"
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Standard normal distribution function. */
static double normal(double z) { return 0.5 * erfc(-z / sqrt(2.0)); }

static void test_quantile(void) {
  check_context("quantiles");
  /* Tabulated: Abramowitz and Stegun, table 26.5, to the digits that a double has. */
  CHECK_NEAR(attn_normal_quantile(0.975), 1.959963984540054, 4e-15);
  CHECK_NEAR(attn_normal_quantile(0.25), -0.6744897501960817, 2e-15);
  CHECK_INT(attn_normal_quantile(0.5) == 0, 1);
  double previous = -INFINITY;
  for (int i = 1; i < 20000; i++) {
    double p = i / 20000.0, z = attn_normal_quantile(p);
    /* An error dz in z moves the probability by density times dz. */
    double density = exp(-z * z / 2) / sqrt(2 * acos(-1.0));
    CHECK_NEAR(normal(z), p, 1e-15 * fabs(z) * density + 4e-16);
    CHECK(z > previous);
    previous = z;
  }
}

static void test_distribution(void) {
  enum { IN = 257, OUT = 1024 };
  check_context("distribution");
  const int64_t count = (int64_t)IN * OUT;
  float *w = check_floats((size_t)count);
  attn_init_kernel(w, IN, OUT, 1234567, 0);
  double sum = 0, squares = 0, fourth = 0, largest = 0, neighbours = 0, below = 0;
  double scale = sqrt((double)IN);
  for (int64_t i = 0; i < count; i++) {
    double x = (double)w[i] * scale;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    largest = fmax(largest, fabs(x));
    below += x < -1;
    if (i > 0) neighbours += x * (double)w[i - 1] * scale;
  }
  double n = (double)count, deviation = 0.87962566103423978, error = 1 / sqrt(n);
  /* Moments of a normal variable cut at +-2 and stretched to variance 1, within five standard errors. */
  CHECK_NEAR(sum / n, 0.0, 5 * error);
  double kurtosis = fourth / n;
  CHECK_NEAR(squares / n, 1.0, 5 * error * sqrt(kurtosis - 1));
  double density2 = exp(-2.0) / sqrt(2 * acos(-1.0)), middle = 2 * normal(2) - 1;
  double moment2 = 1 - 4 * density2 / middle, moment4 = 3 * moment2 - 16 * density2 / middle;
  CHECK_NEAR(moment2, deviation * deviation, 1e-12);
  CHECK_NEAR(kurtosis, moment4 / (moment2 * moment2), 0.03);
  CHECK_NEAR(neighbours / n, 0.0, 5 * error);
  double share = (normal(-deviation) - normal(-2)) / middle;
  CHECK_NEAR(below / n, share, 5 * error * sqrt(share * (1 - share)));
  CHECK(largest <= 2 / deviation * (1 + 1e-6));
  CHECK(largest > 1.999 / deviation);
  free(w);
}

/* Computed apart from this program from the definitions of the generator and the quantile. */
static void test_pinned(void) {
  check_context("pinned values");
  static const uint32_t want[6] = {0xbd77b502, 0xbea0b3b1, 0xbeaf78cf,
                                   0xbdb44f32, 0x3e9fd3e6, 0x3f121ab1};
  static const uint32_t want_other[3] = {0xbf2196f2, 0xbe8b3bbb, 0x3e84e3f1};
  float w[6];
  attn_init_kernel(w, 2, 3, 42, 0);
  for (int i = 0; i < 6; i++) CHECK_INT(float_bits(w[i]), want[i]);
  attn_init_kernel(w, 3, 1, UINT64_C(0x123456789abcdef0), 1);
  for (int i = 0; i < 3; i++) CHECK_INT(float_bits(w[i]), want_other[i]);
}

static void test_independence(void) {
  check_context("seed and tensor");
  float a[64], b[64];
  attn_init_kernel(a, 8, 8, 5, 0);
  attn_init_kernel(b, 8, 8, 5, 0);
  CHECK_BITS(b, a, 64);
  attn_init_kernel(b, 8, 4, 5, 0); /* a shorter kernel is the beginning of a longer one */
  CHECK_BITS(b, a, 32);
  static const uint64_t seeds[] = {6, 5 + (UINT64_C(1) << 32), 5 + (UINT64_C(1) << 63)};
  for (int i = 0; i < 3; i++) {
    attn_init_kernel(b, 8, 8, seeds[i], 0);
    int equal = 0;
    for (int j = 0; j < 64; j++) equal += a[j] == b[j];
    CHECK_INT(equal, 0);
  }
  attn_init_kernel(b, 8, 8, 5, 1);
  CHECK(memcmp(a, b, sizeof(a)) != 0);
}

/* The layer is made of those kernels: fused qkv as tensor 0, the output projection as tensor 1. */
static void test_layer(void) {
  enum { D = 6, H = 4, HKV = 2, DH = 5, ALL = (H + 2 * HKV) * DH, T = 9 };
  check_context("layer");
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  c.d_model = D;
  c.num_heads = H;
  c.has_num_kv_heads = c.has_head_size = true;
  c.num_kv_heads = HKV;
  c.head_size = DH;
  float qkv[D * ALL], out[H * DH * D], x[T * D], got[T * D], want[T * D];
  for (int i = 0; i < T * D; i++) x[i] = (float)(i % 11 - 5) / 4;
  attn_init_kernel(qkv, D, ALL, 77, 0);
  attn_init_kernel(out, H * DH, D, 77, 1);
  attn_layer_weights w = ATTN_LAYER_WEIGHTS_INIT;
  w.qkv = (attn_weight){.kernel = qkv, .in_stride = ALL, .out_stride = 1};
  w.out = (attn_weight){.kernel = out, .in_stride = D, .out_stride = 1};
  attn_layer *layers[2] = {NULL, NULL};
  CHECK_OK(attn_layer_create(&c, &w, &layers[0]));
  CHECK_OK(attn_layer_create_init(&c, 77, &layers[1]));
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.len = T;
  p.x = x;
  p.y = want;
  CHECK_OK(attn_layer_forward(NULL, layers[0], &p));
  p.y = got;
  CHECK_OK(attn_layer_forward(NULL, layers[1], &p));
  CHECK_BITS(got, want, T * D);
  attn_layer_destroy(layers[0]);
  attn_layer_destroy(layers[1]);
  c.d_model = 0;
  layers[0] = NULL;
  CHECK_STATUS(attn_layer_create_init(&c, 1, &layers[0]), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_create_init(NULL, 1, &layers[0]), ATTN_INVALID_ARGUMENT);
  c.d_model = D;
  CHECK_STATUS(attn_layer_create_init(&c, 1, NULL), ATTN_INVALID_ARGUMENT);
  CHECK(layers[0] == NULL);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  test_quantile();
  test_distribution();
  test_pinned();
  test_independence();
  test_layer();
  return check_done();
}
