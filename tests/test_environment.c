/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* ATTN_ISA and ATTN_EXP: each value in a child process that has not called the library yet. The
 * child does the checking; its exit status is that of its checks. */

#include "problem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* NULL leaves a variable unset. */
static void in_child(const char *isa, const char *exp, void (*body)(const char *, const char *)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    unsetenv("ATTN_ISA");
    unsetenv("ATTN_EXP");
    if (isa) setenv("ATTN_ISA", isa, 1);
    if (exp) setenv("ATTN_EXP", exp, 1);
    check_context("ATTN_ISA=%s ATTN_EXP=%s", isa ? isa : "(unset)", exp ? exp : "(unset)");
    body(isa, exp);
    int failed = check_done();
    fflush(stdout);
    _exit(failed);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
}

static void refused(const char *isa, const char *exp) {
  CHECK(attn_isa_name() == NULL);
  const char *message = attn_last_error();
  const char *variable = isa ? "ATTN_ISA" : "ATTN_EXP", *value = isa ? isa : exp;
  CHECK(strstr(message, variable) != NULL && strstr(message, value) != NULL);
  CHECK(strchr(message, '\n') == NULL);
  CHECK(attn_exp_name() == NULL);
  problem p = problem_random((shape){1, 1, 1, 4, 4, 8, 8}, 1);
  attn_status status = attn_forward(NULL, &p.params);
  CHECK(status == ATTN_UNSUPPORTED || status == ATTN_INVALID_ARGUMENT);
  CHECK(canary_intact(p.o, p.o_count));
  /* An explicit choice does not need the environment. */
  CHECK_OK(attn_select("generic", "inline"));
  problem_run(&p);
  problem_check(&p);
  problem_free(&p);
}

static void honoured(const char *isa, const char *exp) {
  const char *name = attn_isa_name();
  CHECK(name != NULL);
  if (name && isa && isa[0]) CHECK(strcmp(name, isa) == 0);
  CHECK(attn_exp_name() && strcmp(attn_exp_name(), exp && exp[0] ? exp : "inline") == 0);
  problem p = problem_random((shape){1, 2, 1, 20, 20, 8, 8}, 1);
  problem_run(&p);
  problem_check(&p);
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  static const char *const unknown[] = {"avx1024", "AVX2", "avx2 ", "generic,avx2", "%s%n"};
  for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
    in_child(unknown[i], NULL, refused);
    in_child(NULL, unknown[i], refused);
  }
  in_child(NULL, NULL, honoured);
  in_child("", "", honoured);
  in_child(NULL, "sleef", honoured);
  /* The list is a constant: asking for it decides nothing. */
  for (int i = 0; attn_isa_compiled(i); i++) {
    const char *name = attn_isa_compiled(i);
    bool supported = attn_isa_supported(name);
    in_child(name, NULL, supported ? honoured : refused);
    if (supported) in_child(name, "sleef", honoured);
  }
  /* Of another processor. */
  in_child(attn_isa_tile_sizes("neon", &(attn_tile_sizes){0}) ? "avx2" : "neon", NULL, refused);
  return check_done();
}
