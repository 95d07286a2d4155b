/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "layer_config.h"

#include "status.h"

#include <math.h>
#include <string.h>

#define MAX_D_MODEL 1048576
#define MAX_HEADS 1048576 /* keeps every product of heads and head sizes far below 2^63 */
#define MAX_HEAD_SIZE 1024

attn_status attn_layer_config_copy(const attn_layer_config *given, attn_layer_config *config) {
  if (given == NULL) return attn_fail(ATTN_INVALID_ARGUMENT, "config is NULL");
  size_t size = given->struct_size, known = sizeof(*config);
  if (size < sizeof(size_t))
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "config.struct_size is %zu; initialise the struct with "
                     "ATTN_LAYER_CONFIG_INIT",
                     size);
  const unsigned char *bytes = (const unsigned char *)given;
  for (size_t i = known; i < size; i++)
    if (bytes[i] != 0)
      return attn_fail(ATTN_INVALID_ARGUMENT,
                       "config.struct_size is %zu and byte %zu is set; this "
                       "version knows %zu bytes",
                       size, i, known);
  *config = (attn_layer_config)ATTN_LAYER_CONFIG_INIT;
  memcpy(config, given, size < known ? size : known);
  config->struct_size = known;
  return ATTN_OK;
}

static attn_status check_range(const char *name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return ATTN_OK;
  return attn_fail(ATTN_INVALID_ARGUMENT, "%s is %lld; allowed is 1 ... %lld", name,
                   (long long)value, (long long)most);
}

attn_status attn_layer_config_resolve(attn_layer_config *config) {
  attn_status status = check_range("d_model", config->d_model, MAX_D_MODEL);
  if (status == ATTN_OK) status = check_range("num_heads", config->num_heads, MAX_HEADS);
  if (status != ATTN_OK) return status;
  if (!config->has_num_kv_heads) config->num_kv_heads = config->num_heads;
  status = check_range("num_kv_heads", config->num_kv_heads, config->num_heads);
  if (status != ATTN_OK) return status;
  if (config->num_heads % config->num_kv_heads != 0)
    return attn_fail(ATTN_INVALID_ARGUMENT, "num_kv_heads is %lld; it must divide num_heads, %lld",
                     (long long)config->num_kv_heads, (long long)config->num_heads);
  if (!config->has_head_size) {
    if (config->d_model % config->num_heads != 0)
      return attn_fail(ATTN_INVALID_ARGUMENT,
                       "num_heads is %lld; it must divide d_model, %lld, "
                       "when no head_size is given",
                       (long long)config->num_heads, (long long)config->d_model);
    config->head_size = config->d_model / config->num_heads;
  }
  status = check_range("head_size", config->head_size, MAX_HEAD_SIZE);
  if (status != ATTN_OK) return status;
  if (!config->has_scale)
    config->scale = (float)(1.0 / sqrt((double)config->head_size));
  else if (!isfinite(config->scale))
    return attn_fail(ATTN_INVALID_ARGUMENT, "scale is %g; it must be finite",
                     (double)config->scale);
  config->has_num_kv_heads = config->has_head_size = config->has_scale = true;
  return ATTN_OK;
}
