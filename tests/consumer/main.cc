/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Uses an installed attn from C++, also an old one: the headers and what they define are clean there under all
 * warnings, and every _INIT macro gives what it gives in C (initialised.c). */

#include <attn/attn.h>
#include <attn/cache.h>
#include <attn/layer.h>
#include <attn/safetensors.h>
#include <cstdio>
#include <cstring>

extern "C" bool same_as_in_c(int which, const void *bytes, size_t size);

/* Constants and assignments have to work, too. */
static const attn_params constant = ATTN_PARAMS_INIT;

template <class Struct> static bool same(int which, const Struct &made) {
  return same_as_in_c(which, &made, sizeof(made));
}

int main() {
  attn_params params = ATTN_PARAMS_INIT;
  attn_cache_config cache_config = ATTN_CACHE_CONFIG_INIT;
  attn_cache_rows rows = ATTN_CACHE_ROWS_INIT;
  attn_cache_usage usage = ATTN_CACHE_USAGE_INIT;
  attn_layer_config layer_config = ATTN_LAYER_CONFIG_INIT;
  attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
  attn_layer_params layer_params = ATTN_LAYER_PARAMS_INIT;
  if (!same(0, params) || !same(1, cache_config) || !same(2, rows) || !same(3, usage) ||
      !same(4, layer_config) || !same(5, weights) || !same(6, layer_params) || !same(0, constant))
    return 1;
  params.batch = 7;
  params = ATTN_PARAMS_INIT;
  params.q_heads = params.kv_heads = params.head_size = params.value_size = 1;
  if (params.batch != 0 || attn_forward(nullptr, &params) != ATTN_OK)
    return std::printf("%s\n", attn_last_error()), 1;
  std::printf("attn %s from C++ %ld\n", attn_version(), static_cast<long>(__cplusplus));
  return 0;
}
