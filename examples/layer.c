/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A self-attention layer from a weights file.
 *   cc layer.c $(pkg-config --cflags --libs attn) -o layer
 *   ./layer tests/data/linen_d128_h4.params.safetensors 4 */
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void) { return fprintf(stderr, "%s\n", attn_last_error()), 1; }

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: layer WEIGHTS HEADS\n"), 2;
  attn_file *file;
  attn_layer *layer;
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  c.num_heads = strtol(argv[2], NULL, 10);
  if (attn_file_open(argv[1], &file)) return fail();
  if (attn_layer_create_from_file(&c, file, NULL, /* allow_other */ false, &layer)) return fail();
  attn_file_close(file);
  attn_layer_get_config(layer, &c);

  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.batch = 8;
  p.len = 256;
  const size_t count = (size_t)(p.batch * p.len * c.d_model);
  float *x = calloc(count, sizeof(float)), *y = malloc(count * sizeof(float));
  if (!x || !y) return fprintf(stderr, "no memory\n"), 1;
  for (size_t i = 0; i < count; i++) x[i] = (float)(i % 7) - 3.0f;
  p.x = x;
  p.y = y;
  if (attn_layer_forward(NULL, layer, &p)) return fail();
  printf("%lld features, y[0] = %g\n", (long long)c.d_model, (double)y[0]);
  attn_layer_destroy(layer);
  free(x);
  free(y);
  return 0;
}
