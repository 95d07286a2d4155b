/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "golden_core.h"

#include <stdlib.h>
#include <string.h>

/* What no attn_params field can express. */
static const char *out_of_reach(const attn_file *file) {
  if (strcmp(attn_file_metadata(file, "dtype"), "BF16") == 0) return "bf16";
  if (strcmp(attn_file_metadata(file, "dtype"), "F16") == 0) return "f16";
  if (golden_int(file, "window_left") >= 0 || golden_int(file, "window_right") >= 0)
    return "window";
  if (golden_number(file, "softcap") > 0) return "softcap";
  if (attn_file_tensor(file, "alibi_slopes")) return "ALiBi";
  if (attn_file_tensor(file, "sink")) return "sink";
  return NULL;
}

/* The truth: (batch, row, head, dim) to (batch, head, row, dim). */
static double *heads_first(const attn_file *file, const char *tensor, const shape *s,
                           int64_t dims) {
  double *in = golden_doubles(file, tensor);
  double *out = check_alloc((size_t)(s->batch * s->q_len * s->q_heads * dims) * sizeof(double));
  for (int64_t b = 0; b < s->batch; b++)
    for (int64_t t = 0; t < s->q_len; t++)
      for (int64_t h = 0; h < s->q_heads; h++)
        for (int64_t d = 0; d < dims; d++)
          out[((b * s->q_heads + h) * s->q_len + t) * dims + d] =
              in[((b * s->q_len + t) * s->q_heads + h) * dims + d];
  free(in);
  return out;
}

/* A tensor and its view; the last three extents are row, head and dim. */
static attn_input load(const attn_file *file, const char *name, float **data, size_t *count) {
  const attn_tensor *t = attn_file_tensor(file, name);
  const int64_t *s = t->shape + t->rank - 3;
  free(*data);
  *data = golden_floats(file, name);
  *count = (size_t)t->count;
  return (attn_input){*data, s[0] * s[1] * s[2], s[2], s[1] * s[2], 1};
}

static const int32_t *ints(const attn_file *file, const char *name) {
  return attn_file_tensor(file, name)->data;
}

static int64_t extent(const attn_file *file, const char *name, int axis) {
  return attn_file_tensor(file, name)->shape[axis];
}

/* Of o and lse. Packed sequences lie in one batch entry. */
static shape shape_of(const attn_file *file, bool packed) {
  return (shape){.batch = packed ? 1 : golden_int(file, "B"),
                 .q_heads = golden_int(file, "num_heads"),
                 .kv_heads = golden_int(file, "num_kv_heads"),
                 .q_len = packed ? extent(file, "q", 0) : golden_int(file, "Tq"),
                 .head_size = golden_int(file, "D"),
                 .value_size = golden_int(file, "Dv")};
}

static void set_packed(const attn_file *file, attn_params *p) {
  p->batch = extent(file, "cu_seqlens_q", 0) - 1;
  p->kv_len = extent(file, "k", 0);
  p->lengths.cu_seqlens_q = ints(file, "cu_seqlens_q");
  p->lengths.cu_seqlens_k = ints(file, "cu_seqlens_k");
}

static void set_pages(const attn_file *file, attn_params *p) {
  const int64_t width = extent(file, "block_table", 1);
  p->lengths.kv_lens = ints(file, "seq_lens");
  p->pages = (attn_pages){.table = ints(file, "block_table"),
                          .table_stride = width,
                          .table_width = width,
                          .page_size = golden_int(file, "block_size"),
                          .num_pages = extent(file, "k_cache", 0)};
  p->kv_len = width * p->pages.page_size;
}

const char *golden_core_open(const char *name, golden_core *g) {
  attn_file *file = golden_open(name);
  const char *missing = out_of_reach(file);
  if (missing) {
    attn_file_close(file);
    return missing;
  }
  const char *layout = attn_file_metadata(file, "layout");
  const bool packed = strcmp(layout, "varlen") == 0, paged = strcmp(layout, "paged") == 0;
  const shape s = shape_of(file, packed);
  *g = (golden_core){.file = file,
                     .problem = problem_new(s),
                     .exact_scores = strcmp(name, "core_hugeneg_ties") == 0};
  problem *p = &g->problem;
  p->params.q = load(file, "q", &p->q, &p->q_count);
  p->params.k = load(file, paged ? "k_cache" : "k", &p->k, &p->k_count);
  p->params.v = load(file, paged ? "v_cache" : "v", &p->v, &p->v_count);
  if (packed)
    set_packed(file, &p->params);
  else if (paged)
    set_pages(file, &p->params);
  else
    p->params.kv_len = golden_int(file, "Tk");
  p->params.causal = golden_int(file, "causal") != 0;
  const double scale = golden_number(file, "scale");
  p->params.has_scale = scale != 1 / sqrt((double)s.head_size);
  p->params.scale = (float)scale;
  g->scale_rounded = p->params.has_scale && (double)p->params.scale != scale;
  g->truth.o = heads_first(file, "o_f64", &s, s.value_size);
  g->truth.unit = heads_first(file, "tol_unit", &s, 1);
  g->truth.lse = golden_doubles(file, "lse_f64");
  g->truth.lse_unit = golden_doubles(file, "lse_tol_unit");
  return NULL;
}

void golden_core_close(golden_core *g) {
  problem_free(&g->problem);
  oracle_free(&g->truth);
  attn_file_close(g->file);
}
