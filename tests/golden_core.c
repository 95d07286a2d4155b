/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "golden_core.h"

#include <stdlib.h>
#include <string.h>

/* What no attn_params field can express. */
static const char *out_of_reach(const attn_file *file) {
  if (strcmp(attn_file_metadata(file, "layout"), "varlen") == 0) return "packed sequences";
  if (strcmp(attn_file_metadata(file, "layout"), "paged") == 0) return "paged keys and values";
  if (strcmp(attn_file_metadata(file, "dtype"), "BF16") == 0) return "bf16";
  if (strcmp(attn_file_metadata(file, "dtype"), "F16") == 0) return "f16";
  if (golden_int(file, "window_left") >= 0 || golden_int(file, "window_right") >= 0)
    return "window";
  if (golden_number(file, "softcap") > 0) return "softcap";
  if (attn_file_tensor(file, "alibi_slopes")) return "ALiBi";
  if (attn_file_tensor(file, "sink")) return "sink";
  return NULL;
}

/* (batch, row, head, dim) to (batch, head, row, dim). */
static void heads_first(float *out, const float *in, int64_t batch, int64_t rows, int64_t heads,
                        int64_t dims) {
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < rows; t++)
      for (int64_t h = 0; h < heads; h++)
        memcpy(out + ((b * heads + h) * rows + t) * dims, in + ((b * rows + t) * heads + h) * dims,
               (size_t)dims * sizeof(float));
}

static void load(const attn_file *file, const char *tensor, float *out, const shape *s,
                 int64_t rows, int64_t heads, int64_t dims) {
  float *in = golden_floats(file, tensor);
  heads_first(out, in, s->batch, rows, heads, dims);
  free(in);
}

static double *doubles_heads_first(const attn_file *file, const char *tensor, const shape *s,
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

const char *golden_core_open(const char *name, golden_core *g) {
  attn_file *file = golden_open(name);
  const char *missing = out_of_reach(file);
  if (missing) {
    attn_file_close(file);
    return missing;
  }
  shape s = {
      golden_int(file, "B"),  golden_int(file, "num_heads"), golden_int(file, "num_kv_heads"),
      golden_int(file, "Tq"), golden_int(file, "Tk"),        golden_int(file, "D"),
      golden_int(file, "Dv")};
  *g = (golden_core){.problem = problem_new(s),
                     .exact_scores = strcmp(name, "core_hugeneg_ties") == 0};
  problem *p = &g->problem;
  load(file, "q", p->q, &s, s.q_len, s.q_heads, s.head_size);
  load(file, "k", p->k, &s, s.kv_len, s.kv_heads, s.head_size);
  load(file, "v", p->v, &s, s.kv_len, s.kv_heads, s.value_size);
  p->params.causal = golden_int(file, "causal") != 0;
  double scale = golden_number(file, "scale");
  p->params.has_scale = scale != 1 / sqrt((double)s.head_size);
  p->params.scale = (float)scale;
  g->scale_rounded = p->params.has_scale && (double)p->params.scale != scale;
  g->truth.o = doubles_heads_first(file, "o_f64", &s, s.value_size);
  g->truth.unit = doubles_heads_first(file, "tol_unit", &s, 1);
  g->truth.lse = golden_doubles(file, "lse_f64");
  g->truth.lse_unit = golden_doubles(file, "lse_tol_unit");
  attn_file_close(file);
  return NULL;
}

void golden_core_close(golden_core *g) {
  problem_free(&g->problem);
  oracle_free(&g->truth);
}
