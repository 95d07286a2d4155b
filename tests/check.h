/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What every test program is made of: checks that count and go on, a context line that tells which
 * of many cases failed, `--isa NAME`, and a way to say "skipped" that CTest shows. Knows nothing of
 * attention but attn_select(). */
#ifndef ATTN_TESTS_CHECK_H
#define ATTN_TESTS_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Reads the arguments common to all tests, and selects what they ask for:
 *   --isa NAME  runs everything on that instruction set; exits 77 when the machine lacks it
 *   --full      the long form of the test
 *   --brief     the short form, for emulators: every kind of case, fewer of each
 * and leaves the others in place. */
void check_begin(int *argc, char **argv);
bool check_full(void);
bool check_brief(void);
/* The name after --isa; NULL when there was none. */
const char *check_isa(void);

/* Exit status of the program: 0 when no check failed. Prints how many were made; none at all fails. */
int check_done(void);

/* Ends the program as skipped: CTest shows "Skipped", never "Passed". */
_Noreturn void check_skip(const char *format, ...) CHECK_PRINTF(1, 2);

/* Says of all checks to come what they are about; printed with a failure, or a crash. */
void check_context(const char *format, ...) CHECK_PRINTF(1, 2);

bool check_report(bool ok, const char *file, int line, const char *format, ...) CHECK_PRINTF(4, 5);
bool check_bits(const char *file, int line, const char *what, const float *got, const float *want,
                size_t count);

#define CHECK(condition) check_report((condition), __FILE__, __LINE__, "%s", #condition)
#define CHECK_INT(got, want)                                                                       \
  check_int(__FILE__, __LINE__, #got " == " #want, (long long)(got), (long long)(want))
#define CHECK_STATUS(call, want) check_status(__FILE__, __LINE__, #call, (int)(call), (int)(want))
#define CHECK_OK(call) CHECK_STATUS(call, 0)
/* |got - want| <= limit; NaN fails. */
#define CHECK_NEAR(got, want, limit)                                                               \
  check_near(__FILE__, __LINE__, #got " ~ " #want, (got), (want), (limit))
/* Floats equal in every bit. */
#define CHECK_BITS(got, want, count) check_bits(__FILE__, __LINE__, #got, (got), (want), (count))

bool check_int(const char *file, int line, const char *what, long long got, long long want);
bool check_near(const char *file, int line, const char *what, double got, double want,
                double limit);
bool check_status(const char *file, int line, const char *what, int got, int want);

uint32_t float_bits(float x);

/* malloc that ends the program when there is no memory; never NULL, not even for 0 bytes. */
void *check_alloc(size_t bytes);
float *check_floats(size_t count);

#endif
