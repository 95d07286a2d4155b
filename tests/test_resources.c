/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Threads and memory: what is asked for is what is used. One subject per run, named on the command
 * line, since each needs a process of its own and some an environment:
 *   threads    OMP_NUM_THREADS=8: one thread makes no other, three make two
 *   default N  attn_default_threads() is N; with a third word, once bound to one CPU
 *   stack      OMP_STACKSIZE small: wide heads on several threads
 *   growth     many calls with changing thread counts
 *   long       131072 rows: memory beyond the tensors */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include "exact.h"
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const uint64_t seed = 9501;

static int threads_now(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/task");
  CHECK(dir != NULL);
  if (!dir) return 0;
  for (struct dirent *entry; (entry = readdir(dir));) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

/* A line "VmRSS:  1234 kB" of /proc/self/status, in bytes. */
static double memory(const char *key) {
  FILE *file = fopen("/proc/self/status", "r");
  CHECK(file != NULL);
  double kib = NAN;
  char line[256];
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, key, strlen(key)) == 0) kib = strtod(line + strlen(key) + 1, NULL);
  if (file) fclose(file);
  CHECK(kib > 0);
  return kib * 1024;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void threads(void) {
  problem p = problem_random((shape){1, 8, 8, 300, 300, 32, 32}, seed);
  const int before = threads_now();
  problem_run_threads(&p, 1);
  CHECK_INT(threads_now(), before);
  problem_run_threads(&p, 3);
  CHECK(threads_now() <= before + 2);
  printf("threads: %d before, %d after a call with 3\n", before, threads_now());
  problem_free(&p);
}

static void default_threads(int want, bool bind) {
  if (bind) {
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &set)) cpu++;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
  }
  CHECK_INT(attn_default_threads(), want);
}

static void stack(void) {
  problem p = problem_random((shape){1, 4, 4, 256, 256, 1024, 1024}, seed);
  bits want = bits_of(&p, 1); /* on this thread's stack */
  problem_run_threads(&p, 4);
  CHECK_SAME(&p, &want);
  p.params.dropout = (attn_dropout){.rate = 0.5};
  problem_run_threads(&p, 4);
  bits_free(&want);
  problem_free(&p);
}

static double run_many(problem *p, int calls, const int32_t *counts, int n) {
  double start = seconds();
  for (int i = 0; i < calls; i++) {
    p->params.num_threads = counts[i % n];
    CHECK_OK(attn_forward(NULL, &p->params));
  }
  return seconds() - start;
}

static void growth(void) {
  static const int32_t cycle[] = {1, 4, 2, 3};
  problem p = problem_random((shape){1, 4, 4, 64, 64, 64, 64}, seed);
  p.params.has_num_threads = true;
  run_many(&p, 100, cycle, 4);
  const double before = memory("VmRSS:");
  /* How long it takes is for the reader: on a busy machine starting threads has no bound. */
  double changing = INFINITY, fixed = INFINITY;
  for (int round = 0; round < 10; round++) {
    changing = fmin(changing, run_many(&p, 200, cycle, 4));
    fixed = fmin(fixed, run_many(&p, 200, &cycle[1], 1));
  }
  const double grown = memory("VmRSS:") - before;
  printf("grew by %.0f KiB; a call: %.1f us with changing thread counts, %.1f us with 4 threads\n",
         grown / 1024, changing * 5e3, fixed * 5e3);
  CHECK(grown < 8 * 1048576.0);

  /* An idle context's memory goes back. */
  attn_context *context = NULL;
  CHECK_OK(attn_context_create(&context));
  problem big = problem_random((shape){1, 1, 1, 8, 8000, 64, 512}, seed);
  big.params.has_num_threads = true;
  big.params.num_threads = 4;
  CHECK_OK(attn_forward(context, &big.params));
  attn_context_trim(context);
  CHECK_OK(attn_forward(context, &big.params));
  const double warm = memory("VmRSS:");
  for (int i = 0; i < 50; i++) CHECK_OK(attn_forward(context, &big.params));
  CHECK(memory("VmRSS:") - warm < 2 * 1048576.0);
  attn_context_destroy(context);
  double settled = 0; /* malloc keeps some of what is freed, but not ever more */
  for (int i = 0; i < 300; i++) {
    attn_plan *plan = NULL;
    CHECK_OK(attn_context_create(&context));
    CHECK_OK(attn_forward(context, &big.params));
    CHECK_OK(attn_plan_create(&big.params, &plan));
    attn_plan_destroy(plan);
    attn_context_destroy(context);
    if (i == 100) settled = memory("VmRSS:");
  }
  CHECK(memory("VmRSS:") - settled < 1048576.0);
  problem_free(&big);
  problem_free(&p);
}

/* Sets the peak back to what is resident now. */
static bool reset_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return false;
  bool good = fputs("5", file) >= 0;
  return fclose(file) == 0 && good;
}

static void long_sequence(void) {
  enum { T = 131072, D = 64, THREADS = 2 };
  problem p = problem_random((shape){1, 1, 1, T, T, D, D}, seed);
  problem_run_threads(&p, THREADS); /* also makes every page resident */
  if (!reset_peak()) check_skip("this system does not let a process reset its peak memory");
  attn_context *context = NULL; /* a new one: the default one already holds its workspaces */
  CHECK_OK(attn_context_create(&context));
  const double before = memory("VmRSS:");
  CHECK_OK(attn_forward(context, &p.params));
  const double beyond = memory("VmHWM:") - before;
  printf("beyond the tensors: %.2f MiB for %d threads\n", beyond / 1048576, THREADS);
  CHECK(beyond < THREADS * 4 * 1048576.0);
  attn_context_destroy(context);
  static const int64_t rows[] = {0, 1, 511, 512, 513, 65535, 99999, T - 2, T - 1};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    check_context("row %lld of %d", (long long)rows[i], T);
    attn_params one = problem_rows(&p, rows[i], rows[i] + 1);
    oracle_result r = oracle_attention(&one, false);
    CHECK_NEAR(oracle_worst_o(&one, &r), 0.0, 8.0);
    CHECK_NEAR(oracle_worst_lse(&one, &r), 0.0, 4.0);
    oracle_free(&r);
    float whole[D + 1];
    memcpy(whole, one.o.data, D * sizeof(float));
    whole[D] = *one.lse.data;
    canary_fill(one.o.data, D);
    CHECK_OK(attn_forward(NULL, &one)); /* as decode would compute it */
    CHECK_BITS(one.o.data, whole, D);
    CHECK_BITS(one.lse.data, whole + D, 1);
  }
  problem_free(&p);
}

/* ---- allocations ---- */

/* Calls of the allocator by anything in this process, while it counts. */
static bool counting;
static int counted;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !defined(__clang__)
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *malloc(size_t size) {
  if (counting) counted++;
  return __libc_malloc(size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  if (counting) counted++;
  return __libc_memalign(alignment, size);
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

/* With a workspace as large as was said, a call allocates nothing, however many sequences there are. */
static void allocations(void) {
  enum { BATCH = 300, KEYS = 40 };
  int32_t lens[BATCH];
  if (!COUNTS_ALLOCATIONS) check_skip("the allocator cannot be watched in this build");
  problem p = problem_random((shape){BATCH, 2, 1, 1, KEYS, 16, 16}, 7300);
  for (int i = 0; i < BATCH; i++) lens[i] = (i * 7) % (KEYS + 1);
  p.params.has_num_threads = true;
  p.params.num_threads = 1;
  for (int ragged = 0; ragged < 2; ragged++) {
    p.params.lengths.kv_lens = ragged ? lens : NULL;
    p.params.workspace = NULL;
    CHECK_OK(attn_workspace_size(&p.params, &p.params.workspace_size));
    p.params.workspace = malloc(p.params.workspace_size);
    counted = 0;
    counting = true;
    const attn_status status = attn_forward(NULL, &p.params);
    counting = false;
    check_context("ragged %d", ragged);
    CHECK_OK(status);
    CHECK_INT(counted, 0);
    free(p.params.workspace);
  }
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  const char *subject = argc > 1 ? argv[1] : "";
  if (strcmp(subject, "threads") == 0)
    threads();
  else if (strcmp(subject, "default") == 0 && argc > 2)
    default_threads((int)strtol(argv[2], NULL, 10), argc > 3);
  else if (strcmp(subject, "stack") == 0)
    stack();
  else if (strcmp(subject, "growth") == 0)
    growth();
  else if (strcmp(subject, "allocations") == 0)
    allocations();
  else if (strcmp(subject, "long") == 0)
    long_sequence();
  else
    printf("usage: %s threads|default N [bind]|stack|growth|allocations|long\n", argv[0]);
  return check_done();
}
