/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* How many threads, and the one place where OpenMP runs them. */
#ifndef ATTN_ENGINE_THREADS_H
#define ATTN_ENGINE_THREADS_H

#include <attn/attn.h>

/* OpenMP threads for work of `cost` multiply-adds when at most `most` may be used: all of them, or
 * one where the work is small, inside a parallel region, or in a forked child. Never a number
 * between, since runtimes end and start threads when the team changes its size. */
int32_t attn_threads_for(double cost, int32_t most);

/* Whole CPUs that the cgroup file system mounted at `root` grants this process, INT32_MAX when it sets no limit. */
int32_t attn_cgroup_threads(const char *root);

typedef void (*attn_task_fn)(void *user, int64_t task, int32_t runner);

/* Runs tasks [0, count) in order of number, each by the next free of `threads` runners, with the
 * floating-point mode that results are defined for. Asks `cancel` (may be NULL) before each.
 * Returns ATTN_CANCELLED or ATTN_OK. */
attn_status attn_run_tasks(int32_t threads, int64_t count, attn_task_fn run, void *user,
                           attn_cancel_fn cancel, void *cancel_user);

#endif
