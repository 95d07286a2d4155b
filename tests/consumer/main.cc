/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Uses an installed attn from C++, also an old one: the headers and what they define are clean there under all
 * warnings, also inside of extern "C", and every _INIT macro gives what it gives in C (initialised.c). */

extern "C" {
#include <attn/attn.h>
}
#include <attn/cache.h>
#include <attn/layer.h>
#include <attn/safetensors.h>
#include <cstdio>

extern "C" bool same_as_in_c(int which, const void *made);

/* Constants and assignments have to work, too. */
#if __cplusplus >= 201402L
#define CONSTANT static constexpr
#else
#define CONSTANT static const
#endif
CONSTANT attn_params constant_params = ATTN_PARAMS_INIT;
CONSTANT attn_cache_config constant_cache_config = ATTN_CACHE_CONFIG_INIT;
CONSTANT attn_cache_rows constant_rows = ATTN_CACHE_ROWS_INIT;
CONSTANT attn_cache_usage constant_usage = ATTN_CACHE_USAGE_INIT;
CONSTANT attn_layer_config constant_layer_config = ATTN_LAYER_CONFIG_INIT;
CONSTANT attn_layer_weights constant_weights = ATTN_LAYER_WEIGHTS_INIT;
CONSTANT attn_layer_params constant_layer_params = ATTN_LAYER_PARAMS_INIT;

int main() {
  attn_params params = ATTN_PARAMS_INIT;
  attn_cache_config cache_config = ATTN_CACHE_CONFIG_INIT;
  attn_cache_rows rows = ATTN_CACHE_ROWS_INIT;
  attn_cache_usage usage = ATTN_CACHE_USAGE_INIT;
  attn_layer_config layer_config = ATTN_LAYER_CONFIG_INIT;
  attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
  attn_layer_params layer_params = ATTN_LAYER_PARAMS_INIT;
  const void *const made[][2] = {{&params, &constant_params},
                                 {&cache_config, &constant_cache_config},
                                 {&rows, &constant_rows},
                                 {&usage, &constant_usage},
                                 {&layer_config, &constant_layer_config},
                                 {&weights, &constant_weights},
                                 {&layer_params, &constant_layer_params}};
  for (int i = 0; i < 7; i++)
    if (!same_as_in_c(i, made[i][0]) || !same_as_in_c(i, made[i][1]))
      return std::printf("the _INIT macro of struct %d is not as in C\n", i), 1;
  params.batch = 7;
  params = ATTN_PARAMS_INIT;
  params.q_heads = params.kv_heads = params.head_size = params.value_size = 1;
  if (params.batch != 0 || attn_forward(nullptr, &params) != ATTN_OK)
    return std::printf("%s\n", attn_last_error()), 1;
  std::printf("attn %s from C++ %ld\n", attn_version(), static_cast<long>(__cplusplus));
  return 0;
}
