/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* One causal attention call on (batch, row, head, dim) arrays.
 *   cc minimal.c $(pkg-config --cflags --libs attn) -o minimal */
#include <attn/attn.h>
#include <stdio.h>

enum { B = 1, T = 4, H = 2, D = 8 };
static float q[B][T][H][D], k[B][T][H][D], v[B][T][H][D], o[B][T][H][D];

int main(void) {
  for (int t = 0; t < T; t++) v[0][t][0][0] = (float)t;
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = B, p.q_heads = p.kv_heads = H, p.q_len = p.kv_len = T, p.head_size = p.value_size = D;
  p.q = (attn_input){&q[0][0][0][0], T * H * D, D, H * D, 1}; /* batch, head, row, dim strides */
  p.k = (attn_input){&k[0][0][0][0], T * H * D, D, H * D, 1};
  p.v = (attn_input){&v[0][0][0][0], T * H * D, D, H * D, 1};
  p.o = (attn_output){&o[0][0][0][0], T * H * D, D, H * D, 1};
  if (attn_forward(NULL, &p)) return fprintf(stderr, "%s\n", attn_last_error()), 1;
  for (int t = 0; t < T; t++) printf("%g\n", (double)o[0][t][0][0]); /* means of 0 ... t */
  return 0;
}
