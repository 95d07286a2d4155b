/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The golden files of tests/data, read through the library's own safetensors reader. */
#ifndef ATTN_TESTS_GOLDEN_H
#define ATTN_TESTS_GOLDEN_H

#include <attn/layer.h>

/* Names (without folder and ending) of all files whose name begins with one of the two prefixes, sorted;
 * ends the program when there are none. The list ends with NULL. */
char **golden_names(const char *prefix, const char *or_prefix);
void golden_free_names(char **names);

/* Opens tests/data/NAME.safetensors; ends the program when that fails. */
attn_file *golden_open(const char *name);

/* Tensors as arrays of their own; end the program when the tensor is missing. */
float *golden_floats(const attn_file *file, const char *tensor);
double *golden_doubles(const attn_file *file, const char *tensor);

/* Metadata as numbers; end the program when the key is missing. */
int64_t golden_int(const attn_file *file, const char *key);
double golden_number(const attn_file *file, const char *key);

/* A module file, ready to run. */
typedef struct golden_layer {
  attn_file *file;   /* x, y_f64, ... */
  attn_file *params; /* weights; may be the same file */
  attn_layer_config config;
  int64_t batch, len;
  float *x;
  double *y, *unit; /* the truth and its tolerance units */
  attn_dropout dropout;
} golden_layer;

golden_layer golden_layer_open(const char *name);
void golden_layer_close(golden_layer *g);
attn_layer_params golden_layer_params(const golden_layer *g, float *y);

/* The weights of a module file as plain arrays, for the oracle. */
attn_layer_weights golden_weights(const attn_file *params);
void golden_free_weights(attn_layer_weights *w);

#endif
