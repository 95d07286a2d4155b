/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "schedule.h"

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Enough tasks that the last ones to end leave no runner idle for long; and the queries and values
 * of a task's tiles together no larger than a second cache level. */
enum { TASKS_PER_RUNNER = 8, TASK_BYTES = 1 << 20 };

static int64_t tiles_per_task(const attn_problem *problem) {
  const attn_params *p = &problem->params;
  const int64_t most = problem->kernels->max_lanes / problem->kernels->lanes;
  const int64_t tile =
      (p->head_size + p->value_size) * problem->kernels->lanes * (int64_t)sizeof(float);
  const int64_t fit = TASK_BYTES / tile;
  return fit < 1 ? 1 : fit < most ? fit : most;
}

void attn_schedule_make(const attn_problem *problem, attn_schedule *s) {
  const attn_params *p = &problem->params;
  const attn_kernels *kernels = problem->kernels;
  const int64_t wanted = p->num_threads > 1 ? (int64_t)TASKS_PER_RUNNER * p->num_threads : 1;
  s->heads = p->batch * p->kv_heads;
  s->lanes = p->q_len * problem->group;
  s->chunks = divide_up(p->kv_len, ATTN_KEY_CHUNK);

  /* Tiles of one task share each block of keys; give that up only for want of tasks. */
  const int64_t tiles = s->lanes > 0 ? divide_up(s->lanes, kernels->lanes) : 1;
  int64_t per_task = tiles_per_task(problem);
  while (per_task > 1 && s->heads * divide_up(tiles, per_task) < wanted) per_task /= 2;
  per_task = divide_up(tiles, divide_up(tiles, per_task)); /* evenly */
  s->lanes_per_task = per_task * kernels->lanes;
  s->groups = divide_up(s->lanes, s->lanes_per_task);

  /* Pieces of keys only where there are still too few, as in decode. */
  s->pieces = 1;
  s->piece_chunks = s->chunks;
  if (s->heads * s->groups * 2 < wanted && s->chunks > 1) {
    s->piece_chunks = 1;
    while (s->heads * s->groups * divide_up(s->chunks, s->piece_chunks) > wanted) {
      s->piece_chunks *= 2;
    }
    s->pieces = divide_up(s->chunks, s->piece_chunks);
  }
  s->tasks = s->heads * s->groups * s->pieces;
}

attn_share attn_schedule_share(const attn_schedule *s, const attn_problem *problem, int64_t i) {
  attn_share share;
  /* Later queries see more keys: they come first, over all heads. */
  share.piece = i % s->pieces;
  i /= s->pieces;
  const int64_t head = i % s->heads;
  share.group = s->groups - 1 - i / s->heads;
  share.batch = head / problem->params.kv_heads;
  share.kv_head = head % problem->params.kv_heads;
  share.lane = share.group * s->lanes_per_task;
  share.lanes = s->lanes - share.lane;
  if (share.lanes > s->lanes_per_task) share.lanes = s->lanes_per_task;
  share.chunk_begin = share.piece * s->piece_chunks;
  share.chunk_end = share.chunk_begin + s->piece_chunks;
  if (share.chunk_end > s->chunks) share.chunk_end = s->chunks;
  return share;
}

double attn_schedule_cost(const attn_schedule *s, const attn_problem *problem, int64_t i) {
  const attn_params *p = &problem->params;
  const attn_share share = attn_schedule_share(s, problem, i);
  /* Keys seen by the middle row of the group. */
  const int64_t row = (share.lane + share.lanes / 2) / problem->group;
  int64_t end = attn_last_key(row, problem->diagonal, p->kv_len) + 1;
  if (end > share.chunk_end * ATTN_KEY_CHUNK) end = share.chunk_end * ATTN_KEY_CHUNK;
  const int64_t keys = end - share.chunk_begin * ATTN_KEY_CHUNK;
  if (keys <= 0) return 0.0;
  return (double)share.lanes * (double)keys * (double)(p->head_size + p->value_size);
}
