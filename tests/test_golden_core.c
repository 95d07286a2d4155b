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
  printf("%-26s o %5.2f of 8   lse %5.2f of 4\n", how, worst, worst_lse);
  CHECK_NEAR(worst, 0.0, 8.0);
  CHECK_NEAR(worst_lse, 0.0, 4.0);
}

/* A copy with head and row exchanged: (batch or page, head, row, dim). */
static attn_input heads_first(const attn_input *in, size_t count, int64_t heads, int64_t dims) {
  const float *from = in->data;
  const int64_t rows = in->batch_stride / (heads * dims);
  const int64_t arrays = rows ? (int64_t)count / in->batch_stride : 0;
  float *to = check_floats(count);
  for (int64_t b = 0; b < arrays; b++)
    for (int64_t t = 0; t < rows; t++)
      for (int64_t h = 0; h < heads; h++)
        memcpy(to + ((b * heads + h) * rows + t) * dims, from + ((b * rows + t) * heads + h) * dims,
               (size_t)dims * sizeof(float));
  return dense_input(to, heads, rows, dims);
}

static void other_layout(golden_core *g) {
  problem *p = &g->problem;
  const shape s = p->shape;
  attn_params *a = &p->params, before = *a;
  a->q = heads_first(&a->q, p->q_count, s.q_heads, s.head_size);
  a->k = heads_first(&a->k, p->k_count, s.kv_heads, s.head_size);
  a->v = heads_first(&a->v, p->v_count, s.kv_heads, s.value_size);
  a->o = (attn_output){p->o, s.q_len * s.q_heads * s.value_size, s.value_size,
                       s.q_heads * s.value_size, 1};
  problem_run(p);
  compare(g, "heads first, o rows first");
  float *copies[] = {(float *)(uintptr_t)a->q.data, (float *)(uintptr_t)a->k.data,
                     (float *)(uintptr_t)a->v.data};
  for (int i = 0; i < 3; i++) free(copies[i]);
  *a = before;
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
  compare(&g, "as the file lays it out");
  float *o = copy_floats(g.problem.o, g.problem.o_count);
  problem_run_threads(&g.problem, 3);
  CHECK_BITS(g.problem.o, o, g.problem.o_count);
  free(o);
  other_layout(&g);
  golden_core_close(&g);
  return check_done();
}
