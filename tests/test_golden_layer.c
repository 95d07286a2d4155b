/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Every module file: projections, attention, dropout by the recorded mask, against the float64
 * truth, in units of the file's tolerance: 16 is allowed, above 8 is worth a look. */

#include "check.h"
#include "golden.h"
#include "oracle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALLOWED = 16, FILES = 21 };

/* Worst error of one file in tolerance units; rms is that of all errors over all values, in eps. */
static double run(const char *name, double *rms) {
  golden_layer g = golden_layer_open(name);
  attn_layer *layer = NULL;
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  config.num_heads = g.config.num_heads; /* d_model comes from the file */
  bool other = attn_file_tensor(g.params, "x") != NULL;
  CHECK_OK(attn_layer_create_from_file(&config, g.params, NULL, other, &layer));
  if (!layer) {
    golden_layer_close(&g);
    return INFINITY;
  }
  CHECK_OK(attn_layer_get_config(layer, &config));
  CHECK_INT(config.d_model, g.config.d_model);
  CHECK_INT(config.num_heads, g.config.num_heads);
  CHECK_INT(config.head_size, g.config.d_model / g.config.num_heads);

  int64_t width = config.d_model, count = g.batch * g.len * width;
  float *y = check_floats((size_t)count);
  attn_layer_params p = golden_layer_params(&g, y);
  CHECK_OK(attn_layer_forward(NULL, layer, &p));
  double worst = 0, error2 = 0, value2 = 0;
  for (int64_t i = 0; i < count; i++) {
    double error = oracle_error((double)y[i], g.y[i], g.unit[i / width]);
    worst = fmax(worst, error);
    error2 += ((double)y[i] - g.y[i]) * ((double)y[i] - g.y[i]);
    value2 += g.y[i] * g.y[i];
  }
  *rms = sqrt(error2 / value2) / ldexp(1, -23);
  CHECK_NEAR(worst, 0.0, (double)ALLOWED);
  CHECK(*rms <= (strstr(name, "bigpos") ? 300 : 10));
  free(y);
  attn_layer_destroy(layer);
  golden_layer_close(&g);
  return worst;
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  double most = 0;
  const char *where = "";
  int files = 0;
  char **names = golden_names("nnx_", "linen_");
  for (char **n = names; *n; n++, files++) {
    check_context("%s", *n);
    double rms = 0, worst = run(*n, &rms);
    printf("%-34s worst %5.2f of %d   rms %6.2f eps%s\n", *n, worst, ALLOWED, rms,
           worst > 8 ? "   above 8" : "");
    if (worst >= most) most = worst, where = *n;
  }
  printf("worst: %.2f in %s\n", most, where);
  golden_free_names(names);
  check_context("all files");
  CHECK_INT(files, FILES);
  return check_done();
}
