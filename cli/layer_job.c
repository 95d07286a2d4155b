/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Loading layers: a case file, or weights and input of the user's own. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* y may be off by this many tolerance units: long sums in float32 drift. */
#define ALLOWED_Y 16

static void describe(job *j, const attn_layer_config *c, int64_t batch, int64_t len) {
  char kv_heads[48] = "";
  if (c->num_kv_heads != c->num_heads)
    snprintf(kv_heads, sizeof(kv_heads), ", kv heads %lld", (long long)c->num_kv_heads);
  snprintf(j->shape, sizeof(j->shape),
           "B %lld, T %lld, d_model %lld, heads %lld%s, head size %lld, %s", (long long)batch,
           (long long)len, (long long)c->d_model, (long long)c->num_heads, kv_heads,
           (long long)c->head_size, c->causal ? "causal" : "not causal");
  double q = (double)(c->num_heads * c->head_size), kv = (double)(c->num_kv_heads * c->head_size);
  double projections = 2.0 * (double)(batch * len) * (double)c->d_model * (2 * q + 2 * kv);
  j->flops = projections + 4.0 * (double)batch * q * visible_pairs(len, len, c->causal);
}

/* Sets the layer's parameters and buffers for input `x`, (T,D) or (B,T,D). */
static int set_input(job *j, const options *o, const attn_tensor *x) {
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  attn_layer_get_config(j->layer, &c);
  if (x->rank != 2 && x->rank != 3)
    return fail(EXIT_BAD_DATA, "%s: tensor '%s' has rank %d; the input must be (T,D) or (B,T,D)",
                j->path, x->name, (int)x->rank);
  int64_t wanted[3] = {x->shape[0], x->shape[1], x->shape[2]};
  wanted[x->rank - 1] = c.d_model;
  int code = job_expect_shape(j, x, x->rank, wanted);
  if (code != 0) return code;
  attn_layer_params *p = &j->layer_params;
  *p = (attn_layer_params)ATTN_LAYER_PARAMS_INIT;
  p->batch = x->rank == 3 ? x->shape[0] : 1;
  p->len = x->shape[x->rank - 2];
  p->has_num_threads = o->has_threads;
  p->num_threads = o->threads;
  code = job_floats(j, x, &p->x);
  if (code != 0) return code;
  p->y = job_alloc(j, x->count, sizeof(float));
  if (p->y == NULL) return EXIT_BAD_DATA;
  job_add_result(j, "y", p->y, x->rank, x->shape);
  describe(j, &c, p->batch, p->len);
  return 0;
}

/* ---- a case --------------------------------------------------------------------------------- */

/* The case's own file, or the one it names, which must lie in the same folder. */
static int open_params(job *j, const attn_file **params) {
  const char *name = attn_file_metadata(j->files[0], "params_file");
  *params = j->files[0];
  if (name == NULL) return 0;
  if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
    return fail(EXIT_BAD_DATA,
                "%s: metadata 'params_file' is '%s'; it must be the plain name of a "
                "file in the same folder",
                j->path, name);
  const char *slash = strrchr(j->path, '/');
  size_t folder = slash == NULL ? 0 : (size_t)(slash - j->path) + 1;
  char *path = job_alloc(j, (int64_t)(folder + strlen(name) + 1), 1);
  if (path == NULL) return EXIT_BAD_DATA;
  memcpy(path, j->path, folder);
  memcpy(path + folder, name, strlen(name) + 1);
  j->params_path = path;
  int code = job_open_file(j, 1, path);
  *params = j->files[1];
  return code;
}

static int set_dropout(job *j, const attn_layer_config *c) {
  const attn_tensor *keep = attn_file_tensor(j->files[0], "keep");
  if (keep == NULL && attn_file_metadata(j->files[0], "dropout_rate") == NULL) return 0;
  if (keep == NULL) return job_missing(j, "keep");
  attn_layer_params *p = &j->layer_params;
  int64_t len = p->len, heads = c->num_heads, shape[4] = {p->batch, heads, len, len};
  int code = job_expect_shape(j, keep, 4, shape);
  if (code == 0) code = job_number(j, "dropout_rate", &p->dropout.rate);
  if (code != 0) return code;
  if (keep->dtype != ATTN_U8 && keep->dtype != ATTN_BOOL)
    return fail(EXIT_BAD_DATA, "%s: tensor 'keep' has dtype %s; it must be U8 or BOOL", j->path,
                attn_dtype_name(keep->dtype));
  if (p->dropout.rate < 0 || p->dropout.rate > 1)
    return fail(EXIT_BAD_DATA, "%s: metadata 'dropout_rate' is %.17g; allowed is 0 to 1", j->path,
                p->dropout.rate);
  p->dropout.deterministic = false;
  if (keep->count == 0) return 0; /* nothing to run, and the strides may overflow */
  p->dropout.keep = (attn_keep_mask){.data = keep->data,
                                     .batch_stride = heads * len * len,
                                     .head_stride = len * len,
                                     .row_stride = len,
                                     .key_stride = 1};
  return 0;
}

static int read_mask(job *j, bool *causal) {
  const char *mask = attn_file_metadata(j->files[0], "mask");
  *causal = mask == NULL || strcmp(mask, "causal") == 0;
  if (*causal || strcmp(mask, "none") == 0) return 0;
  return fail(EXIT_UNSUPPORTED,
              "%s: metadata 'mask' is '%s'; not supported: only causal and none are", j->path,
              mask);
}

/* Where the metadata repeats a shape, it must agree. */
static int check_metadata(const job *j, const char *key, int64_t value) {
  int64_t stated;
  if (attn_file_metadata(j->files[0], key) == NULL) return 0;
  int code = job_int(j, key, 0, INT64_MAX, &stated);
  if (code == 0 && stated != value)
    code = fail(EXIT_BAD_DATA, "%s: metadata '%s' is %lld but the tensors say %lld", j->path, key,
                (long long)stated, (long long)value);
  return code;
}

int job_load_layer_case(job *j, const options *o) {
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  const attn_file *params;
  const attn_tensor *x = attn_file_tensor(j->files[0], "x");
  if (x == NULL) return job_missing(j, "x");
  int code = job_int(j, "num_heads", 1, 1048576, &config.num_heads);
  if (code == 0) code = read_mask(j, &config.causal);
  if (code == 0) code = open_params(j, &params);
  if (code != 0) return code;
  const attn_status status = attn_layer_create_from_file(&config, params, NULL, true, &j->layer);
  if (status != ATTN_OK) return fail_data(status, NULL);
  code = set_input(j, o, x);
  attn_layer_get_config(j->layer, &config);
  if (code == 0) code = check_metadata(j, "D", config.d_model);
  if (code == 0) code = check_metadata(j, "B", j->layer_params.batch);
  if (code == 0) code = check_metadata(j, "T", j->layer_params.len);
  if (code == 0) code = set_dropout(j, &config);
  if (code == 0) code = job_add_check(j, 0, "y_f64", "tol_unit", false, ALLOWED_Y);
  if (code == 0) code = job_add_check(j, 0, "expected", "tol_unit", false, ALLOWED_Y);
  return code;
}

/* ---- weights and input ---------------------------------------------------------------------- */

static int find_input(const job *j, const options *o, const attn_tensor **x) {
  const attn_file *file = j->files[0];
  const char *name = o->tensor == NULL ? "x" : o->tensor;
  *x = attn_file_tensor(file, name);
  if (*x == NULL && o->tensor == NULL && attn_file_tensor_count(file) == 1)
    *x = attn_file_tensor_at(file, 0);
  if (*x != NULL) return 0;
  if (o->tensor != NULL) return job_missing(j, o->tensor);
  return fail(EXIT_BAD_DATA,
              "%s has no tensor that is named x, and %lld in all; name the input with --tensor",
              j->path, (long long)attn_file_tensor_count(file));
}

int job_open_weights(job *j, const options *o) {
  j->path = o->input;
  j->form = "layer";
  const attn_tensor *x;
  int code = job_open_file(j, 0, o->input);
  if (code == 0) code = job_open_file(j, 1, o->weights);
  if (code == 0) code = find_input(j, o, &x);
  if (code != 0) return code;
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  config.num_heads = o->heads;
  config.has_num_kv_heads = o->has_kv_heads;
  config.num_kv_heads = o->kv_heads;
  config.has_head_size = o->has_head_size;
  config.head_size = o->head_size;
  config.causal = o->causal;
  attn_status status =
      attn_layer_create_from_file(&config, j->files[1], o->prefix, o->allow_other, &j->layer);
  return status == ATTN_OK ? set_input(j, o, x) : fail_options(status);
}
