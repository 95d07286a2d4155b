/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Loading attention problems: q, k and v of a case file. */
#include "job.h"

#include <stdio.h>
#include <string.h>

#define ALLOWED_O 8
#define ALLOWED_LSE 4

/* With lengths below 2^31 no product of a stride overflows, not even beside an extent of 0. */
#define MAX_HEADS 1048576
#define MAX_SIZE 1024

static const char *metadata(const job *j, const char *key) {
  const char *text = attn_file_metadata(j->files[0], key);
  return text == NULL ? "" : text;
}

/* Which feature of the case this version lacks; NULL when it can do all. */
static const char *missing_feature(const job *j) {
  double number;
  if (strcmp(metadata(j, "layout"), "varlen") == 0) return "layout varlen";
  if (strcmp(metadata(j, "layout"), "paged") == 0) return "layout paged";
  if (strcmp(metadata(j, "dtype"), "BF16") == 0) return "dtype BF16";
  if (strcmp(metadata(j, "dtype"), "F16") == 0) return "dtype F16";
  if (parse_number(metadata(j, "window_left"), &number) && number >= 0) return "window_left";
  if (parse_number(metadata(j, "window_right"), &number) && number >= 0) return "window_right";
  if (parse_number(metadata(j, "softcap"), &number) && number != 0) return "softcap";
  if (attn_file_tensor(j->files[0], "alibi_slopes") != NULL) return "alibi_slopes";
  if (attn_file_tensor(j->files[0], "sink") != NULL) return "sink";
  return NULL;
}

/* What missing_feature() did not know must be well formed and off. */
static int check_options(const job *j) {
  int64_t window;
  double softcap;
  if (strcmp(metadata(j, "layout"), "dense") != 0)
    return fail(EXIT_BAD_DATA, "%s: metadata 'layout' is '%s'; allowed are dense, varlen and paged",
                j->path, metadata(j, "layout"));
  if (strcmp(metadata(j, "dtype"), "F32") != 0)
    return fail(EXIT_BAD_DATA, "%s: metadata 'dtype' is '%s'; allowed are F32, BF16 and F16",
                j->path, metadata(j, "dtype"));
  int code = job_int(j, "window_left", -1, INT64_MAX, &window);
  if (code == 0) code = job_int(j, "window_right", -1, INT64_MAX, &window);
  if (code == 0) code = job_number(j, "softcap", &softcap);
  return code;
}

static int find_tensors(const job *j, const attn_tensor *qkv[3]) {
  static const char *const names[3] = {"q", "k", "v"};
  for (int i = 0; i < 3; i++) {
    qkv[i] = attn_file_tensor(j->files[0], names[i]);
    if (qkv[i] == NULL) {
      job_missing(j, names[i]);
      return EXIT_BAD_DATA;
    }
    if (qkv[i]->dtype != ATTN_F32)
      return fail(EXIT_BAD_DATA, "%s: tensor '%s' has dtype %s; metadata 'dtype' says F32", j->path,
                  names[i], attn_dtype_name(qkv[i]->dtype));
    if (qkv[i]->rank != 4)
      return fail(EXIT_BAD_DATA, "%s: tensor '%s' has %d extents; it must be (B,T,H,D)", j->path,
                  names[i], (int)qkv[i]->rank);
  }
  return 0;
}

/* The sizes, from metadata, which the tensors must fit. */
static int set_sizes(job *j, const attn_tensor *const qkv[3]) {
  attn_params *p = &j->params;
  int64_t causal;
  double scale;
  int code = job_int(j, "B", 0, INT32_MAX, &p->batch);
  if (code == 0) code = job_int(j, "num_heads", 1, MAX_HEADS, &p->q_heads);
  if (code == 0) code = job_int(j, "num_kv_heads", 1, MAX_HEADS, &p->kv_heads);
  if (code == 0) code = job_int(j, "Tq", 0, INT32_MAX, &p->q_len);
  if (code == 0) code = job_int(j, "Tk", 0, INT32_MAX, &p->kv_len);
  if (code == 0) code = job_int(j, "D", 1, MAX_SIZE, &p->head_size);
  if (code == 0) code = job_int(j, "Dv", 1, MAX_SIZE, &p->value_size);
  if (code == 0) code = job_int(j, "causal", 0, 1, &causal);
  if (code == 0) code = job_number(j, "scale", &scale);
  if (code != 0) return code;
  p->causal = causal != 0;
  p->has_scale = true;
  p->scale = (float)scale;
  code = job_expect_shape(j, qkv[0], 4, (int64_t[4]){p->batch, p->q_len, p->q_heads, p->head_size});
  if (code == 0)
    code = job_expect_shape(j, qkv[1], 4,
                            (int64_t[4]){p->batch, p->kv_len, p->kv_heads, p->head_size});
  if (code == 0)
    code = job_expect_shape(j, qkv[2], 4,
                            (int64_t[4]){p->batch, p->kv_len, p->kv_heads, p->value_size});
  return code;
}

/* Views of dense (batch, row, head, dim) arrays. */
static int set_views(job *j, const attn_tensor *const qkv[3]) {
  attn_params *p = &j->params;
  attn_input *views[3] = {&p->q, &p->k, &p->v};
  for (int i = 0; i < 3; i++) {
    const int64_t *s = qkv[i]->shape;
    *views[i] = (attn_input){.data = job_floats(j, qkv[i]),
                             .batch_stride = s[1] * s[2] * s[3],
                             .head_stride = s[3],
                             .row_stride = s[2] * s[3],
                             .dim_stride = 1};
    if (views[i]->data == NULL) return EXIT_BAD_DATA;
  }
  int64_t heads = p->q_heads, rows = p->q_len, size = p->value_size;
  int64_t o_shape[4] = {p->batch, rows, heads, size}, lse_shape[3] = {p->batch, heads, rows};
  float *out = job_alloc(j, p->batch * rows * heads * size, sizeof(float));
  float *lse = job_alloc(j, p->batch * heads * rows, sizeof(float));
  if (out == NULL || lse == NULL) return EXIT_BAD_DATA;
  p->o = (attn_output){.data = out,
                       .batch_stride = rows * heads * size,
                       .head_stride = size,
                       .row_stride = heads * size,
                       .dim_stride = 1};
  p->lse = (attn_lse_output){
      .data = lse, .batch_stride = heads * rows, .head_stride = rows, .row_stride = 1};
  job_add_result(j, "o", out, 4, o_shape);
  job_add_result(j, "lse", lse, 3, lse_shape);
  return 0;
}

static void describe(job *j) {
  const attn_params *p = &j->params;
  snprintf(j->shape, sizeof(j->shape),
           "B %lld, Tq %lld, Tk %lld, %lld heads (%lld kv heads) of %lld and %lld, %s",
           (long long)p->batch, (long long)p->q_len, (long long)p->kv_len, (long long)p->q_heads,
           (long long)p->kv_heads, (long long)p->head_size, (long long)p->value_size,
           p->causal ? "causal" : "not causal");
  j->flops = 2.0 * (double)(p->head_size + p->value_size) * (double)(p->batch * p->q_heads) *
             visible_pairs(p->q_len, p->kv_len, p->causal);
}

int job_load_core_case(job *j, const options *o) {
  const char *missing = missing_feature(j);
  if (missing != NULL) return fail(EXIT_NOT_YET, "%s: not supported yet: %s", j->path, missing);
  j->params = (attn_params)ATTN_PARAMS_INIT;
  j->params.has_num_threads = o->has_threads;
  j->params.num_threads = o->threads;
  const attn_tensor *qkv[3] = {NULL, NULL, NULL};
  int code = check_options(j);
  if (code == 0) code = find_tensors(j, qkv);
  if (code == 0) code = set_sizes(j, qkv);
  if (code == 0) code = set_views(j, qkv);
  if (code != 0) return code;
  describe(j);
  code = job_add_check(j, 0, "o_f64", "tol_unit", false, ALLOWED_O);
  return code == 0 ? job_add_check(j, 1, "lse_f64", "lse_tol_unit", true, ALLOWED_LSE) : code;
}
