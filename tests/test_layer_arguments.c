/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The layer refuses what it cannot do: shapes, missing weights, bad options; by status and one
 * line, with the handle and the output as they were. */

#include "problem.h"
#include "random.h"
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D = 12, T = 3, B = 2 };

static float kernel[D * 3 * D], bias[3 * D];

static attn_layer_config good_config(void) {
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  c.d_model = D;
  c.num_heads = 4;
  return c;
}

static attn_layer_weights good_weights(void) {
  attn_layer_weights w = ATTN_LAYER_WEIGHTS_INIT;
  w.qkv = (attn_weight){.kernel = kernel, .in_stride = 3 * D, .out_stride = 1, .bias = bias};
  w.out = (attn_weight){.kernel = kernel, .in_stride = D, .out_stride = 1, .bias = bias};
  return w;
}

static void check_words(const char *words, int line) {
  const char *message = attn_last_error();
  check_report(message[0] && !strchr(message, '\n'), __FILE__, line, "not one line: '%s'", message);
  char copy[128];
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    check_report(strstr(message, word) != NULL, __FILE__, line, "'%s' does not name '%s'", message,
                 word);
}

static void refuse_create(const attn_layer_config *c, const attn_layer_weights *w,
                          const char *words, int line) {
  attn_layer *const unchanged = (attn_layer *)(uintptr_t)64;
  attn_layer *layer = unchanged;
  check_status(__FILE__, line, "attn_layer_create", (int)attn_layer_create(c, w, &layer),
               ATTN_INVALID_ARGUMENT);
  check_words(words, line);
  check_report(layer == unchanged, __FILE__, line, "the handle was written");
}

#define BAD_CONFIG(spoil, words)                                                                   \
  do {                                                                                             \
    check_context("%s", #spoil);                                                                   \
    attn_layer_config c = good_config();                                                           \
    attn_layer_weights w = good_weights();                                                         \
    spoil;                                                                                         \
    refuse_create(&c, &w, words, __LINE__);                                                        \
    attn_layer *layer = NULL;                                                                      \
    CHECK_STATUS(attn_layer_create_init(&c, 1, &layer), ATTN_INVALID_ARGUMENT);                    \
    CHECK(layer == NULL);                                                                          \
  } while (0)

#define BAD_WEIGHTS(spoil, words)                                                                  \
  do {                                                                                             \
    check_context("%s", #spoil);                                                                   \
    attn_layer_config c = good_config();                                                           \
    attn_layer_weights w = good_weights();                                                         \
    spoil;                                                                                         \
    refuse_create(&c, &w, words, __LINE__);                                                        \
  } while (0)

static void creation(void) {
  BAD_CONFIG(c.d_model = 0, "d_model 0");
  BAD_CONFIG(c.d_model = -12, "d_model -12");
  BAD_CONFIG(c.d_model = INT64_MAX, "d_model 9223372036854775807");
  BAD_CONFIG(c.d_model = 1048577, "d_model 1048577 1048576");
  BAD_CONFIG(c.num_heads = 0, "num_heads 0");
  BAD_CONFIG(c.num_heads = -1, "num_heads -1");
  BAD_CONFIG(c.num_heads = 5, "num_heads 5 d_model 12");
  BAD_CONFIG((c.has_num_kv_heads = true, c.num_kv_heads = 0), "num_kv_heads 0");
  BAD_CONFIG((c.has_num_kv_heads = true, c.num_kv_heads = 3), "num_kv_heads 3 num_heads 4");
  BAD_CONFIG((c.has_num_kv_heads = true, c.num_kv_heads = 8), "num_kv_heads 8");
  BAD_CONFIG((c.has_head_size = true, c.head_size = 0), "head_size 0");
  BAD_CONFIG((c.has_head_size = true, c.head_size = 1025), "head_size 1025 1024");
  BAD_CONFIG((c.has_head_size = true, c.head_size = -3), "head_size -3");
  BAD_CONFIG((c.has_scale = true, c.scale = NAN), "scale nan");
  BAD_CONFIG((c.has_scale = true, c.scale = INFINITY), "scale inf");
  BAD_CONFIG((c.has_scale = true, c.scale = 2e38f), "scale 2e+38");
  BAD_CONFIG(c.struct_size = 1, "struct_size 1");
  BAD_CONFIG((c.has_head_size = true, c.head_size = 1024, c.num_heads = INT64_MAX), "num_heads");
  BAD_WEIGHTS(w.struct_size = 0, "struct_size 0");
  BAD_WEIGHTS(w.out.kernel = NULL, "out");
  BAD_WEIGHTS(w.qkv.kernel = NULL, "q");
  BAD_WEIGHTS((w.qkv.kernel = NULL, w.q.kernel = kernel, w.k.kernel = kernel), "v");
  BAD_WEIGHTS((w.q.kernel = kernel, w.k.kernel = kernel, w.v.kernel = kernel), "qkv");
  check_context("NULL");
  attn_layer_config c = good_config();
  attn_layer_weights w = good_weights();
  attn_layer *layer = NULL;
  CHECK_STATUS(attn_layer_create(NULL, &w, &layer), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_create(&c, NULL, &layer), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_create(&c, &w, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_create_init(NULL, 1, &layer), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_create_init(&c, 1, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_create_from_file(&c, NULL, NULL, false, &layer), ATTN_INVALID_ARGUMENT);
  CHECK(layer == NULL);
  attn_layer_destroy(NULL);
}

/* As much of the configuration as the caller's struct has room for. */
static void get_config(void) {
  check_context("attn_layer_get_config");
  attn_layer_config c = good_config(), got = ATTN_LAYER_CONFIG_INIT;
  attn_layer *layer = NULL;
  CHECK_OK(attn_layer_create_init(&c, 1, &layer));
  CHECK_OK(attn_layer_get_config(layer, &got));
  CHECK_INT(got.d_model, D);
  CHECK_INT(got.num_kv_heads, 4);
  CHECK_INT(got.head_size, D / 4);
  CHECK(got.causal && got.has_scale && got.scale == (float)(1 / sqrt(D / 4)));
  attn_layer_config part = ATTN_LAYER_CONFIG_INIT;
  part.struct_size = offsetof(attn_layer_config, num_heads);
  part.num_heads = -77;
  CHECK_OK(attn_layer_get_config(layer, &part));
  CHECK_INT(part.d_model, D);
  CHECK_INT(part.num_heads, -77);
  CHECK_STATUS(attn_layer_get_config(layer, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_get_config(NULL, &got), ATTN_INVALID_ARGUMENT);
  attn_layer_destroy(layer);
}

static float x[B * T * D], y[B * T * D];

static void refuse_forward(const attn_layer *layer, const attn_layer_params *p, const char *words,
                           int line) {
  check_status(__FILE__, line, "attn_layer_forward", (int)attn_layer_forward(NULL, layer, p),
               ATTN_INVALID_ARGUMENT);
  check_words(words, line);
  check_report(canary_intact(y, B * T * D), __FILE__, line, "output was written");
}

#define BAD(spoil, words)                                                                          \
  do {                                                                                             \
    check_context("%s", #spoil);                                                                   \
    attn_layer_params p = good;                                                                    \
    spoil;                                                                                         \
    refuse_forward(layer, &p, words, __LINE__);                                                    \
  } while (0)

static void forward(void) {
  attn_layer_config c = good_config();
  attn_layer *layer = NULL;
  CHECK_OK(attn_layer_create_init(&c, 3, &layer));
  attn_layer_params good = ATTN_LAYER_PARAMS_INIT;
  good.batch = B;
  good.len = T;
  good.x = x;
  good.y = y;
  canary_fill(y, B * T * D);
  BAD(p.batch = -1, "batch -1");
  BAD(p.len = -1, "len -1");
  BAD(p.batch = INT64_MAX, "batch 9223372036854775807");
  BAD(p.len = INT64_MAX, "len 9223372036854775807");
  BAD(p.x = NULL, "x NULL");
  BAD(p.y = NULL, "y NULL");
  BAD(p.struct_size = 2, "struct_size 2");
  BAD(p.dropout.rate = 2, "rate 2");
  BAD(p.dropout.rate = (double)NAN, "rate nan");
  BAD((p.has_num_threads = true, p.num_threads = 0), "num_threads 0");
  BAD((p.has_num_threads = true, p.num_threads = 1025), "num_threads 1025");
  BAD((p.has_strides = true, p.x_row_stride = D, p.x_batch_stride = T * D, p.y_row_stride = 0,
       p.y_batch_stride = T * D),
      "y_row_stride 0");
  BAD((p.has_strides = true, p.x_row_stride = D, p.x_batch_stride = T * D, p.y_row_stride = D,
       p.y_batch_stride = 0),
      "y_batch_stride 0");
  check_context("NULL");
  CHECK_STATUS(attn_layer_forward(NULL, NULL, &good), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_layer_forward(NULL, layer, NULL), ATTN_INVALID_ARGUMENT);
  check_context("nothing to do");
  for (int n = 0; n < 2; n++) {
    attn_layer_params p = good;
    if (n == 0)
      p.batch = 0;
    else
      p.len = 0;
    CHECK_OK(attn_layer_forward(NULL, layer, &p));
  }
  CHECK(canary_intact(y, B * T * D));
  CHECK_OK(attn_layer_forward(NULL, layer, &good));
  attn_layer_destroy(layer);
}

/* Drawn weights are a function of the whole seed, and neither grow nor shrink what passes through
 * them: with one row y = (x Wv) Wo, and both kernels have variance 1/fan_in. */
static void drawn(void) {
  enum { WIDE = 256, ROWS = 64 };
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  c.d_model = WIDE;
  c.num_heads = 4;
  static const uint64_t seeds[] = {1, 1, 2, 1 + (UINT64_C(1) << 32)};
  float *in = check_floats(ROWS * WIDE), *out[4];
  sm_fill(in, ROWS * WIDE, 5, sqrt(3)); /* variance 1 */
  for (int n = 0; n < 4; n++) {
    attn_layer *layer = NULL;
    CHECK_OK(attn_layer_create_init(&c, seeds[n], &layer));
    out[n] = check_floats(ROWS * WIDE);
    attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
    p.batch = ROWS;
    p.len = 1;
    p.x = in;
    p.y = out[n];
    CHECK_OK(attn_layer_forward(NULL, layer, &p));
    attn_layer_destroy(layer);
  }
  check_context("drawn weights");
  CHECK_BITS(out[0], out[1], ROWS * WIDE);
  double square = 0;
  int same = 0;
  for (int i = 0; i < ROWS * WIDE; i++) {
    square += (double)out[0][i] * (double)out[0][i];
    same += (out[0][i] == out[2][i]) + (out[0][i] == out[3][i]);
  }
  CHECK_NEAR(sqrt(square / (ROWS * WIDE)), 1.0, 0.08);
  CHECK(same < 10);
  for (int n = 0; n < 4; n++) free(out[n]);
  free(in);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  sm_fill(kernel, D * 3 * D, 1, 0.3);
  sm_fill(bias, 3 * D, 2, 0.3);
  sm_fill(x, B * T * D, 3, 1);
  creation();
  get_config();
  forward();
  drawn();
  return check_done();
}
