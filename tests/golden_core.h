/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Core golden files as attention problems. */
#ifndef ATTN_TESTS_GOLDEN_CORE_H
#define ATTN_TESTS_GOLDEN_CORE_H

#include "golden.h"
#include "problem.h"

typedef struct golden_core {
  attn_file *file;     /* lengths and pages are read in place */
  problem problem;     /* q, k, v as in the file; o and lse dense (batch, head, row, dim) */
  oracle_result truth; /* as the oracle would give it */
  bool exact_scores;   /* as oracle_attention() takes it */
  bool scale_rounded;  /* the file's scale is not a float */
} golden_core;

/* NULL and a filled `g`, or what the file needs that the library cannot do yet. */
const char *golden_core_open(const char *name, golden_core *g);
void golden_core_close(golden_core *g);

#endif
