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

/* Sequences that are cut alike: all of a batch, or one of a ragged batch. */
typedef struct attn_cut {
  int64_t sequence, sequences;
  int64_t lanes;          /* per kv head */
  int64_t lanes_per_task; /* the first group of a head may have fewer */
  int64_t groups;         /* lane groups per head */
  int64_t piece_chunks;   /* a power of two, or everything */
  int64_t piece_begin;    /* pieces before it have no keys */
  int64_t pieces;
  int64_t chunks;  /* in a sequence's keys, from key 0 */
  bool last_apart; /* the last pieces of all groups come behind all others */
  int64_t rows;    /* lane groups of all heads */
  int64_t first_task;
  int64_t first_row;   /* rows, of the tasks whose states are combined, before those of this cut */
  int64_t first_state; /* states before those of this cut, in lanes */
  double cost;         /* of a task */
} attn_cut;

typedef struct attn_schedule {
  attn_cut alike; /* the only cut of a batch that is not ragged */
  attn_cut *cuts; /* NULL, or one for every sequence with rows, costliest tasks first */
  int64_t count;  /* of cuts */
  int64_t tasks, rows, states;
} attn_schedule;

/* One task's share. */
typedef struct attn_share {
  const attn_cut *cut;
  int64_t n; /* sequence */
  int64_t kv_head;
  int64_t lane, lanes;
  int64_t piece, chunk_begin, chunk_end;
  int64_t row;   /* of its combination */
  int64_t state; /* where the states of that row begin, in lanes; pieces are lanes_per_task apart */
} attn_share;

/* How many cuts there must be room for: 0 where sequences are alike. */
int64_t attn_schedule_room(const attn_problem *problem);

/* The schedule keeps `cuts`. */
void attn_schedule_make(const attn_problem *problem, attn_cut *cuts, attn_schedule *schedule);

/* Cut i of the schedule. */
const attn_cut *attn_schedule_cut(const attn_schedule *schedule, int64_t i);

/* Task i. As many heads as there are runners are in work at a time, so that the keys of a head are still
 * in some cache for the next group of its queries; of these, later groups, which see more keys, come
 * first. Where the diagonal or the last key cuts last pieces short, these come behind all others, so that
 * what ends last is small. */
attn_share attn_schedule_share(const attn_schedule *schedule, const attn_problem *problem,
                               int64_t i);

/* Estimated multiply-adds. */
double attn_schedule_cost(const attn_schedule *schedule, const attn_problem *problem, int64_t i);

#endif
