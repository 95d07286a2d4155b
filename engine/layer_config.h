/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The shape of a layer, checked in one place for every way of creating one. */
#ifndef ATTN_ENGINE_LAYER_CONFIG_H
#define ATTN_ENGINE_LAYER_CONFIG_H

#include <attn/layer.h>

/* Reads a caller's struct by its struct_size: what a shorter one lacks has its default, a longer one is
 * refused when the rest is not zero. */
attn_status attn_layer_config_copy(const attn_layer_config *given, attn_layer_config *config);

/* Fills in every optional value and checks them all. */
attn_status attn_layer_config_resolve(attn_layer_config *config);

#endif
