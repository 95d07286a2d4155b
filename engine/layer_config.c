/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "layer_config.h"

#include "problem.h"
#include "status.h"

#include <inttypes.h>

#define MAX_MODEL ((int64_t)1 << 20)

attn_status attn_layer_config_copy(const attn_layer_config *given, attn_layer_config *config) {
  *config = (attn_layer_config)ATTN_LAYER_CONFIG_INIT;
  return attn_copy_params("config", config, sizeof(*config), given);
}

static attn_status resolve_heads(attn_layer_config *c) {
  attn_status status = attn_check_range("d_model", c->d_model, 1, MAX_MODEL, NULL);
  if (!status) status = attn_check_range("num_heads", c->num_heads, 1, MAX_MODEL, NULL);
  if (status) return status;
  if (!c->has_num_kv_heads) c->num_kv_heads = c->num_heads;
  status = attn_check_range("num_kv_heads", c->num_kv_heads, 1, c->num_heads, "num_heads");
  if (status || c->num_heads % c->num_kv_heads == 0) return status;
  return attn_fail(ATTN_INVALID_ARGUMENT,
                   "num_kv_heads is %" PRId64 "; it must divide num_heads, %" PRId64,
                   c->num_kv_heads, c->num_heads);
}

attn_status attn_layer_config_resolve(attn_layer_config *c) {
  attn_status status = resolve_heads(c);
  if (status) return status;
  if (!c->has_head_size && c->d_model % c->num_heads != 0) {
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "num_heads is %" PRId64 "; it must divide d_model, %" PRId64
                     ", when no head_size is given",
                     c->num_heads, c->d_model);
  }
  if (!c->has_head_size) c->head_size = c->d_model / c->num_heads;
  status = attn_check_range("head_size", c->head_size, 1, ATTN_MAX_HEAD_SIZE, NULL);
  if (!status) {
    status =
        attn_check_range("num_heads * head_size", c->num_heads * c->head_size, 1, MAX_MODEL, NULL);
  }
  if (!status) status = attn_check_scale(c->has_scale, c->scale);
  if (status) return status;
  if (!c->has_scale) c->scale = attn_default_scale(c->head_size);
  c->has_num_kv_heads = c->has_head_size = c->has_scale = true;
  return ATTN_OK;
}
