/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/machine.h"

#include <attn/attn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "perf/clock.h"
#include "simd/kernels.h"

/* A run takes half a millisecond to some milliseconds: long against the start of a parallel region.
 * All of them take long enough for the scheduler to spread the threads. Their length is not found by
 * timing, which one pause of a busy machine would mislead. */
static const double run_flops = 1e8, most_seconds = 0.05;
enum { PEAK_RUNS = 20 };

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
