/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* How fast memory can be read. No single loop shows it: how many ascending streams the hardware runs ahead
 * of, and whether prefetch instructions help, differs by processor, and with it by a factor of two what a loop
 * reaches. So several are tried, and the best of them counts. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perf/clock.h"
#include "perf/machine.h"

enum {
  HUGE_PAGE = 2 << 20,
  LINE_WORDS = 8,
  LINE_BYTES = 64,
  LEAST_BYTES = 256 << 20, /* so that what is read has left the caches when its turn comes again */
  TRIALS = 2,              /* of every reader, before the slow ones are given up */
  MAX_PASSES = 64
};
static const double most_seconds = 0.5, given_up = 0.9;

typedef struct reader {
  int streams;
  int ahead; /* lines that are prefetched before they are read; 0: none */
} reader;

static const reader readers[] = {{1, 0}, {2, 0},  {4, 0},  {1, 8}, {2, 8},
                                 {4, 8}, {1, 32}, {2, 32}, {4, 32}};
enum { READERS = sizeof readers / sizeof *readers };

void *perf_allocate(size_t bytes) {
  size_t rounded = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  void *memory = aligned_alloc(HUGE_PAGE, rounded);
  if (memory) madvise(memory, rounded, MADV_HUGEPAGE); /* does no harm to fail */
  return memory;
}

/* All words are read, a line of each stream in turn. */
static uint64_t read_lines(const uint64_t *data, int64_t lines, reader r) {
  uint64_t sum[LINE_WORDS] = {0}, total = 0;
  const int64_t part = lines / r.streams;
  for (int64_t i = 0; i < part; i++)
    for (int s = 0; s < r.streams; s++) {
      const uint64_t *line = data + (s * part + i) * LINE_WORDS;
      if (r.ahead) __builtin_prefetch(line + (int64_t)r.ahead * LINE_WORDS);
      for (int w = 0; w < LINE_WORDS; w++) sum[w] ^= line[w];
    }
  for (int w = 0; w < LINE_WORDS; w++) total ^= sum[w];
  return total;
}

/* GB/s of all threads, each of which reads its own part, whole streams of it. */
static double read_once(const uint64_t *data, int64_t bytes, int threads, reader r) {
  uint64_t total = 0;
  const int64_t streams = r.streams, lines = bytes / LINE_BYTES / threads / streams * streams;
  double start = perf_now();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(^ : total)
  for (int t = 0; t < threads; t++) total ^= read_lines(data + lines * t * LINE_WORDS, lines, r);
  double seconds = perf_now() - start;
  volatile uint64_t sink = total;
  (void)sink;
  return 1e-9 * (double)(lines * threads * LINE_BYTES) / seconds;
}

/* So many bytes and a huge page, since what is prefetched last is behind. Kept: to give it back and clear it anew would
 * take longer than to read it. */
static const uint64_t *buffer(int64_t bytes) {
  static uint64_t *data;
  static int64_t size;
  if (size >= bytes) return data;
  free(data);
  data = perf_allocate((size_t)(bytes + HUGE_PAGE));
  if (data) memset(data, 1, (size_t)(bytes + HUGE_PAGE));
  size = data ? bytes : 0;
  return data;
}

double perf_bandwidth_gbs(int threads, int64_t bytes) {
  bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  const int64_t size = bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
  const uint64_t *data = buffer(size);
  if (!data) return 0;
  double best[READERS] = {0}, most = 0, start = perf_now();
  int64_t at = 0; /* what was read longest ago */
  for (int pass = 0; pass < MAX_PASSES; pass++)
    for (int i = 0; i < READERS; i++) {
      if (pass >= TRIALS && best[i] < given_up * most) continue;
      if (pass >= TRIALS && perf_now() - start > most_seconds) return most;
      if (at + bytes > size) at = 0;
      double gbs = read_once(data + at / (int64_t)sizeof *data, bytes, threads, readers[i]);
      at += bytes;
      if (gbs > best[i]) best[i] = gbs;
      if (gbs > most) most = gbs;
    }
  return most;
}
