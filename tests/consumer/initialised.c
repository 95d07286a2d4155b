/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the _INIT macros are in C, for main.cc to compare with. */

#include <attn/attn.h>
#include <attn/cache.h>
#include <attn/layer.h>
#include <string.h>

bool same_as_in_c(int which, const void *bytes, size_t size);

static const attn_params params = ATTN_PARAMS_INIT;
static const attn_cache_config cache_config = ATTN_CACHE_CONFIG_INIT;
static const attn_cache_rows rows = ATTN_CACHE_ROWS_INIT;
static const attn_cache_usage usage = ATTN_CACHE_USAGE_INIT;
static const attn_layer_config layer_config = ATTN_LAYER_CONFIG_INIT;
static const attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
static const attn_layer_params layer_params = ATTN_LAYER_PARAMS_INIT;

bool same_as_in_c(int which, const void *bytes, size_t size) {
  static const struct {
    const void *bytes;
    size_t size;
  } in_c[] = {{&params, sizeof(params)},
              {&cache_config, sizeof(cache_config)},
              {&rows, sizeof(rows)},
              {&usage, sizeof(usage)},
              {&layer_config, sizeof(layer_config)},
              {&weights, sizeof(weights)},
              {&layer_params, sizeof(layer_params)}};
  return size == in_c[which].size && memcmp(bytes, in_c[which].bytes, size) == 0;
}
