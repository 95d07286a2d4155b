/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* One core file, named on the command line: o within 8 and lse within 4 tolerance units of the
 * float64 truth, once at a time and in several layouts. Skipped, and said so, when the file needs
 * what the library cannot do yet. */

#include "golden_core.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compare(const golden_core *g, const char *how) {
  const attn_params *p = &g->problem.params;
  double worst = oracle_worst_o(p, &g->truth), worst_lse = oracle_worst_lse(p, &g->truth);
  printf("%-24s o %5.2f of 8   lse %5.2f of 4\n", how, worst, worst_lse);
  CHECK_NEAR(worst, 0.0, 8.0);
  CHECK_NEAR(worst_lse, 0.0, 4.0);
}

/* As the file lays it out: (batch, row, head, dim). */
static void rows_first(golden_core *g) {
  problem *p = &g->problem;
  shape s = p->shape;
  attn_params *a = &p->params;
  float *q = check_floats(p->q_count), *k = check_floats(p->k_count);
  float *v = check_floats(p->v_count);
  for (size_t i = 0; i < p->q_count; i++) {
    int64_t n = (int64_t)i, d = n % s.head_size, t = n / s.head_size % s.q_len;
    int64_t h = n / s.head_size / s.q_len % s.q_heads, b = n / s.head_size / s.q_len / s.q_heads;
    q[((b * s.q_len + t) * s.q_heads + h) * s.head_size + d] = p->q[i];
  }
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t h = 0; h < s.kv_heads; h++)
      for (int64_t t = 0; t < s.kv_len; t++) {
        int64_t from = (b * s.kv_heads + h) * s.kv_len + t,
                to = (b * s.kv_len + t) * s.kv_heads + h;
        memcpy(k + to * s.head_size, p->k + from * s.head_size,
               (size_t)s.head_size * sizeof(float));
        memcpy(v + to * s.value_size, p->v + from * s.value_size,
               (size_t)s.value_size * sizeof(float));
      }
  attn_params before = *a;
  a->q =
      (attn_input){q, s.q_len * s.q_heads * s.head_size, s.head_size, s.q_heads * s.head_size, 1};
  a->k = (attn_input){k, s.kv_len * s.kv_heads * s.head_size, s.head_size, s.kv_heads * s.head_size,
                      1};
  a->v = (attn_input){v, s.kv_len * s.kv_heads * s.value_size, s.value_size,
                      s.kv_heads * s.value_size, 1};
  a->o = (attn_output){p->o, s.q_len * s.q_heads * s.value_size, s.value_size,
                       s.q_heads * s.value_size, 1};
  problem_run(p);
  compare(g, "(B,T,H,D)");
  *a = before;
  free(q);
  free(k);
  free(v);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  if (argc != 2) {
    printf("usage: %s [--isa NAME] FILE\n", argv[0]);
    return 2;
  }
  check_context("%s", argv[1]);
  golden_core g;
  const char *missing = golden_core_open(argv[1], &g);
  if (missing) check_skip("%s: not supported yet: %s", argv[1], missing);
  problem_run_threads(&g.problem, 1);
  compare(&g, "(B,H,T,D)");
  float *o = copy_floats(g.problem.o, g.problem.o_count);
  problem_run_threads(&g.problem, 3);
  CHECK_BITS(g.problem.o, o, g.problem.o_count);
  free(o);
  rows_first(&g);
  golden_core_close(&g);
  return check_done();
}
