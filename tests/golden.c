/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "golden.h"

#include "check.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDING ".safetensors"

_Noreturn static void give_up(const char *what, const char *name) {
  printf("%s: %s\n", what, name);
  exit(1);
}

static bool begins(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

char **golden_names(const char *prefix, const char *or_prefix) {
  enum { MOST = 256 };
  DIR *dir = opendir(ATTN_TEST_DATA);
  if (!dir) give_up("no folder of golden data", ATTN_TEST_DATA);
  char **names = check_alloc((MOST + 1) * sizeof(*names));
  size_t count = 0;
  for (struct dirent *entry; (entry = readdir(dir)) && count < MOST;) {
    size_t length = strlen(entry->d_name), ending = strlen(ENDING);
    if (!begins(entry->d_name, prefix) && !begins(entry->d_name, or_prefix)) continue;
    if (length < ending || strcmp(entry->d_name + length - ending, ENDING) != 0) continue;
    if (strstr(entry->d_name, ".params.")) continue;
    names[count] = check_alloc(length + 1);
    memcpy(names[count], entry->d_name, length - ending);
    names[count++][length - ending] = '\0';
  }
  closedir(dir);
  if (count == 0) give_up("no golden files in", ATTN_TEST_DATA);
  qsort(names, count, sizeof(*names), by_name);
  names[count] = NULL;
  return names;
}

void golden_free_names(char **names) {
  for (char **n = names; *n; n++) free(*n);
  free(names);
}

static attn_file *open_path(const char *file_name) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", ATTN_TEST_DATA, file_name);
  attn_file *file = NULL;
  if (attn_file_open(path, &file) != ATTN_OK) give_up("cannot open", attn_last_error());
  return file;
}

attn_file *golden_open(const char *name) {
  char file_name[512];
  snprintf(file_name, sizeof(file_name), "%s" ENDING, name);
  return open_path(file_name);
}

static const attn_tensor *tensor_of(const attn_file *file, const char *name) {
  const attn_tensor *tensor = attn_file_tensor(file, name);
  if (!tensor) give_up("golden file without tensor", name);
  return tensor;
}

float *golden_floats(const attn_file *file, const char *name) {
  const attn_tensor *tensor = tensor_of(file, name);
  float *out = check_floats((size_t)tensor->count);
  if (attn_tensor_to_f32(tensor, out) != ATTN_OK) give_up(name, attn_last_error());
  return out;
}

double *golden_doubles(const attn_file *file, const char *name) {
  const attn_tensor *tensor = tensor_of(file, name);
  double *out = check_alloc((size_t)tensor->count * sizeof(double));
  if (tensor->dtype == ATTN_F64) {
    memcpy(out, tensor->data, (size_t)tensor->count * sizeof(double));
    return out;
  }
  float *narrow = golden_floats(file, name);
  for (int64_t i = 0; i < tensor->count; i++) out[i] = (double)narrow[i];
  free(narrow);
  return out;
}

double golden_number(const attn_file *file, const char *key) {
  const char *text = attn_file_metadata(file, key);
  if (!text) give_up("golden file without metadata", key);
  return strtod(text, NULL);
}

int64_t golden_int(const attn_file *file, const char *key) {
  return (int64_t)golden_number(file, key);
}

golden_layer golden_layer_open(const char *name) {
  golden_layer g = {.file = golden_open(name),
                    .config = ATTN_LAYER_CONFIG_INIT,
                    .dropout = {.deterministic = true}};
  const char *params = attn_file_metadata(g.file, "params_file");
  g.params = params ? open_path(params) : g.file;
  g.config.d_model = golden_int(g.file, "D");
  g.config.num_heads = golden_int(g.file, "num_heads");
  g.batch = golden_int(g.file, "B");
  g.len = golden_int(g.file, "T");
  g.x = golden_floats(g.file, "x");
  g.y = golden_doubles(g.file, "y_f64");
  g.unit = golden_doubles(g.file, "tol_unit");
  const attn_tensor *keep = attn_file_tensor(g.file, "keep");
  if (keep) {
    int64_t len = g.len, heads = g.config.num_heads;
    g.dropout.deterministic = false;
    g.dropout.rate = golden_number(g.file, "dropout_rate");
    g.dropout.keep = (attn_keep_mask){keep->data, heads * len * len, len * len, len, 1};
  }
  return g;
}

void golden_layer_close(golden_layer *g) {
  free(g->x);
  free(g->y);
  free(g->unit);
  if (g->params != g->file) attn_file_close(g->params);
  attn_file_close(g->file);
  *g = (golden_layer){0};
}

attn_layer_params golden_layer_params(const golden_layer *g, float *y) {
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.batch = g->batch;
  p.len = g->len;
  p.x = g->x;
  p.y = y;
  p.dropout = g->dropout;
  return p;
}

static attn_weight weight(const attn_file *file, const char *part) {
  char name[128];
  snprintf(name, sizeof(name), "%s/kernel", part);
  const attn_tensor *tensor = attn_file_tensor(file, name);
  if (!tensor) return (attn_weight){0};
  attn_weight w = {golden_floats(file, name), tensor->shape[1], 1, NULL};
  snprintf(name, sizeof(name), "%s/bias", part);
  w.bias = golden_floats(file, name);
  return w;
}

attn_layer_weights golden_weights(const attn_file *file) {
  attn_layer_weights w = ATTN_LAYER_WEIGHTS_INIT;
  w.qkv = weight(file, "Dense_0");
  w.q = weight(file, "q_proj");
  w.k = weight(file, "k_proj");
  w.v = weight(file, "v_proj");
  w.out = weight(file, w.qkv.kernel ? "Dense_1" : "out_proj");
  return w;
}

void golden_free_weights(attn_layer_weights *w) {
  attn_weight *all[] = {&w->qkv, &w->q, &w->k, &w->v, &w->out};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    free((void *)(uintptr_t)all[i]->kernel);
    free((void *)(uintptr_t)all[i]->bias);
  }
  *w = (attn_layer_weights)ATTN_LAYER_WEIGHTS_INIT;
}
