/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Google Benchmark, as much of it as the benchmarks need, for C. */
#ifndef ATTN_PERF_SHIM_H
#define ATTN_PERF_SHIM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct perf_state perf_state;

/* A benchmark: sets up, loops while perf_keep_running(), then sets its counters; only the loop is
 * timed. Called once per repetition, and a few times before to find how many iterations fill the
 * minimal time. */
typedef void (*perf_function)(perf_state *state, void *user);

void perf_register(const char *name, perf_function function, void *user);

bool perf_keep_running(perf_state *state);
void perf_counter(perf_state *state, const char *name, double value);
/* Marks the benchmark as failed; it must return without looping any further. */
void perf_fail(perf_state *state, const char *message);

/* A line of the report's context block. */
void perf_context(const char *key, const char *value);

/* Takes Google Benchmark's own options out of the argument list. */
void perf_initialize(int *argc, char **argv);
/* Runs what --benchmark_filter admits. False when a benchmark failed or none was admitted. */
bool perf_run(void);

#ifdef __cplusplus
}
#endif
#endif
