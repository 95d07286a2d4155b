/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/machine.h"

#include <attn/attn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/clock.h"
#include "simd/kernels.h"

/* A run takes half a millisecond to some milliseconds: long against the start of a parallel region.
 * All of them take long enough for the scheduler to spread the threads. Their length is not found by
 * timing, which one pause of a busy machine would mislead. */
static const double run_flops = 1e8, most_seconds = 0.05;
enum {
  PEAK_RUNS = 20,
  READ_RUNS = 5,
  READ_PARTS = 16,
  READ_STEP = 32,
  MAX_KEPT = 64,
  READ_BYTES = 256 << 20
};

/* Seconds that `threads` threads need to run `rounds` rounds each, all at once. */
static double peak_run(const attn_kernels *kernels, int threads, int64_t rounds, double *flops) {
  double total = 0;
  double start = perf_now();
#pragma omp parallel num_threads(threads) reduction(+ : total)
  total += kernels->peak(rounds);
  *flops = total;
  return perf_now() - start;
}

double perf_peak_gflops(int threads) {
  const char *isa = attn_isa_name();
  const attn_kernels *kernels = isa ? attn_kernels_find(isa, false) : NULL;
  if (!kernels) return 0;
  int64_t rounds = (int64_t)(run_flops / kernels->peak(1));
  double best = 0, total = 0;
  for (int run = 0; run < PEAK_RUNS && total < most_seconds; run++) {
    double flops, seconds = peak_run(kernels, threads, rounds, &flops);
    if (flops / seconds > best) best = flops / seconds;
    total += seconds;
  }
  return best * 1e-9;
}

/* Every thread reads its own part. Independent sums, so that only memory limits. */
static uint64_t read_all(const uint64_t *data, int64_t words, int threads) {
  uint64_t total = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(^ : total)
  for (int64_t i = 0; i < words; i += READ_STEP) {
    uint64_t sum[READ_STEP];
    for (int j = 0; j < READ_STEP; j++) sum[j] = data[i + j];
    for (int j = 0; j < READ_STEP; j++) total ^= sum[j];
  }
  return total;
}

/* The best part of several passes: an interruption spoils one part, and a part has left the caches
 * when its turn comes again. */
static double measure_bandwidth(int threads) {
  uint64_t *data = malloc(READ_BYTES);
  if (!data) return 0;
  memset(data, 1, READ_BYTES);
  double best = 0;
  for (int run = 0; run < READ_RUNS * READ_PARTS; run++) {
    const int64_t words = READ_BYTES / 8 / READ_PARTS;
    double start = perf_now();
    volatile uint64_t sink = read_all(data + run % READ_PARTS * words, words, threads);
    (void)sink;
    double rate = 1e-9 * 8 * (double)words / (perf_now() - start);
    if (rate > best) best = rate;
  }
  free(data);
  return best;
}

double perf_bandwidth_gbs(int threads) {
  static double kept[MAX_KEPT];
  if (threads >= MAX_KEPT) return measure_bandwidth(threads);
  if (kept[threads] == 0) kept[threads] = measure_bandwidth(threads);
  return kept[threads];
}

void perf_cpu_model(char *name, size_t size) {
  snprintf(name, size, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !value) continue;
    value += 1 + strspn(value + 1, " \t");
    value[strcspn(value, "\n")] = 0;
    snprintf(name, size, "%s", value);
    break;
  }
  fclose(file);
}
