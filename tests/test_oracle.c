/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The yardstick itself against the golden data: values, log-sum-exp and tolerance units that
 * another program computed in float64. No kernel runs here. */

#include "golden_core.h"
#include <stdio.h>
#include <stdlib.h>

static void layer_file(const char *name) {
  golden_layer g = golden_layer_open(name);
  attn_layer_weights w = golden_weights(g.params);
  double *y, *unit;
  oracle_layer(&g.config, &w, g.batch, g.len, g.x, &g.dropout, &y, &unit);
  int64_t width = g.config.d_model;
  for (int64_t i = 0; i < g.batch * g.len * width; i++) CHECK_NEAR(y[i], g.y[i], 1e-10);
  for (int64_t i = 0; i < g.batch * g.len; i++) CHECK_NEAR(unit[i], g.unit[i], 1e-6 * g.unit[i]);
  free(y);
  free(unit);
  golden_free_weights(&w);
  golden_layer_close(&g);
}

static void core_file(const char *name) {
  golden_core g;
  const char *missing = golden_core_open(name, &g);
  if (missing) {
    printf("%s: not for this oracle: %s\n", name, missing);
    return;
  }
  const attn_params *p = &g.problem.params;
  oracle_result r = oracle_attention(p, g.exact_scores);
  double limit = g.scale_rounded ? 1e-6 : 1e-10;
  for (size_t row = 0; row < g.problem.lse_count; row++) {
    CHECK_NEAR(r.lse[row], g.truth.lse[row], limit * (1 + fabs(g.truth.lse[row])));
    CHECK_NEAR(r.unit[row], g.truth.unit[row], 1e-6 * g.truth.unit[row]);
    CHECK_NEAR(r.lse_unit[row], g.truth.lse_unit[row], 1e-6 * g.truth.lse_unit[row]);
  }
  for (size_t i = 0; i < g.problem.o_count; i++) CHECK_NEAR(r.o[i], g.truth.o[i], limit);
  oracle_free(&r);
  golden_core_close(&g);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  char **names = golden_names("nnx_", "linen_");
  for (char **n = names; *n; n++) {
    check_context("%s", *n);
    layer_file(*n);
  }
  golden_free_names(names);
  names = golden_names("core_", "core_");
  for (char **n = names; *n; n++) {
    check_context("%s", *n);
    core_file(*n);
  }
  golden_free_names(names);
  return check_done();
}
