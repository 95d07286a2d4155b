/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Runs the tests of one instruction set's wrappers, where the machine has it. Compiled without
 * that set's flags, so that asking is safe. */

#include "check.h"
#include "vector.h"

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  vector_checks();
  return check_done();
}
