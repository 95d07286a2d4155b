/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Layers from files: every stored form gives, bit for bit, the layer made from plain arrays; and a file that does
 * not fit is refused by the name of the tensor at fault. */

#include "check.h"
#include "scratch.h"
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No two of the extents are equal, so that nothing transposed or swapped fits by accident. */
enum { D = 6, H = 4, HKV = 2, DH = 5, NQ = H * DH, NKV = HKV * DH, ALL = NQ + 2 * NKV, T = 7 };

/* (in, out) row-major. */
static float qkv[D * ALL], q[D * NQ], k[D * NKV], v[D * NKV], out[NQ * D];
static float qkv_bias[ALL], out_bias[D], x[T * D];

/* Multiples of 1/8 from -4 to 4: every storage type holds them exactly. */
static float value(int i) { return (float)(i * 37 % 65 - 32) / 8; }

static void fill(void) {
  for (int i = 0; i < D * ALL; i++) qkv[i] = value(i);
  for (int i = 0; i < NQ * D; i++) out[i] = value(i + 11);
  for (int i = 0; i < ALL; i++) qkv_bias[i] = value(i + 5);
  for (int i = 0; i < D; i++) out_bias[i] = value(i + 3);
  for (int i = 0; i < T * D; i++) x[i] = value(i + 7);
  for (int i = 0; i < D; i++)
    for (int n = 0; n < ALL; n++) {
      float w = qkv[i * ALL + n];
      if (n < NQ)
        q[i * NQ + n] = w;
      else if (n < NQ + NKV)
        k[i * NKV + n - NQ] = w;
      else
        v[i * NKV + n - NQ - NKV] = w;
    }
}

static attn_layer_config config(void) {
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  c.d_model = D;
  c.num_heads = H;
  c.has_num_kv_heads = c.has_head_size = true;
  c.num_kv_heads = HKV;
  c.head_size = DH;
  return c;
}

static void forward(const attn_layer *layer, float y[T * D]) {
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.len = T;
  p.x = x;
  p.y = y;
  CHECK_OK(attn_layer_forward(NULL, layer, &p));
}

/* What the layer of plain arrays gives. */
static void expected(bool with_bias, float y[T * D]) {
  attn_layer_config c = config();
  attn_layer_weights w = ATTN_LAYER_WEIGHTS_INIT;
  w.qkv = (attn_weight){
      .kernel = qkv, .in_stride = ALL, .out_stride = 1, .bias = with_bias ? qkv_bias : NULL};
  w.out = (attn_weight){
      .kernel = out, .in_stride = D, .out_stride = 1, .bias = with_bias ? out_bias : NULL};
  attn_layer *layer = NULL;
  if (CHECK_OK(attn_layer_create(&c, &w, &layer))) forward(layer, y);
  attn_layer_destroy(layer);
}

/* ---- files --------------------------------------------------------------------------------- */

enum { MOST = 12 };

/* A file in the making; owns its names and data. */
typedef struct builder {
  attn_tensor tensors[MOST];
  int count;
} builder;

static uint16_t narrow(float f, attn_dtype dtype) {
  uint32_t bits = float_bits(f);
  if (dtype == ATTN_BF16) return (uint16_t)(bits >> 16);
  if (f == 0) return 0;
  return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) |
                    (bits >> 13 & 1023));
}

static void add(builder *b, const char *name, attn_dtype dtype, const float *data, int32_t rank,
                int64_t e0, int64_t e1, int64_t e2) {
  attn_tensor *t = &b->tensors[b->count++];
  *t = (attn_tensor){.dtype = dtype, .rank = rank, .shape = {e0, e1, e2}};
  size_t count = (size_t)(e0 * (rank > 1 ? e1 : 1) * (rank > 2 ? e2 : 1));
  t->name = strcpy(check_alloc(strlen(name) + 1), name);
  unsigned char *bytes = check_alloc(count * attn_dtype_size(dtype));
  for (size_t i = 0; i < count; i++) {
    double wide = (double)data[i];
    uint16_t half = narrow(data[i], dtype);
    const void *from = dtype == ATTN_F64   ? (const void *)&wide
                       : dtype == ATTN_F32 ? (const void *)&data[i]
                                           : (const void *)&half;
    memcpy(bytes + i * attn_dtype_size(dtype), from, attn_dtype_size(dtype));
  }
  t->data = bytes;
}

static void free_builder(builder *b) {
  for (int i = 0; i < b->count; i++) {
    free((void *)(uintptr_t)b->tensors[i].name);
    free((void *)(uintptr_t)b->tensors[i].data);
  }
  b->count = 0;
}

static void transpose(const float *in, int rows, int columns, float *to) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) to[j * rows + i] = in[i * columns + j];
}

static void add_transposed(builder *b, const char *name, attn_dtype dtype, const float *data,
                           int rows, int columns) {
  float *turned = check_floats((size_t)(rows * columns));
  transpose(data, rows, columns, turned);
  add(b, name, dtype, turned, 2, columns, rows, 0);
  free(turned);
}

typedef enum { LINEN, NNX, FLAX, PYTORCH, PYTORCH_O, PYTORCH_FUSED, FORMS } form;
static const char *const form_names[] = {"linen",   "nnx",       "Flax",
                                         "PyTorch", "PyTorch o", "PyTorch fused"};

static const char *const kernel_names[FORMS][5] = {
    {"Dense_0/kernel", NULL, NULL, NULL, "Dense_1/kernel"},
    {NULL, "q_proj/kernel", "k_proj/kernel", "v_proj/kernel", "out_proj/kernel"},
    {NULL, "query/kernel", "key/kernel", "value/kernel", "out/kernel"},
    {NULL, "q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"},
    {NULL, "q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"},
    {"in_proj_weight", NULL, NULL, NULL, "out_proj.weight"},
};
static const char *const bias_names[FORMS][5] = {
    {"Dense_0/bias", NULL, NULL, NULL, "Dense_1/bias"},
    {NULL, "q_proj/bias", "k_proj/bias", "v_proj/bias", "out_proj/bias"},
    {NULL, "query/bias", "key/bias", "value/bias", "out/bias"},
    {NULL, "q_proj.bias", "k_proj.bias", "v_proj.bias", "out_proj.bias"},
    {NULL, "q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias"},
    {"in_proj_bias", NULL, NULL, NULL, "out_proj.bias"},
};

/* `prefix` before every name, and every '/' or '.' replaced by `separator` unless that is 0. */
static const char *full_name(const char *prefix, const char *name, char separator) {
  static char text[128];
  snprintf(text, sizeof(text), "%s%s", prefix, name);
  for (char *c = text; separator && *c; c++)
    if (*c == '/' || *c == '.') *c = separator;
  return text;
}

static builder build(form f, attn_dtype dtype, bool with_bias, const char *prefix, char separator) {
  builder b = {.count = 0};
  const float *const kernels[5] = {qkv, q, k, v, out};
  const float *const biases[5] = {qkv_bias, qkv_bias, qkv_bias + NQ, qkv_bias + NQ + NKV, out_bias};
  const int ins[5] = {D, D, D, D, NQ}, outs[5] = {ALL, NQ, NKV, NKV, D};
  const int heads[5] = {0, H, HKV, HKV, H};
  for (int i = 0; i < 5; i++) {
    if (!kernel_names[f][i]) continue;
    const char *name = full_name(prefix, kernel_names[f][i], separator);
    if (f == LINEN || f == NNX)
      add(&b, name, dtype, kernels[i], 2, ins[i], outs[i], 0);
    else if (f == FLAX && i < 4)
      add(&b, name, dtype, kernels[i], 3, D, heads[i], DH);
    else if (f == FLAX)
      add(&b, name, dtype, kernels[i], 3, H, DH, D);
    else
      add_transposed(&b, name, dtype, kernels[i], ins[i], outs[i]);
    if (!with_bias) continue;
    name = full_name(prefix, bias_names[f][i], separator);
    if (f == FLAX && i < 4)
      add(&b, name, dtype, biases[i], 2, heads[i], DH, 0);
    else
      add(&b, name, dtype, biases[i], 1, outs[i], 0, 0);
  }
  return b;
}

static attn_file *open_built(const builder *b) {
  attn_file *file = NULL;
  CHECK_OK(attn_file_write(scratch_path(), b->tensors, b->count, NULL, 0));
  CHECK_OK(scratch_open(&file));
  return file;
}

static attn_status create(const attn_layer_config *c, const builder *b, const char *prefix,
                          bool allow_other, attn_layer **layer) {
  attn_file *file = open_built(b);
  attn_status status = attn_layer_create_from_file(c, file, prefix, allow_other, layer);
  attn_file_close(file);
  return status;
}

/* The file must give the layer of plain arrays. */
static void same_layer(const attn_layer_config *c, const builder *b, const char *prefix,
                       bool allow_other, bool with_bias) {
  float want[T * D], got[T * D];
  expected(with_bias, want);
  attn_layer *layer = NULL;
  if (!CHECK_OK(create(c, b, prefix, allow_other, &layer))) return;
  attn_layer_config made = ATTN_LAYER_CONFIG_INIT;
  attn_layer_get_config(layer, &made);
  CHECK_INT(made.d_model, D);
  CHECK_INT(made.num_heads, H);
  CHECK_INT(made.num_kv_heads, HKV);
  CHECK_INT(made.head_size, DH);
  forward(layer, got);
  CHECK_BITS(got, want, T * D);
  attn_layer_destroy(layer);
}

static void test_forms(void) {
  static const attn_dtype types[] = {ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16};
  static const char separators[] = {0, '/', '.'};
  static const char *const prefixes[] = {"", "layers/0/attn."};
  attn_layer_config c = config();
  for (form f = LINEN; f < FORMS; f++)
    for (int t = 0; t < 4; t++)
      for (int s = 0; s < 3; s++)
        for (int n = 0; n < 4; n++) {
          bool with_bias = n & 1;
          const char *prefix = prefixes[n >> 1];
          check_context("%s, %s, separator %d, prefix '%s', bias %d", form_names[f],
                        attn_dtype_name(types[t]), separators[s], prefix, with_bias);
          builder b = build(f, types[t], with_bias, prefix, separators[s]);
          same_layer(&c, &b, prefix, false, with_bias);
          free_builder(&b);
        }
}

static void test_left_to_file(void) {
  for (form f = LINEN; f < FORMS; f++) {
    check_context("%s: sizes from the file", form_names[f]);
    builder b = build(f, ATTN_F32, true, "", 0);
    attn_layer_config c = config();
    c.d_model = 0;
    same_layer(&c, &b, NULL, false, true);
    c = (attn_layer_config)ATTN_LAYER_CONFIG_INIT;
    attn_layer *layer = NULL;
    if (f == FLAX) {
      same_layer(&c, &b, NULL, false, true);
    } else {
      CHECK_STATUS(create(&c, &b, NULL, false, &layer), ATTN_INVALID_ARGUMENT);
      CHECK(strstr(attn_last_error(), "num_heads is missing") != NULL);
      CHECK(layer == NULL);
    }
    free_builder(&b);
  }
}

/* What is given must fit what the file says; and the file cannot say it with a kernel of another rank. */
static void test_given_beside_file(void) {
  builder b = build(FLAX, ATTN_F32, true, "", 0);
  attn_layer *layer = NULL;
  for (int i = 0; i < 2; i++) {
    check_context("Flax: num_heads from the file, %s given", i ? "head size" : "kv heads");
    attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
    if (i == 0)
      c.has_num_kv_heads = true, c.num_kv_heads = HKV / 2;
    else
      c.has_head_size = true, c.head_size = DH + 1;
    CHECK_STATUS(create(&c, &b, NULL, false, &layer), ATTN_BAD_FILE);
    CHECK(strstr(attn_last_error(), i == 0 ? "'key/kernel' has shape [6,2,5]"
                                           : "'query/kernel' has shape [6,4,5]") != NULL);
  }
  free_builder(&b);
  for (form f = LINEN; f < FORMS; f++)
    for (int32_t rank = 1; rank <= 4; rank++) {
      if (rank == (f == FLAX ? 3 : 2)) continue;
      check_context("%s: d_model from a kernel of rank %d", form_names[f], (int)rank);
      b = build(f, ATTN_F32, false, "", 0);
      const char *name = kernel_names[f][kernel_names[f][0] ? 0 : 1];
      for (int i = 0; i < b.count; i++)
        if (strcmp(b.tensors[i].name, name) == 0) {
          b.tensors[i].rank = rank;
          for (int j = f == FLAX ? 3 : 2; j < rank; j++) b.tensors[i].shape[j] = 1;
        }
      attn_layer_config c = config();
      c.d_model = 0;
      CHECK_STATUS(create(&c, &b, NULL, false, &layer), ATTN_BAD_FILE);
      CHECK(strstr(attn_last_error(), name) && strstr(attn_last_error(), "has shape ["));
      free_builder(&b);
    }
  CHECK(layer == NULL);
}

/* Fused weights stored either way round, square parts throughout: only the name can tell. With one row
 * the output is the row's value vector, here times the identity. */
static void test_fused_by_name(void) {
  enum { C = 4 };
  static const float identity[C * C] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  static const float rows[C] = {1, 2, 3, 4}, want[C] = {12, 23, 34, 41};
  float linear[3 * C * C] = {0}, turned[3 * C * C];
  float bias[3 * C];
  for (int i = 0; i < C; i++) {
    linear[i * C + i] = 1;
    linear[(C + i) * C + i] = 2;
    linear[(2 * C + i) * C + (i + 1) % C] = 1;
    bias[i] = 0.1f;
    bias[C + i] = 0.2f;
    bias[2 * C + i] = 10.0f * (float)(i + 1);
  }
  transpose(linear, 3 * C, C, turned);
  for (int way = 0; way < 2; way++) {
    check_context("fused, stored %s", way ? "(in, out)" : "(out, in)");
    builder b = {.count = 0};
    if (way == 0)
      add(&b, "in_proj_weight", ATTN_F32, linear, 2, 3 * C, C, 0);
    else
      add(&b, "Dense_0/kernel", ATTN_F32, turned, 2, C, 3 * C, 0);
    add(&b, way == 0 ? "in_proj_bias" : "Dense_0/bias", ATTN_F32, bias, 1, 3 * C, 0, 0);
    add(&b, way == 0 ? "out_proj.weight" : "Dense_1/kernel", ATTN_F32, identity, 2, C, C, 0);
    attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
    c.num_heads = 2;
    attn_layer *layer = NULL;
    if (CHECK_OK(create(&c, &b, NULL, false, &layer))) {
      float y[C];
      attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
      p.len = 1;
      p.x = rows;
      p.y = y;
      CHECK_OK(attn_layer_forward(NULL, layer, &p));
      CHECK_BITS(y, want, C);
    }
    attn_layer_destroy(layer);
    free_builder(&b);
    /* The other way round under the same name does not fit, and is not turned. */
    if (way == 0)
      add(&b, "in_proj_weight", ATTN_F32, turned, 2, C, 3 * C, 0);
    else
      add(&b, "Dense_0/kernel", ATTN_F32, linear, 2, 3 * C, C, 0);
    add(&b, way == 0 ? "out_proj.weight" : "Dense_1/kernel", ATTN_F32, identity, 2, C, C, 0);
    c.d_model = C;
    layer = NULL;
    CHECK_STATUS(create(&c, &b, NULL, false, &layer), ATTN_BAD_FILE);
    CHECK(strstr(attn_last_error(), way == 0 ? "[4,12]" : "[12,4]") != NULL);
    CHECK(strstr(attn_last_error(), way == 0 ? "expects [12,4]" : "expects [4,12]") != NULL);
    CHECK(layer == NULL);
    free_builder(&b);
  }
}

/* ---- files that do not fit ------------------------------------------------------------------- */

static void refused(const builder *b, const char *prefix, bool allow_other, attn_status status,
                    const char *message, const char *name) {
  attn_layer *const unchanged = (attn_layer *)(uintptr_t)64;
  attn_layer *layer = unchanged;
  attn_layer_config c = config();
  CHECK_STATUS(create(&c, b, prefix, allow_other, &layer), status);
  CHECK(layer == unchanged);
  if (!CHECK(strstr(attn_last_error(), message) && strstr(attn_last_error(), name)))
    printf("  message: %s\n  wanted:  %s ... %s\n", attn_last_error(), name, message);
}

static void test_missing(void) {
  for (form f = LINEN; f < FORMS; f++)
    for (int i = 0; i < 5; i++) {
      if (!kernel_names[f][i]) continue;
      check_context("%s without %s", form_names[f], kernel_names[f][i]);
      builder b = build(f, ATTN_F32, false, "p.", 0);
      for (int j = 0; j < b.count; j++)
        if (strcmp(b.tensors[j].name + 2, kernel_names[f][i]) == 0)
          ((char *)(uintptr_t)b.tensors[j].name)[0] = '-'; /* no longer under the prefix */
      /* Without its output kernel PyTorch's form has two names for it. */
      const char *missing = f == PYTORCH_O && i == 4 ? "out_proj.weight" : kernel_names[f][i];
      /* And without its input kernel the fused form has only the name that another form shares. */
      if (f == PYTORCH_FUSED && i == 0) missing = "q_proj.weight";
      refused(&b, "p.", false, ATTN_BAD_FILE, "is missing", missing);
      free_builder(&b);
    }
}

static void test_misshapen(void) {
  for (form f = LINEN; f < FORMS; f++) {
    builder whole = build(f, ATTN_F32, true, "", 0);
    for (int j = 0; j < whole.count; j++)
      for (int way = 0; way < 3; way++) {
        attn_tensor *t = &whole.tensors[j], before = *t;
        check_context("%s: %s misshapen in way %d", form_names[f], t->name, way);
        if (way == 1 && t->rank-- == 1) t->rank = 1; /* a rank too small; none is below 1 */
        if (way == 2)
          t->shape[t->rank++] = 1; /* too large */
        else
          t->shape[t->rank - 1]--;
        refused(&whole, "", false, ATTN_BAD_FILE, "has shape", t->name);
        *t = before;
      }
    free_builder(&whole);
  }
}

/* The layer would be another one's numbers without the steps that these names tell of. */
static void test_other_layers(void) {
  static const char *const names[] = {"p/q_norm.weight", "p/k_norm.weight",
                                      "p/rotary_emb.inv_freq"};
  for (int i = 0; i < 3; i++) {
    builder b = build(LINEN, ATTN_F32, true, "p/", 0);
    add(&b, names[i], ATTN_F32, x, 1, 3, 0, 0);
    refused(&b, "p/", true, ATTN_UNSUPPORTED, "norms or rotates", names[i]);
    free_builder(&b);
  }
}

/* A prefix without its last '.' finds nothing, and is told what is there. */
static void test_prefix_hint(void) {
  builder b = build(LINEN, ATTN_F32, true, "p/", 0);
  refused(&b, "q", false, ATTN_BAD_FILE, "the file has", "p/Dense_0/kernel");
  free_builder(&b);
}

static void test_surplus(void) {
  for (form f = LINEN; f < FORMS; f++) {
    check_context("%s with a surplus tensor", form_names[f]);
    builder b = build(f, ATTN_F32, true, "p/", 0);
    add(&b, "p/other", ATTN_F32, x, 1, 3, 0, 0);
    refused(&b, "p/", false, ATTN_BAD_FILE, "is surplus", "p/other");
    attn_layer_config c = config();
    same_layer(&c, &b, "p/", true, true);
    free_builder(&b);
    b = build(f, ATTN_F32, true, "p/", 0);
    add(&b, "not under p", ATTN_F32, x, 1, 3, 0, 0);
    same_layer(&c, &b, "p/", false, true);
    free_builder(&b);
  }
}

static void test_ambiguous(void) {
  check_context("two forms in one file");
  builder b = build(LINEN, ATTN_F32, false, "", 0), other = build(NNX, ATTN_F32, false, "", 0);
  for (int i = 0; i < other.count; i++) b.tensors[b.count++] = other.tensors[i];
  refused(&b, "", true, ATTN_BAD_FILE, "two forms", "Dense_1/kernel");
  free_builder(&b);
  check_context("two output kernels");
  b = build(PYTORCH, ATTN_F32, false, "", 0);
  add_transposed(&b, "o_proj.weight", ATTN_F32, out, NQ, D);
  refused(&b, "", true, ATTN_BAD_FILE, "two forms", "o_proj.weight");
  free_builder(&b);
  check_context("two names that are the same");
  b = build(NNX, ATTN_F32, true, "", 0);
  add(&b, "q_proj.kernel", ATTN_F32, q, 2, D, NQ, 0);
  refused(&b, "", true, ATTN_BAD_FILE, "have the same name", "q_proj.kernel");
  free_builder(&b);
  check_context("no weights at all");
  add(&b, "w", ATTN_F32, x, 1, 3, 0, 0);
  refused(&b, "p", true, ATTN_BAD_FILE, "no attention weights", "prefix 'p'");
  free_builder(&b);
}

static void test_arguments(void) {
  check_context("arguments");
  builder b = build(NNX, ATTN_F32, true, "", 0);
  attn_file *file = open_built(&b);
  attn_layer *layer = NULL;
  attn_layer_config c = config();
  const attn_status invalid = ATTN_INVALID_ARGUMENT;
  CHECK_STATUS(attn_layer_create_from_file(NULL, file, NULL, false, &layer), invalid);
  CHECK_STATUS(attn_layer_create_from_file(&c, NULL, NULL, false, &layer), invalid);
  CHECK_STATUS(attn_layer_create_from_file(&c, file, NULL, false, NULL), invalid);
  c.num_kv_heads = 3;
  CHECK_STATUS(attn_layer_create_from_file(&c, file, NULL, false, &layer), invalid);
  CHECK(strstr(attn_last_error(), "num_kv_heads is 3") != NULL);
  c = config();
  c.has_head_size = false; /* 6 / 4 */
  CHECK_STATUS(attn_layer_create_from_file(&c, file, NULL, false, &layer), invalid);
  c = config();
  c.d_model = D + 1;
  CHECK_STATUS(attn_layer_create_from_file(&c, file, NULL, false, &layer), ATTN_BAD_FILE);
  c = config();
  c.struct_size = 0;
  CHECK_STATUS(attn_layer_create_from_file(&c, file, NULL, false, &layer), invalid);
  CHECK(layer == NULL);
  attn_file_close(file);
  free_builder(&b);
  check_context("a dtype that is no number format");
  b = build(NNX, ATTN_F32, true, "", 0);
  for (int i = 0; i < b.count; i++)
    if (strcmp(b.tensors[i].name, "k_proj/bias") == 0) b.tensors[i].dtype = ATTN_I32;
  refused(&b, "", false, ATTN_UNSUPPORTED, "I32", "k_proj/bias");
  free_builder(&b);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  scratch_begin();
  fill();
  test_forms();
  test_left_to_file();
  test_given_beside_file();
  test_fused_by_name();
  test_missing();
  test_misshapen();
  test_surplus();
  test_other_layers();
  test_prefix_hint();
  test_ambiguous();
  test_arguments();
  scratch_end();
  return check_done();
}
