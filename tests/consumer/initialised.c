/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the _INIT macros are in C, field by field, for main.cc to compare with: what is between fields has no value. */

#include <attn/attn.h>
#include <attn/cache.h>
#include <attn/layer.h>
#include <stddef.h>
#include <string.h>

bool same_as_in_c(int which, const void *made);

typedef struct field {
  size_t begin, size;
} field;

#define MOST_FIELDS 40
#define FIELD(type, name) {offsetof(type, name), sizeof(((type *)0)->name)}

#define P(name) FIELD(attn_params, name)
static const field params_fields[MOST_FIELDS] = {P(struct_size),
                                                 P(batch),
                                                 P(q_heads),
                                                 P(kv_heads),
                                                 P(q_len),
                                                 P(kv_len),
                                                 P(head_size),
                                                 P(value_size),
                                                 P(q),
                                                 P(k),
                                                 P(v),
                                                 P(o),
                                                 P(lse),
                                                 P(causal),
                                                 P(has_scale),
                                                 P(scale),
                                                 P(dropout.rate),
                                                 P(dropout.deterministic),
                                                 P(dropout.seed),
                                                 P(dropout.offset),
                                                 P(dropout.keep),
                                                 P(has_num_threads),
                                                 P(num_threads),
                                                 P(workspace),
                                                 P(workspace_size),
                                                 P(cancel),
                                                 P(cancel_user),
                                                 P(lengths),
                                                 P(pages),
                                                 P(key_layout),
                                                 P(reserved)};

#define C(name) FIELD(attn_cache_config, name)
static const field cache_config_fields[MOST_FIELDS] = {
    C(struct_size),  C(dtype),           C(kv_heads),    C(head_size),      C(has_value_size),
    C(value_size),   C(max_sequences),   C(has_pages),   C(page_size),      C(num_pages),
    C(has_capacity), C(capacity),        C(has_window),  C(window),         C(memory),
    C(memory_size),  C(has_num_threads), C(num_threads), C(has_key_layout), C(key_layout)};

#define R(name) FIELD(attn_cache_rows, name)
static const field rows_fields[MOST_FIELDS] = {
    R(struct_size), R(batch), R(sequences), R(kv_len),          R(cu_seqlens_k), R(left_padding),
    R(kv_lens),     R(k),     R(v),         R(has_num_threads), R(num_threads)};

#define U(name) FIELD(attn_cache_usage, name)
static const field usage_fields[MOST_FIELDS] = {U(struct_size), U(bytes), U(bytes_in_use),
                                                U(num_pages), U(pages_in_use)};

#define L(name) FIELD(attn_layer_config, name)
static const field layer_config_fields[MOST_FIELDS] = {
    L(struct_size),   L(d_model),   L(num_heads), L(has_num_kv_heads), L(num_kv_heads),
    L(has_head_size), L(head_size), L(causal),    L(has_scale),        L(scale)};

#define W(name) FIELD(attn_layer_weights, name)
static const field weights_fields[MOST_FIELDS] = {W(struct_size), W(qkv), W(q), W(k), W(v), W(out)};

#define Y(name) FIELD(attn_layer_params, name)
static const field layer_params_fields[MOST_FIELDS] = {Y(struct_size),
                                                       Y(batch),
                                                       Y(len),
                                                       Y(x),
                                                       Y(x_batch_stride),
                                                       Y(x_row_stride),
                                                       Y(y),
                                                       Y(y_batch_stride),
                                                       Y(y_row_stride),
                                                       Y(has_strides),
                                                       Y(dropout.rate),
                                                       Y(dropout.deterministic),
                                                       Y(dropout.seed),
                                                       Y(dropout.offset),
                                                       Y(dropout.keep),
                                                       Y(has_num_threads),
                                                       Y(num_threads),
                                                       Y(cancel),
                                                       Y(cancel_user)};

/* All fields have the same values, and the last one ends the struct. */
static bool same(const field *fields, const void *a, const void *b, size_t size) {
  size_t end = 0;
  for (; fields->size > 0; fields++) {
    end = fields->begin + fields->size;
    if (memcmp((const char *)a + fields->begin, (const char *)b + fields->begin, fields->size) != 0)
      return false;
  }
  return end == size;
}

#define COMPARE(type, initial, fields)                                                             \
  do {                                                                                             \
    static const type constant = initial;                                                          \
    type automatic = initial;                                                                      \
    return same(fields, &automatic, &constant, sizeof(constant)) &&                                \
           same(fields, made, &constant, sizeof(constant));                                        \
  } while (0)

bool same_as_in_c(int which, const void *made) {
  switch (which) {
  case 0: COMPARE(attn_params, ATTN_PARAMS_INIT, params_fields);
  case 1: COMPARE(attn_cache_config, ATTN_CACHE_CONFIG_INIT, cache_config_fields);
  case 2: COMPARE(attn_cache_rows, ATTN_CACHE_ROWS_INIT, rows_fields);
  case 3: COMPARE(attn_cache_usage, ATTN_CACHE_USAGE_INIT, usage_fields);
  case 4: COMPARE(attn_layer_config, ATTN_LAYER_CONFIG_INIT, layer_config_fields);
  case 5: COMPARE(attn_layer_weights, ATTN_LAYER_WEIGHTS_INIT, weights_fields);
  case 6: COMPARE(attn_layer_params, ATTN_LAYER_PARAMS_INIT, layer_params_fields);
  default: return false;
  }
}
