/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#define _GNU_SOURCE /* sched_getaffinity */

#include "threads.h"

#include "simd/kernels.h"
#include "status.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- how many ---- */

/* "max 100000" or "200000 100000": quota and period in microseconds. Anything else is no limit. */
static int32_t quota_threads(const char *path) {
  FILE *file = fopen(path, "re");
  if (!file) return INT32_MAX;
  char text[64];
  const char *line = fgets(text, sizeof(text), file);
  fclose(file);
  if (!line) return INT32_MAX;
  char *end;
  const long long quota = strtoll(text, &end, 10);
  if (end == text || *end != ' ' || quota <= 0) return INT32_MAX;
  const char *rest = end + 1;
  const long long period = strtoll(rest, &end, 10);
  if (end == rest || (*end != '\n' && *end != '\0') || period <= 0) return INT32_MAX;
  const long long threads = quota / period + (quota % period != 0);
  return threads < INT32_MAX ? (int32_t)threads : INT32_MAX;
}

/* cgroup v2: the limit of this process's group and of every group above it. */
int32_t attn_cgroup_threads(const char *root) {
  char group[2048] = "/";
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (file) {
    char line[2048];
    while (fgets(line, sizeof(line), file)) {
      if (strncmp(line, "0::/", 4) != 0) continue;
      line[strcspn(line, "\n")] = '\0';
      snprintf(group, sizeof(group), "%s", line + 3);
    }
    fclose(file);
  }
  int32_t least = INT32_MAX;
  for (;;) {
    char path[4096];
    snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
    const int32_t threads = quota_threads(path);
    if (threads < least) least = threads;
    char *slash = strrchr(group, '/');
    if (!slash) return least;
    *slash = '\0';
  }
}

static int32_t affinity_threads(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than the set can hold */
  return online > 0 && online < INT32_MAX ? (int32_t)online : 1;
}

int32_t attn_default_threads(void) {
  static atomic_int quota; /* reading files at every call would cost more than small calls do */
  int32_t threads = atomic_load_explicit(&quota, memory_order_relaxed);
  if (threads == 0) {
    threads = attn_cgroup_threads("/sys/fs/cgroup");
    atomic_store_explicit(&quota, threads, memory_order_relaxed);
  }
  const int32_t affinity = affinity_threads(), openmp = omp_get_max_threads();
  if (affinity < threads) threads = affinity;
  if (openmp < threads) threads = openmp;
  return threads > 1 ? threads : 1;
}

/* A child of this process has the memory of an OpenMP team but none of its threads, and would wait for
 * them for ever. */
static pid_t loaded_by;

__attribute__((constructor)) static void remember_process(void) { loaded_by = getpid(); }

int32_t attn_threads_for(double cost, int32_t most) {
  /* Waking a sleeping team takes 5 to 50 us; a thread does some 20 to 80 multiply-adds a ns. */
  const double worth = 400e3;
  const attn_fpmode mode = attn_fpmode_enter(); /* a caller may have unmasked exceptions */
  const bool small = cost < worth * most;
  attn_fpmode_leave(mode);
  return most == 1 || small || omp_in_parallel() || getpid() != loaded_by ? 1 : most;
}

/* ---- running ---- */

typedef struct team {
  int64_t count;
  attn_task_fn run;
  void *user;
  attn_cancel_fn cancel;
  void *cancel_user;
  _Atomic(int64_t) next;
  atomic_bool cancelled;
} team;

/* In the floating-point mode that the thread had, which the callback may also change. */
static bool asked_to_stop(const team *t, attn_fpmode *mode) {
  if (!t->cancel) return false;
  attn_fpmode_leave(*mode);
  const bool stop = t->cancel(t->cancel_user);
  *mode = attn_fpmode_enter();
  return stop;
}

static void runner(team *t, int32_t number) {
  attn_fpmode mode = attn_fpmode_enter();
  for (;;) {
    const int64_t task = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
    if (task >= t->count || atomic_load_explicit(&t->cancelled, memory_order_relaxed)) break;
    if (asked_to_stop(t, &mode)) {
      atomic_store_explicit(&t->cancelled, true, memory_order_relaxed);
      break;
    }
    t->run(t->user, task, number);
  }
  attn_fpmode_leave(mode);
}

attn_status attn_run_tasks(int32_t threads, int64_t count, attn_task_fn run, void *user,
                           attn_cancel_fn cancel, void *cancel_user) {
  team t = {.count = count, .run = run, .user = user, .cancel = cancel, .cancel_user = cancel_user};
  if (threads == 1 || count <= 1) {
    runner(&t, 0);
  } else {
#pragma omp parallel num_threads(threads)
    runner(&t, omp_get_thread_num());
  }
  if (atomic_load(&t.cancelled)) return attn_fail(ATTN_CANCELLED, "cancelled by the callback");
  return ATTN_OK;
}
