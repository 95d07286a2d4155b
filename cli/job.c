/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What loading a layer and loading an attention problem have in common. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int job_open_file(job *j, int i, const char *path) {
  attn_status status = attn_file_open(path, &j->files[i]);
  return status == ATTN_OK ? 0 : fail_data(status, NULL);
}

void *job_alloc(job *j, int64_t count, size_t size) {
  void *memory = calloc(count > 0 ? (size_t)count : 1, size);
  if (memory == NULL)
    fail(EXIT_BAD_DATA, "out of memory for %lld elements of %zu bytes", (long long)count, size);
  else
    j->buffers[j->buffer_count++] = memory;
  return memory;
}

void job_close(job *j) {
  attn_layer_destroy(j->layer);
  for (int i = 0; i < j->buffer_count; i++) free(j->buffers[i]);
  for (int i = 0; i < j->check_count; i++) {
    free(j->checks[i].want);
    free(j->checks[i].unit);
  }
  for (int i = 0; i < MAX_FILES; i++) attn_file_close(j->files[i]);
}

int job_missing(const job *j, const char *tensor) {
  return fail(EXIT_BAD_DATA, "%s: tensor '%s' is missing", j->path, tensor);
}

int job_floats(job *j, const attn_tensor *tensor, const float **floats) {
  float *out = job_alloc(j, tensor->count, sizeof(float));
  *floats = out;
  if (out == NULL) return EXIT_BAD_DATA;
  const attn_status status = attn_tensor_to_f32(tensor, out);
  return status == ATTN_OK ? 0 : fail_data(status, j->path);
}

static const char *find_metadata(const job *j, const char *key) {
  const char *text = attn_file_metadata(j->files[0], key);
  if (text == NULL && strcmp(key, "form") == 0)
    fail(
        EXIT_BAD_DATA,
        "%s: metadata 'form' is missing: this is not a case; for your own data: attn run --weights "
        "W --input X --heads N",
        j->path);
  else if (text == NULL)
    fail(EXIT_BAD_DATA, "%s: metadata '%s' is missing", j->path, key);
  return text;
}

int job_int(const job *j, const char *key, int64_t least, int64_t most, int64_t *value) {
  const char *text = find_metadata(j, key);
  if (text == NULL) return EXIT_BAD_DATA;
  if (parse_int(text, least, most, value)) return 0;
  return fail(EXIT_BAD_DATA, "%s: metadata '%s' is '%s'; allowed is an integer from %lld to %lld",
              j->path, key, text, (long long)least, (long long)most);
}

int job_number(const job *j, const char *key, double *value) {
  const char *text = find_metadata(j, key);
  if (text == NULL) return EXIT_BAD_DATA;
  if (parse_number(text, value)) return 0;
  return fail(EXIT_BAD_DATA, "%s: metadata '%s' is '%s'; it must be a finite number", j->path, key,
              text);
}

static const char *shape_text(const int64_t *shape, int32_t rank, char text[256]) {
  size_t used = (size_t)snprintf(text, 256, "[");
  for (int32_t i = 0; i < rank; i++)
    used +=
        (size_t)snprintf(text + used, 256 - used, "%s%lld", i == 0 ? "" : ",", (long long)shape[i]);
  snprintf(text + used, 256 - used, "]");
  return text;
}

int job_expect_shape(const job *j, const attn_tensor *tensor, int32_t rank, const int64_t *shape) {
  bool same = tensor->rank == rank;
  for (int32_t i = 0; same && i < rank; i++) same = tensor->shape[i] == shape[i];
  if (same) return 0;
  char found[256], wanted[256];
  return fail(EXIT_BAD_DATA, "%s: tensor '%s' has shape %s; expected %s", j->path, tensor->name,
              shape_text(tensor->shape, tensor->rank, found), shape_text(shape, rank, wanted));
}

void job_add_result(job *j, const char *name, float *data, int32_t rank, const int64_t *shape) {
  attn_tensor *t = &j->results[j->result_count++];
  *t = (attn_tensor){.name = name, .dtype = ATTN_F32, .rank = rank, .count = 1, .data = data};
  for (int32_t i = 0; i < rank; i++) {
    t->shape[i] = shape[i];
    t->count *= shape[i];
  }
}

/* The truth as doubles, into what the caller frees. */
static int read_truth(const job *j, const attn_tensor *tensor, double **truth) {
  const size_t count = (size_t)tensor->count;
  double *out = *truth = malloc((count + 1) * sizeof(*out));
  float *narrow = malloc((count + 1) * sizeof(*narrow));
  attn_status status = ATTN_OK;
  int code = 0;
  if (out == NULL || narrow == NULL) {
    code = fail(EXIT_BAD_DATA, "out of memory for tensor '%s'", tensor->name);
  } else if (tensor->dtype == ATTN_F64) {
    memcpy(out, tensor->data, count * sizeof(*out));
  } else if ((status = attn_tensor_to_f32(tensor, narrow)) != ATTN_OK) {
    code = fail_data(status, j->path);
  } else {
    for (size_t i = 0; i < count; i++) out[i] = (double)narrow[i];
  }
  free(narrow);
  return code;
}

int job_add_check(job *j, int result, const char *truth, const char *unit, bool per_element,
                  double allowed) {
  const attn_tensor *got = &j->results[result], *want = attn_file_tensor(j->files[0], truth);
  const attn_tensor *units = attn_file_tensor(j->files[0], unit);
  if (want == NULL) return 0;
  if (units == NULL) return job_missing(j, unit);
  int code = job_expect_shape(j, want, got->rank, got->shape);
  if (code == 0)
    code = job_expect_shape(j, units, per_element ? got->rank : got->rank - 1, got->shape);
  if (code != 0) return code;
  check *c = &j->checks[j->check_count];
  *c = (check){.name = truth,
               .result = got->name,
               .got = got->data,
               .rows = units->count,
               .allowed = allowed};
  c->columns = per_element ? 1 : got->shape[got->rank - 1];
  c->unit = malloc(((size_t)units->count + 1) * sizeof(float));
  if (c->unit == NULL) return fail(EXIT_BAD_DATA, "out of memory for tensor '%s'", unit);
  j->check_count++;
  const attn_status status = attn_tensor_to_f32(units, c->unit);
  return status == ATTN_OK ? read_truth(j, want, &c->want) : fail_data(status, j->path);
}

int job_open_case(job *j, const options *o) {
  j->path = o->case_path;
  int code = job_open_file(j, 0, o->case_path);
  if (code != 0) return code;
  j->form = find_metadata(j, "form");
  if (j->form == NULL) return EXIT_BAD_DATA;
  if (strcmp(j->form, "core") == 0) return job_load_core_case(j, o);
  if (strcmp(j->form, "nnx") == 0 || strcmp(j->form, "linen") == 0)
    return job_load_layer_case(j, o);
  if (strcmp(j->form, "linen-params") == 0)
    return fail(EXIT_BAD_DATA,
                "%s holds weights only (form linen-params); run a case that names it "
                "as params_file",
                j->path);
  return fail(EXIT_BAD_DATA, "%s: metadata 'form' is '%s'; allowed are nnx, linen and core",
              j->path, j->form);
}
