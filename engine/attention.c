/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The attention calls: a problem is checked, cut into tasks, and the tasks are run, by OpenMP or by
 * the caller's own threads. */

#include "context.h"
#include "isa.h"
#include "problem.h"
#include "schedule.h"
#include "status.h"
#include "threads.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

struct attn_plan {
  attn_problem problem;
  attn_schedule schedule;
  size_t runner_bytes; /* workspace of one runner, aligned */
  size_t state_floats; /* one task's state, where keys are cut in pieces */
  float *states;       /* (head, group, piece) */
  atomic_int *pending; /* (head, group): pieces not yet done */
};

static void plan_init(attn_plan *plan, const attn_kernels *kernels, int32_t threads) {
  attn_params *p = &plan->problem.params;
  attn_schedule *s = &plan->schedule;
  plan->problem.kernels = kernels;
  p->num_threads = threads;
  attn_schedule_make(&plan->problem, s);
  const attn_attention_task largest = {
      .head_size = p->head_size,
      .value_size = p->value_size,
      .lanes = s->lanes < s->lanes_per_task ? s->lanes : s->lanes_per_task,
      .chunk_end = s->piece_chunks,
      .dropout = plan->problem.dropout ? attn_dropout_keep : NULL,
  };
  plan->runner_bytes = kernels->attention_workspace(&largest);
  plan->state_floats = 0;
  if (s->pieces > 1) {
    const size_t combine = kernels->combine_workspace(&largest, s->pieces);
    if (combine > plan->runner_bytes) plan->runner_bytes = combine;
    const size_t state = kernels->state_size(p->value_size, largest.lanes) * sizeof(float);
    plan->state_floats = attn_align(state) / sizeof(float);
  }
  plan->runner_bytes = attn_align(plan->runner_bytes);
}

/* Bytes for states and counters. */
static size_t shared_bytes(const attn_plan *plan) {
  const attn_schedule *s = &plan->schedule;
  if (s->pieces == 1) return 0;
  const size_t rows = (size_t)(s->heads * s->groups);
  return rows * (size_t)s->pieces * plan->state_floats * sizeof(float) +
         attn_align(rows * sizeof(atomic_int));
}

static size_t plan_rows(const attn_plan *plan) {
  return (size_t)(plan->schedule.heads * plan->schedule.groups);
}

void attn_plan_reset(attn_plan *plan) {
  if (!plan || !plan->pending) return;
  for (size_t i = 0; i < plan_rows(plan); i++) {
    atomic_init(&plan->pending[i], (int)plan->schedule.pieces);
  }
}

static void plan_share_memory(attn_plan *plan, void *memory) {
  const attn_schedule *s = &plan->schedule;
  plan->states = memory;
  plan->pending = NULL;
  if (s->pieces == 1) return;
  const size_t floats = plan_rows(plan) * (size_t)s->pieces * plan->state_floats;
  plan->pending = (atomic_int *)(plan->states + floats);
  attn_plan_reset(plan);
}

/* Element (batch, head, 0, 0); stays NULL where nothing is read. */
static const float *input_at(const attn_input *in, int64_t batch, int64_t head) {
  const float *data = in->data;
  return data ? data + batch * in->batch_stride + head * in->head_stride : NULL;
}

static attn_attention_task task_of(const attn_problem *problem, const attn_share *share) {
  const attn_params *p = &problem->params;
  const int64_t head = share->kv_head * problem->group;
  attn_attention_task t = {
      .q = input_at(&p->q, share->batch, head),
      .q_head = p->q.head_stride,
      .q_row = p->q.row_stride,
      .q_dim = p->q.dim_stride,
      .k = input_at(&p->k, share->batch, share->kv_head),
      .k_row = p->k.row_stride,
      .k_dim = p->k.dim_stride,
      .v = input_at(&p->v, share->batch, share->kv_head),
      .v_row = p->v.row_stride,
      .v_dim = p->v.dim_stride,
      .head_size = p->head_size,
      .value_size = p->value_size,
      .group = problem->group,
      .lane = share->lane,
      .lanes = share->lanes,
      .kv_len = p->kv_len,
      .diagonal = problem->diagonal,
      .chunk_begin = share->chunk_begin,
      .chunk_end = share->chunk_end,
      .scale = p->scale,
      .o = (float *)p->o.data + share->batch * p->o.batch_stride + head * p->o.head_stride,
      .o_head = p->o.head_stride,
      .o_row = p->o.row_stride,
      .o_dim = p->o.dim_stride,
      .lse_head = p->lse.head_stride,
      .lse_row = p->lse.row_stride,
  };
  if (p->lse.data) {
    t.lse = p->lse.data + share->batch * p->lse.batch_stride + head * p->lse.head_stride;
  }
  return t;
}

static void run_task(attn_plan *plan, int64_t i, void *workspace) {
  const attn_schedule *s = &plan->schedule;
  const attn_kernels *kernels = plan->problem.kernels;
  const attn_share share = attn_schedule_share(s, &plan->problem, i);
  const attn_dropout_lanes lanes = {&plan->problem, share.batch, share.kv_head};
  attn_attention_task task = task_of(&plan->problem, &share);
  if (plan->problem.dropout) {
    task.dropout = attn_dropout_keep;
    task.dropout_user = &lanes;
    task.dropout_scale = attn_dropout_scale(plan->problem.params.dropout.rate);
  }
  if (s->pieces == 1) {
    kernels->attention(kernels, &task, workspace);
    return;
  }
  const size_t row =
      (size_t)((share.batch * plan->problem.params.kv_heads + share.kv_head) * s->groups +
               share.group);
  float *states = plan->states + row * (size_t)s->pieces * plan->state_floats;
  task.state = states + (size_t)share.piece * plan->state_floats;
  kernels->attention(kernels, &task, workspace);
  if (atomic_fetch_sub(&plan->pending[row], 1) > 1) return;
  /* The last piece of this row: the order of the tree, not of arrival, decides the bits. */
  atomic_store(&plan->pending[row], (int)s->pieces);
  kernels->combine(kernels, &task, states, s->pieces, plan->state_floats, workspace);
}

/* ---- OpenMP ---- */

typedef struct forward {
  attn_plan *plan;
  char *workspaces;
} forward;

static void forward_task(void *user, int64_t task, int32_t runner) {
  const forward *f = user;
  run_task(f->plan, task, f->workspaces + (size_t)runner * f->plan->runner_bytes);
}

static size_t forward_bytes(const attn_plan *plan) {
  return (size_t)plan->problem.params.num_threads * plan->runner_bytes + shared_bytes(plan);
}

attn_status attn_workspace_size(const attn_params *params, size_t *bytes) {
  attn_plan plan;
  const attn_kernels *kernels;
  if (!bytes) return attn_fail(ATTN_INVALID_ARGUMENT, "bytes is NULL; it must point to a size");
  attn_status status = attn_kernels_current(&kernels);
  if (!status) status = attn_problem_shape(params, &plan.problem);
  if (status) return status;
  /* Whether the call will use one thread or all is not known here, and one thread's larger tasks
   * may need more. */
  const int32_t threads = plan.problem.params.num_threads;
  plan_init(&plan, kernels, threads);
  const size_t team = forward_bytes(&plan);
  plan_init(&plan, kernels, 1);
  const size_t alone = forward_bytes(&plan);
  *bytes = (team > alone ? team : alone) + ATTN_ALIGNMENT; /* the memory may start anywhere */
  return ATTN_OK;
}

static attn_status forward_run(attn_plan *plan, char *memory) {
  const attn_params *p = &plan->problem.params;
  plan_share_memory(plan, memory);
  forward f = {plan, memory + shared_bytes(plan)};
  return attn_run_tasks(p->num_threads, plan->schedule.tasks, forward_task, &f, p->cancel,
                        p->cancel_user);
}

attn_status attn_forward(attn_context *context, const attn_params *params) {
  const attn_kernels *kernels;
  const attn_status status = attn_kernels_current(&kernels);
  return status ? status : attn_forward_with(context, params, kernels);
}

attn_status attn_forward_with(attn_context *context, const attn_params *params,
                              const attn_kernels *kernels) {
  attn_plan plan;
  attn_status status = attn_problem_init(params, &plan.problem);
  if (status) return status;
  const attn_params *p = &plan.problem.params;
  plan_init(&plan, kernels, attn_threads_for(attn_problem_cost(&plan.problem), p->num_threads));
  const size_t need = forward_bytes(&plan);
  if (p->workspace) {
    if (p->workspace_size < need + ATTN_ALIGNMENT) {
      return attn_fail(ATTN_INVALID_ARGUMENT, "workspace_size is %zu; this problem needs %zu",
                       p->workspace_size, need + ATTN_ALIGNMENT);
    }
    return forward_run(&plan, (char *)attn_align((size_t)(uintptr_t)p->workspace));
  }
  char *memory = attn_scratch_acquire(context, need);
  if (!memory) return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", need);
  status = forward_run(&plan, memory);
  attn_scratch_release(context, memory);
  return status;
}

/* ---- the caller's threads ---- */

attn_status attn_plan_create(const attn_params *params, attn_plan **plan) {
  if (!plan) return attn_fail(ATTN_INVALID_ARGUMENT, "plan is NULL; it must point to a handle");
  attn_problem problem;
  const attn_kernels *kernels;
  attn_status status = attn_kernels_current(&kernels);
  if (!status) status = attn_problem_init(params, &problem);
  if (status) return status;
  attn_plan *made = malloc(sizeof(*made));
  if (!made) return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a plan");
  made->problem = problem;
  plan_init(made, kernels, problem.params.num_threads);
  const size_t shared = shared_bytes(made);
  void *memory = NULL;
  if (shared > 0 && !(memory = aligned_alloc(ATTN_ALIGNMENT, attn_align(shared)))) {
    free(made);
    return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for the %zu bytes of a plan's states", shared);
  }
  plan_share_memory(made, memory);
  *plan = made;
  return ATTN_OK;
}

void attn_plan_destroy(attn_plan *plan) {
  if (!plan) return;
  free(plan->states);
  free(plan);
}

int64_t attn_plan_task_count(const attn_plan *plan) { return plan ? plan->schedule.tasks : 0; }

double attn_plan_task_cost(const attn_plan *plan, int64_t i) {
  if (!plan || i < 0 || i >= plan->schedule.tasks) return 0.0;
  return attn_schedule_cost(&plan->schedule, &plan->problem, i);
}

size_t attn_plan_workspace_size(const attn_plan *plan) {
  return plan ? plan->runner_bytes + ATTN_ALIGNMENT : 0;
}

attn_status attn_plan_run_task(attn_plan *plan, int64_t i, void *workspace, size_t workspace_size) {
  if (!plan) return attn_fail(ATTN_INVALID_ARGUMENT, "plan is NULL");
  if (i < 0 || i >= plan->schedule.tasks) {
    return attn_fail(ATTN_INVALID_ARGUMENT, "task is %" PRId64 "; allowed: 0 ... %" PRId64, i,
                     plan->schedule.tasks - 1);
  }
  if (!workspace || workspace_size < attn_plan_workspace_size(plan)) {
    return attn_fail(ATTN_INVALID_ARGUMENT, "workspace_size is %zu; a task of this plan needs %zu",
                     workspace ? workspace_size : 0, attn_plan_workspace_size(plan));
  }
  const attn_fpmode mode = attn_fpmode_enter();
  run_task(plan, i, (void *)attn_align((size_t)(uintptr_t)workspace));
  attn_fpmode_leave(mode);
  return ATTN_OK;
}
