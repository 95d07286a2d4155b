/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* How a problem is cut into tasks. Pure: a function of the problem alone. Which cut is chosen
 * changes no result bit (docs/numerics.md). */
#ifndef ATTN_ENGINE_SCHEDULE_H
#define ATTN_ENGINE_SCHEDULE_H

#include "problem.h"

/* Tasks are sequence x kv head x lane group x key piece. A lane group is a run of queries that read
 * one kv head; a piece is a subtree of key chunks. With one piece, a task stores its output;
 * else the last of a lane group's tasks to end combines their states. */
typedef struct attn_schedule {
  int64_t heads;          /* sequences x kv heads */
  int64_t lanes;          /* per kv head */
  int64_t lanes_per_task; /* the last group of a head may have fewer */
  int64_t groups;         /* lane groups per head */
  int64_t piece_chunks;   /* a power of two, or everything */
  int64_t pieces;
  int64_t chunks; /* in a sequence's keys */
  int64_t tasks;
} attn_schedule;

/* One task's share. */
typedef struct attn_share {
  int64_t batch, kv_head, group;
  int64_t lane, lanes;
  int64_t piece, chunk_begin, chunk_end;
} attn_share;

void attn_schedule_make(const attn_problem *problem, attn_schedule *schedule);

/* Task i, costliest first as far as causality tells. */
attn_share attn_schedule_share(const attn_schedule *schedule, const attn_problem *problem,
                               int64_t i);

/* Estimated multiply-adds. */
double attn_schedule_cost(const attn_schedule *schedule, const attn_problem *problem, int64_t i);

#endif
