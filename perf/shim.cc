// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The attn authors

// The only C++ of the project: Google Benchmark behind the C interface of shim.h.
#include "perf/shim.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

// What C holds as perf_state is the benchmark's own state.
static benchmark::State &state_of(perf_state *state) {
  return *reinterpret_cast<benchmark::State *>(state);
}

static double least(const std::vector<double> &values) {
  return *std::min_element(values.begin(), values.end());
}

static double greatest(const std::vector<double> &values) {
  return *std::max_element(values.begin(), values.end());
}

static bool any_failed = false;

void perf_register(const char *name, perf_function function, void *user) {
  benchmark::RegisterBenchmark(
      name,
      [=](benchmark::State &state) { function(reinterpret_cast<perf_state *>(&state), user); })
      ->Unit(benchmark::kMillisecond)
      ->ComputeStatistics("min", least)
      ->ComputeStatistics("max", greatest);
}

bool perf_keep_running(perf_state *state) { return state_of(state).KeepRunning(); }

void perf_counter(perf_state *state, const char *name, double value) {
  state_of(state).counters[name] = value;
}

void perf_fail(perf_state *state, const char *message) {
  any_failed = true;
  state_of(state).SkipWithError(message);
}

void perf_context(const char *key, const char *value) { benchmark::AddCustomContext(key, value); }

void perf_initialize(int *argc, char **argv) { benchmark::Initialize(argc, argv); }

bool perf_run(void) {
  const size_t run = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return run > 0 && !any_failed;
}
