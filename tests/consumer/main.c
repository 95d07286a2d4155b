/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Uses an installed attn: all headers, one call of each level. Prints what ran; exits 1 when it is
 * wrong. */

#include <attn/attn.h>
#include <attn/cache.h>
#include <attn/layer.h>
#include <attn/safetensors.h>
#include <stdio.h>
#include <string.h>

enum { T = 4, D = 2 };

/* Equal scores: every row is the mean of the values so far. */
static int prefix_means(void) {
  const float zeros[T * D] = {0}, values[T * D] = {1, 10, 3, 30, 5, 50, 7, 70};
  float out[T * D];
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = p.q_heads = p.kv_heads = 1;
  p.q_len = p.kv_len = T;
  p.head_size = p.value_size = D;
  p.q = p.k = (attn_input){zeros, 0, 0, D, 1};
  p.v = (attn_input){values, 0, 0, D, 1};
  p.o = (attn_output){out, 0, 0, D, 1};
  if (attn_forward(NULL, &p) != ATTN_OK) return printf("%s\n", attn_last_error()), 1;
  for (int i = 0; i < T; i++)
    if (out[i * D] != (float)(i + 1) || out[i * D + 1] != (float)(10 * (i + 1)))
      return printf("row %d is %g %g\n", i, (double)out[i * D], (double)out[i * D + 1]), 1;
  return 0;
}

static int layer(void) {
  float x[T * 8], y[T * 8];
  for (int i = 0; i < T * 8; i++) x[i] = (float)(i % 5) - 2;
  memset(y, 0, sizeof(y));
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  config.d_model = 8;
  config.num_heads = 2;
  attn_layer *made = NULL;
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.len = T;
  p.x = x;
  p.y = y;
  if (attn_layer_create_init(&config, 1, &made) != ATTN_OK ||
      attn_layer_forward(NULL, made, &p) != ATTN_OK)
    return printf("%s\n", attn_last_error()), 1;
  attn_layer_destroy(made);
  for (int i = 0; i < T * 8; i++)
    if (y[i] != 0) return 0;
  return printf("the layer's output is all zeros\n"), 1;
}

static int cache(void) {
  attn_cache_config config = ATTN_CACHE_CONFIG_INIT;
  config.kv_heads = config.head_size = config.max_sequences = config.capacity = 1;
  config.has_capacity = true;
  attn_cache *made = NULL;
  if (attn_cache_create(&config, &made) != ATTN_OK) return printf("%s\n", attn_last_error()), 1;
  const int64_t length = attn_cache_length(made, 0);
  attn_cache_destroy(made);
  return length != 0;
}

int main(void) {
  if (prefix_means() || layer() || cache()) return 1;
  if (strcmp(attn_dtype_name(ATTN_F32), "F32") != 0) return 1;
  printf("attn %s on %s: prefix means are exact\n", attn_version(), attn_isa_name());
  return 0;
}
