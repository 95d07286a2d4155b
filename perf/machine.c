/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/machine.h"

#include <attn/attn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "simd/kernels.h"

/* Long against the start of a parallel region; together long enough for the scheduler to spread the
 * threads, and short against a benchmark. */
static const double peak_seconds = 3e-3;
enum { PEAK_RUNS = 8 };

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
  double flops, best = 0;
  int64_t rounds = 1000;
  while (peak_run(kernels, threads, rounds, &flops) < peak_seconds) rounds *= 2;
  for (int run = 0; run < PEAK_RUNS; run++) {
    double seconds = peak_run(kernels, threads, rounds, &flops);
    if (flops / seconds > best) best = flops / seconds;
  }
  return best * 1e-9;
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
