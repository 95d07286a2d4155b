/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A slow-down planted on purpose, to prove that perf/track finds it: tasks worth ATTN_PLANT_SLOWDOWN
 * percent of the work are run twice. Results are the same. For table.c, and only in builds that ask
 * for it. */
#ifndef ATTN_SIMD_PLANT_H
#define ATTN_SIMD_PLANT_H

#include <stdlib.h>

#include "body.h"

/* Whether to repeat a task of so many multiply-adds. Tasks differ in size, so it is work, not
 * tasks, that is counted; long tasks are repeated when enough has passed since. */
static bool plant_repeats(double fmas) {
  static _Thread_local double due;
  due += 0.01 * ATTN_PLANT_SLOWDOWN * fmas;
  if (due < fmas) return false;
  due -= fmas;
  return true;
}

/* Keys of the task's chunks that a lane sees. */
static int64_t plant_keys(const attn_attention_task *task, int64_t lane) {
  int64_t begin = task->chunk_begin * ATTN_KEY_CHUNK;
  if (begin < task->kv_begin) begin = task->kv_begin;
  int64_t end = attn_last_key(lane / task->group, task->diagonal, task->kv_len) + 1;
  if (end > task->chunk_end * ATTN_KEY_CHUNK) end = task->chunk_end * ATTN_KEY_CHUNK;
  return end > begin ? end - begin : 0;
}

/* Output may overwrite queries, so the task is done first in vain, ending in a state, and then in
 * earnest. */
static void planted_attention(const attn_kernels *kernels, const attn_attention_task *task,
                              void *workspace) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < task->lanes; i++) pairs += plant_keys(task, task->lane + i);
  if (plant_repeats((double)(pairs * (task->head_size + task->value_size)))) {
    attn_attention_task vain = *task;
    vain.state = malloc((size_t)attn_state_floats(task->value_size, task->lanes) * sizeof(float));
    if (vain.state) ATTN_NAME(attention)(kernels, &vain, workspace);
    free(vain.state);
  }
  ATTN_NAME(attention)(kernels, task, workspace);
}

static void planted_linear(const attn_linear_task *task, void *workspace) {
  if (plant_repeats((double)(task->rows * task->depth * task->columns)))
    ATTN_NAME(linear)(task, workspace);
  ATTN_NAME(linear)(task, workspace);
}

#endif
