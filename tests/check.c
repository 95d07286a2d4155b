/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "check.h"

#include <attn/attn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77, SHOWN = 25 };

static long long checks, failures;
static char context[512] = "";
static bool full, brief;
static const char *isa;

/* A crash is a failure like others: say which case it was. */
static void on_crash(int signal_number) {
  static const char head[] = "crashed in: ";
  (void)!write(STDOUT_FILENO, head, sizeof(head) - 1);
  (void)!write(STDOUT_FILENO, context, strlen(context));
  (void)!write(STDOUT_FILENO, "\n", 1);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void check_begin(int *argc, char **argv) {
  signal(SIGSEGV, on_crash);
  signal(SIGBUS, on_crash);
  signal(SIGILL, on_crash);
  signal(SIGFPE, on_crash);
  setvbuf(stdout, NULL, _IOLBF, 0);
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    if (strcmp(argv[i], "--full") == 0)
      full = true;
    else if (strcmp(argv[i], "--brief") == 0)
      brief = true;
    else if (strcmp(argv[i], "--isa") == 0 && i + 1 < *argc)
      isa = argv[++i];
    else
      argv[kept++] = argv[i];
  }
  *argc = kept;
  argv[kept] = NULL;
  if (!isa) return;
  attn_status status = attn_select(isa, NULL);
  if (status == ATTN_UNSUPPORTED) check_skip("%s", attn_last_error());
  if (status != ATTN_OK) {
    printf("attn_select(%s): %s\n", isa, attn_last_error());
    exit(1);
  }
  CHECK(strcmp(attn_isa_name(), isa) == 0);
}

bool check_full(void) { return full; }
bool check_brief(void) { return brief; }
const char *check_isa(void) { return isa; }

int check_done(void) {
  printf("%lld checks, %lld failed\n", checks, failures);
  if (checks == 0) printf("a test that checks nothing does not pass\n");
  return failures || !checks;
}

void check_skip(const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("skipped: ");
  vprintf(format, args);
  printf("\n");
  va_end(args);
  exit(failures ? 1 : SKIPPED);
}

void check_context(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(context, sizeof(context), format, args);
  va_end(args);
}

bool check_report(bool ok, const char *file, int line, const char *format, ...) {
  checks++;
  if (ok) return true;
  failures++;
  if (failures > SHOWN) return false;
  const char *base = strrchr(file, '/');
  printf("%s:%d: ", base ? base + 1 : file, line);
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("%s%s%s\n", context[0] ? "  [" : "", context, context[0] ? "]" : "");
  if (failures == SHOWN) printf("(further failures are only counted)\n");
  return false;
}

bool check_int(const char *file, int line, const char *what, long long got, long long want) {
  return check_report(got == want, file, line, "%s: got %lld, want %lld", what, got, want);
}

bool check_near(const char *file, int line, const char *what, double got, double want,
                double limit) {
  bool ok = fabs(got - want) <= limit || got == want;
  return check_report(ok, file, line, "%s: got %.9g, want %.9g, off by %.3g, allowed %.3g", what,
                      got, want, fabs(got - want), limit);
}

bool check_status(const char *file, int line, const char *what, int got, int want) {
  return check_report(got == want, file, line, "%s: got '%s' (%s), want '%s'", what,
                      attn_status_string((attn_status)got), got ? attn_last_error() : "",
                      attn_status_string((attn_status)want));
}

uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

bool check_bits(const char *file, int line, const char *what, const float *got, const float *want,
                size_t count) {
  size_t different = 0, first = 0;
  if (memcmp(got, want, count * sizeof(float)) != 0) {
    for (size_t i = count; i-- > 0;) {
      if (float_bits(got[i]) == float_bits(want[i])) continue;
      different++;
      first = i;
    }
  }
  if (!different) return check_report(true, file, line, "%s", what);
  return check_report(false, file, line,
                      "%s: %zu of %zu floats differ in bits, first at %zu: got %.9g (%08x), want "
                      "%.9g (%08x)",
                      what, different, count, first, (double)got[first], float_bits(got[first]),
                      (double)want[first], float_bits(want[first]));
}

void *check_alloc(size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory) {
    printf("no memory for %zu bytes\n", bytes);
    exit(1);
  }
  return memory;
}

float *check_floats(size_t count) { return check_alloc(count * sizeof(float)); }
