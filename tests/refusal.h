/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the tests of refusals share: a sound problem to spoil, and what its refusal must be like. */
#ifndef ATTN_TESTS_REFUSAL_H
#define ATTN_TESTS_REFUSAL_H

#include "problem.h"
#include <stdio.h>
#include <string.h>

static inline bool one_line(const char *text) {
  return text[0] != '\0' && strchr(text, '\n') == NULL && strlen(text) < 400;
}

/* The message names all of these words, separated by blanks. */
static inline void check_message(const char *words, const char *file, int line) {
  char copy[160];
  const char *message = attn_last_error();
  check_report(one_line(message), file, line, "not one line: '%s'", message);
  snprintf(copy, sizeof(copy), "%s", words);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    check_report(strstr(message, word) != NULL, file, line, "'%s' does not name '%s'", message,
                 word);
}

/* The message is this, to the letter. */
static inline void check_says(const char *text, const char *file, int line) {
  check_report(strcmp(attn_last_error(), text) == 0, file, line, "says '%s'; wanted: '%s'",
               attn_last_error(), text);
}

/* attn_forward and attn_plan_create both refuse, and touch nothing. */
static inline void refuse(problem *p, attn_status want, const char *words, int line) {
  check_status(__FILE__, line, "attn_forward", (int)attn_forward(NULL, &p->params), (int)want);
  check_message(words, __FILE__, line);
  attn_plan *const unchanged = (attn_plan *)(uintptr_t)64;
  attn_plan *plan = unchanged;
  check_status(__FILE__, line, "attn_plan_create", (int)attn_plan_create(&p->params, &plan),
               (int)want);
  check_report(plan == unchanged, __FILE__, line, "the handle was written");
  check_report(canary_intact(p->o, p->o_count) && canary_intact(p->lse, p->lse_count), __FILE__,
               line, "output was written");
}

static inline problem sound(void) {
  problem p = problem_random((shape){2, 4, 2, 3, 5, 8, 6}, 8001);
  p.params.dropout.rate = 0.1;
  return p;
}

#endif
