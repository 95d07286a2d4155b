/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Weights of a layer from a safetensors file. Which of the stored forms it is, is told by the names alone: a
 * square kernel looks the same whichever way round it is stored. */
#include "layer_config.h"
#include "safetensors.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

enum { QKV, Q, K, V, OUT, ROLES };

typedef enum {
  IN_OUT,  /* (in, out) */
  OUT_IN,  /* (out, in) */
  PER_HEAD /* (in, heads, head_size); the output projection (heads, head_size, out) */
} layout;

typedef struct form {
  const char *title;
  layout layout;
  const char *kernel[ROLES]; /* NULL: the form has none */
  const char *bias[ROLES];
} form;

static const form forms[] = {
    {"linen",
     IN_OUT,
     {[QKV] = "Dense_0/kernel", [OUT] = "Dense_1/kernel"},
     {[QKV] = "Dense_0/bias", [OUT] = "Dense_1/bias"}},
    {"nnx",
     IN_OUT,
     {[Q] = "q_proj/kernel",
      [K] = "k_proj/kernel",
      [V] = "v_proj/kernel",
      [OUT] = "out_proj/kernel"},
     {[Q] = "q_proj/bias", [K] = "k_proj/bias", [V] = "v_proj/bias", [OUT] = "out_proj/bias"}},
    {"Flax",
     PER_HEAD,
     {[Q] = "query/kernel", [K] = "key/kernel", [V] = "value/kernel", [OUT] = "out/kernel"},
     {[Q] = "query/bias", [K] = "key/bias", [V] = "value/bias", [OUT] = "out/bias"}},
    {"PyTorch",
     OUT_IN,
     {[Q] = "q_proj.weight",
      [K] = "k_proj.weight",
      [V] = "v_proj.weight",
      [OUT] = "out_proj.weight"},
     {[Q] = "q_proj.bias", [K] = "k_proj.bias", [V] = "v_proj.bias", [OUT] = "out_proj.bias"}},
    {"PyTorch",
     OUT_IN,
     {[Q] = "q_proj.weight", [K] = "k_proj.weight", [V] = "v_proj.weight", [OUT] = "o_proj.weight"},
     {[Q] = "q_proj.bias", [K] = "k_proj.bias", [V] = "v_proj.bias", [OUT] = "o_proj.bias"}},
    {"PyTorch fused",
     OUT_IN,
     {[QKV] = "in_proj_weight", [OUT] = "out_proj.weight"},
     {[QKV] = "in_proj_bias", [OUT] = "out_proj.bias"}},
};
#define FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

/* One file being read into one layer. */
typedef struct reader {
  const attn_file *file;
  const char *path;
  const char *prefix;
  const form *form;
  attn_layer_config config;
  const attn_tensor *kernel[ROLES], *bias[ROLES];
  void *converted[2 * ROLES];
  int converted_count;
} reader;

/* ---- names --------------------------------------------------------------------------------- */

static bool same_character(char a, char b) {
  return a == b || ((a == '/' || a == '.') && (b == '/' || b == '.'));
}

/* The rest of `name` behind `prefix`; NULL when it does not begin so. */
static const char *behind(const char *name, const char *prefix) {
  for (; *prefix != '\0'; name++, prefix++)
    if (!same_character(*name, *prefix)) return NULL;
  return name;
}

/* The tensor of that name at or after position *i, which is moved behind it. */
static const attn_tensor *find_from(const reader *r, const char *name, int64_t *i) {
  for (const attn_tensor *t; (t = attn_file_tensor_at(r->file, *i)) != NULL;) {
    (*i)++;
    const char *rest = behind(t->name, r->prefix);
    const char *end = rest == NULL ? NULL : behind(rest, name);
    if (end != NULL && *end == '\0') return t;
  }
  return NULL;
}

static attn_status find(const reader *r, const char *name, const attn_tensor **tensor) {
  int64_t i = 0;
  *tensor = name == NULL ? NULL : find_from(r, name, &i);
  const attn_tensor *other = *tensor == NULL ? NULL : find_from(r, name, &i);
  if (other == NULL) return ATTN_OK;
  return attn_fail(ATTN_BAD_FILE,
                   "%.200s: tensors '%.80s' and '%.80s' have the same name ('/' and "
                   "'.' are equal)",
                   r->path, (*tensor)->name, other->name);
}

/* How many kernels of a form the file holds; *complete when it holds all. */
static int count_kernels(const reader *r, const form *f, bool *complete) {
  int found = 0;
  *complete = true;
  for (int i = 0; i < ROLES; i++) {
    int64_t at = 0;
    if (f->kernel[i] == NULL) continue;
    if (find_from(r, f->kernel[i], &at) != NULL)
      found++;
    else
      *complete = false;
  }
  return found;
}

/* A tensor that would be a kernel under another prefix, for the message. */
static const char *elsewhere(const reader *r) {
  const attn_tensor *t;
  for (int64_t i = 0; (t = attn_file_tensor_at(r->file, i)) != NULL; i++) {
    for (int f = 0; f < FORMS; f++) {
      for (int role = 0; role < ROLES; role++) {
        const char *kernel = forms[f].kernel[role];
        const size_t length = strlen(t->name), tail = kernel != NULL ? strlen(kernel) : SIZE_MAX;
        if (tail > length) continue;
        const char *end = behind(t->name + length - tail, kernel);
        if (end != NULL && *end == '\0') return t->name;
      }
    }
  }
  return NULL;
}

static attn_status recognise(reader *r) {
  int best = 0;
  bool best_complete = false;
  for (int i = 0; i < FORMS; i++) {
    bool complete;
    int found = count_kernels(r, &forms[i], &complete);
    if (complete && best_complete)
      return attn_fail(ATTN_BAD_FILE,
                       "%.200s: tensors of two forms are there: '%s%s' (%s) and "
                       "'%s%s' (%s)",
                       r->path, r->prefix, r->form->kernel[OUT], r->form->title, r->prefix,
                       forms[i].kernel[OUT], forms[i].title);
    if (complete || (found > best && !best_complete)) {
      r->form = &forms[i];
      best = found;
      best_complete = complete;
    }
  }
  if (r->form != NULL) return ATTN_OK;
  const char *hint = elsewhere(r);
  if (hint != NULL)
    return attn_fail(
        ATTN_BAD_FILE,
        "%.200s: no attention weights with the prefix '%.80s'; the file has '%.80s', and a "
        "prefix ends with its last '.' or '/'",
        r->path, r->prefix, hint);
  return attn_fail(ATTN_BAD_FILE,
                   "%.200s: no attention weights with the prefix '%.80s'; expected "
                   "Dense_0/kernel, q_proj/kernel, query/kernel, q_proj.weight or in_proj_weight "
                   "and what belongs to it",
                   r->path, r->prefix);
}

static attn_status find_all(reader *r) {
  for (int i = 0; i < ROLES; i++) {
    attn_status status = find(r, r->form->kernel[i], &r->kernel[i]);
    if (status == ATTN_OK) status = find(r, r->form->bias[i], &r->bias[i]);
    if (status != ATTN_OK) return status;
    if (r->kernel[i] == NULL && r->form->kernel[i] != NULL)
      return attn_fail(ATTN_BAD_FILE, "%.200s: tensor '%.80s%s' is missing; the %s form needs it",
                       r->path, r->prefix, r->form->kernel[i], r->form->title);
  }
  return ATTN_OK;
}

/* Names that tell of steps between the projections and attention, which the layer does not take: loading the rest
 * would give another layer's numbers. */
static attn_status refuse_other_layers(const reader *r) {
  static const char *const steps[] = {"q_norm", "k_norm", "query_norm", "key_norm", "rotary"};
  const attn_tensor *t;
  for (int64_t i = 0; (t = attn_file_tensor_at(r->file, i)) != NULL; i++) {
    const char *name = behind(t->name, r->prefix);
    for (size_t s = 0; name != NULL && s < sizeof(steps) / sizeof(steps[0]); s++) {
      if (strncmp(name, steps[s], strlen(steps[s])) == 0)
        return attn_fail(
            ATTN_UNSUPPORTED,
            "%.200s: tensor '%.80s' belongs to a layer that norms or rotates q and k; this "
            "layer does neither",
            r->path, t->name);
    }
  }
  return ATTN_OK;
}

static attn_status refuse_surplus(const reader *r) {
  const attn_tensor *t;
  for (int64_t i = 0; (t = attn_file_tensor_at(r->file, i)) != NULL; i++) {
    bool used = behind(t->name, r->prefix) == NULL;
    for (int j = 0; j < ROLES; j++) used = used || t == r->kernel[j] || t == r->bias[j];
    if (!used)
      return attn_fail(ATTN_BAD_FILE,
                       "%.200s: tensor '%.80s' is surplus; the %s form has only "
                       "kernels and biases of its projections (allow_other admits more)",
                       r->path, t->name, r->form->title);
  }
  return ATTN_OK;
}

/* ---- shapes -------------------------------------------------------------------------------- */

/* Fills in what the configuration leaves to the file. */
static attn_status complete_config(reader *r) {
  attn_layer_config *config = &r->config;
  const form *f = r->form;
  const attn_tensor *first = r->kernel[f->kernel[QKV] != NULL ? QKV : Q];
  const attn_tensor *key = r->kernel[K];
  bool per_head = f->layout == PER_HEAD;
  if (first->rank == (per_head ? 3 : 2)) {
    if (config->d_model == 0) config->d_model = first->shape[f->layout == OUT_IN ? 1 : 0];
    if (config->num_heads == 0 && per_head) {
      config->num_heads = first->shape[1];
      if (!config->has_num_kv_heads && key->rank == 3) config->num_kv_heads = key->shape[1];
      if (!config->has_head_size) config->head_size = first->shape[2];
      config->has_num_kv_heads = config->has_num_kv_heads || key->rank == 3;
      config->has_head_size = true;
    }
  }
  if (config->d_model == 0 || config->num_heads == 0) {
    char shape[ATTN_SHAPE_TEXT];
    if (per_head || config->num_heads != 0)
      return attn_fail(ATTN_BAD_FILE, "%.200s: tensor '%.80s' has shape %s; expected %s", r->path,
                       first->name, attn_shape_text(first->shape, first->rank, shape),
                       per_head ? "(d_model, heads, head size)" : "two extents");
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "num_heads is missing; the %s form of %.200s does not tell "
                     "it; allowed: 1 or more",
                     f->title, r->path);
  }
  return attn_layer_config_resolve(config);
}

static attn_status check_shape(const reader *r, const attn_tensor *t, const int64_t *want,
                               int32_t rank) {
  bool same = t->rank == rank;
  for (int32_t i = 0; same && i < rank; i++) same = t->shape[i] == want[i];
  if (same) return ATTN_OK;
  char found[ATTN_SHAPE_TEXT], expected[ATTN_SHAPE_TEXT];
  return attn_fail(ATTN_BAD_FILE,
                   "%.150s: tensor '%.80s' has shape %s; the %s form expects %s for "
                   "d_model %lld, num_heads %lld, num_kv_heads %lld, head_size %lld",
                   r->path, t->name, attn_shape_text(t->shape, t->rank, found), r->form->title,
                   attn_shape_text(want, rank, expected), (long long)r->config.d_model,
                   (long long)r->config.num_heads, (long long)r->config.num_kv_heads,
                   (long long)r->config.head_size);
}

/* Features on the far side of a projection. */
static int64_t role_heads(const reader *r, int i) {
  int64_t heads = r->config.num_heads, kv_heads = r->config.num_kv_heads;
  return i == QKV ? heads + 2 * kv_heads : i == K || i == V ? kv_heads : heads;
}

static attn_status check_role(const reader *r, int i) {
  int64_t d_model = r->config.d_model, size = r->config.head_size, heads = role_heads(r, i);
  int64_t in = i == OUT ? heads * size : d_model, out = i == OUT ? d_model : heads * size;
  bool per_head = r->form->layout == PER_HEAD;
  attn_status status;
  if (per_head) {
    int64_t into[3] = {d_model, heads, size}, back[3] = {heads, size, d_model};
    status = check_shape(r, r->kernel[i], i == OUT ? back : into, 3);
  } else {
    int64_t in_out[2] = {in, out}, out_in[2] = {out, in};
    status = check_shape(r, r->kernel[i], r->form->layout == IN_OUT ? in_out : out_in, 2);
  }
  if (status != ATTN_OK || r->bias[i] == NULL) return status;
  int64_t flat[1] = {out}, split[2] = {heads, size};
  return per_head && i != OUT ? check_shape(r, r->bias[i], split, 2)
                              : check_shape(r, r->bias[i], flat, 1);
}

/* ---- values -------------------------------------------------------------------------------- */

/* The tensor as floats: in place where the file has floats at an address fit for them. */
static attn_status as_floats(reader *r, const attn_tensor *t, const float **out) {
  if (t->dtype == ATTN_F32 && (uintptr_t)t->data % _Alignof(float) == 0) {
    *out = t->data;
    return ATTN_OK;
  }
  float *copy = malloc((size_t)t->count * sizeof(float));
  if (copy == NULL)
    return attn_fail(ATTN_OUT_OF_MEMORY, "out of memory for tensor '%.80s' of %.200s", t->name,
                     r->path);
  r->converted[r->converted_count++] = copy;
  *out = copy;
  return attn_tensor_to_f32(t, copy);
}

static attn_status read_role(reader *r, int i, attn_weight *weight) {
  if (r->kernel[i] == NULL) return ATTN_OK;
  attn_status status = check_role(r, i);
  const float *kernel = NULL, *bias = NULL;
  if (status == ATTN_OK) status = as_floats(r, r->kernel[i], &kernel);
  if (status == ATTN_OK && r->bias[i] != NULL) status = as_floats(r, r->bias[i], &bias);
  if (status != ATTN_OK) return status;
  weight->kernel = kernel;
  weight->bias = bias;
  int64_t size = r->config.head_size, heads = role_heads(r, i);
  int64_t in = i == OUT ? heads * size : r->config.d_model;
  int64_t out = i == OUT ? r->config.d_model : heads * size;
  /* Row-major (in, heads, size) and (heads, size, out) are (in, out) as they lie. */
  weight->in_stride = r->form->layout == OUT_IN ? 1 : out;
  weight->out_stride = r->form->layout == OUT_IN ? in : 1;
  return ATTN_OK;
}

static attn_status read_layer(reader *r, bool allow_other, attn_layer **layer) {
  attn_status status = recognise(r);
  if (status == ATTN_OK) status = find_all(r);
  if (status == ATTN_OK) status = refuse_other_layers(r);
  if (status == ATTN_OK && !allow_other) status = refuse_surplus(r);
  if (status == ATTN_OK) status = complete_config(r);
  attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
  attn_weight *roles[ROLES] = {&weights.qkv, &weights.q, &weights.k, &weights.v, &weights.out};
  for (int i = 0; status == ATTN_OK && i < ROLES; i++) status = read_role(r, i, roles[i]);
  return status == ATTN_OK ? attn_layer_create(&r->config, &weights, layer) : status;
}

attn_status attn_layer_create_from_file(const attn_layer_config *config, const attn_file *file,
                                        const char *prefix, bool allow_other, attn_layer **layer) {
  if (file == NULL || layer == NULL)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s",
                     file == NULL ? "file is NULL; it must be a file's handle"
                                  : "layer is NULL; it must point to a handle");
  reader r = {.file = file, .path = attn_file_path(file), .prefix = prefix == NULL ? "" : prefix};
  attn_status status = attn_layer_config_copy(config, &r.config);
  if (status == ATTN_OK) status = read_layer(&r, allow_other, layer);
  for (int i = 0; i < r.converted_count; i++) free(r.converted[i]);
  return status;
}
