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

/* Keys and values of more than that are read as if from memory: between two calls other layers pass through the caches,
 * and a core's share of the third level is a few MB. Calls of nothing but decode from one cache of 6 to 16 MB were 1.3 to
 * 1.8 times as fast that way on a Zen 3 whose 32 MB are shared by 8 cores; of 4 MB, 0.7. */
enum { STREAM_BYTES = 5 << 20 };

struct attn_plan {
  attn_problem problem;
  attn_schedule schedule;
  size_t runner_bytes; /* workspace of one runner, aligned */
  float *states;       /* as the schedule numbers them */
  atomic_int *pending; /* per row of the schedule: pieces not yet done */
};

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Workspace of the tasks of one cut. */
static size_t cut_bytes(const attn_problem *problem, const attn_cut *c) {
  const attn_params *p = &problem->params;
  attn_attention_task task = {
      .head_size = p->head_size,
      .value_size = p->value_size,
      .lanes = c->lanes_per_task,
      .chunk_end = c->piece_chunks,
      .table = p->pages.table,
      .dropout = problem->dropout ? attn_dropout_keep : NULL,
  };
  size_t bytes = problem->kernels->attention_workspace(&task);
  if (c->pieces > 1) bytes = larger(bytes, problem->kernels->combine_workspace(&task, c->pieces));
  /* The first group of a head may have fewer lanes, and a kernel may want more for few. */
  const int64_t first = c->lanes - (c->groups - 1) * c->lanes_per_task;
  if (first == task.lanes) return bytes;
  task.lanes = first;
  return larger(bytes, problem->kernels->attention_workspace(&task));
}

/* Bytes that plan_init() needs for cuts. */
static size_t cuts_bytes(const attn_problem *problem) {
  return attn_align((size_t)attn_schedule_room(problem) * sizeof(attn_cut));
}

static void plan_init(attn_plan *plan, const attn_kernels *kernels, int32_t threads, void *cuts) {
  plan->problem.kernels = kernels;
  plan->problem.params.num_threads = threads;
  attn_schedule_make(&plan->problem, cuts, &plan->schedule);
  plan->runner_bytes = 0;
  for (int64_t i = 0; i < plan->schedule.count; i++) {
    const attn_cut *c = attn_schedule_cut(&plan->schedule, i);
    plan->runner_bytes = larger(plan->runner_bytes, cut_bytes(&plan->problem, c));
  }
  plan->runner_bytes = attn_align(plan->runner_bytes);
}

/* Floats of a state, per lane, at most. */
static int64_t lane_floats(const attn_plan *plan) {
  return attn_state_floats(plan->problem.params.value_size, 1);
}

static size_t states_bytes(const attn_plan *plan) {
  return (size_t)(plan->schedule.states * lane_floats(plan)) * sizeof(float);
}

/* Bytes for states and counters. */
static size_t shared_bytes(const attn_plan *plan) {
  return states_bytes(plan) + attn_align((size_t)plan->schedule.rows * sizeof(atomic_int));
}

void attn_plan_reset(attn_plan *plan) {
  if (!plan) return;
  const attn_schedule *s = &plan->schedule;
  for (int64_t i = 0; i < s->count; i++) {
    const attn_cut *c = attn_schedule_cut(s, i);
    for (int64_t r = 0; r < c->rows && c->pieces > 1; r++) {
      atomic_init(&plan->pending[c->first_row + r], (int)c->pieces);
    }
  }
}

static void plan_share_memory(attn_plan *plan, void *memory) {
  plan->states = memory;
  plan->pending = NULL;
  if (!memory) return;
  plan->pending = (atomic_int *)((char *)memory + states_bytes(plan));
  attn_plan_reset(plan);
}

/* Element (batch, head, row, 0); stays NULL where nothing is read. */
static const float *input_at(const attn_input *in, int64_t batch, int64_t head, int64_t row) {
  const float *data = in->data;
  return data ? data + batch * in->batch_stride + head * in->head_stride + row * in->row_stride
              : NULL;
}

static void set_outputs(const attn_params *p, const attn_sequence *s, int64_t head,
                        attn_attention_task *t) {
  const attn_output *o = &p->o;
  const attn_lse_output *lse = &p->lse;
  t->o = (float *)o->data + s->batch * o->batch_stride + head * o->head_stride +
         s->q_row * o->row_stride;
  t->o_head = o->head_stride;
  t->o_row = o->row_stride;
  t->o_dim = o->dim_stride;
  t->lse_head = lse->head_stride;
  t->lse_row = lse->row_stride;
  if (!lse->data) return;
  t->lse = lse->data + s->batch * lse->batch_stride + head * lse->head_stride +
           s->q_row * lse->row_stride;
}

static attn_attention_task task_of(const attn_problem *problem, const attn_share *share,
                                   const attn_sequence *s) {
  const attn_params *p = &problem->params;
  const int64_t head = share->kv_head * problem->group;
  const int64_t begin = s->kv_begin / ATTN_KEY_CHUNK; /* chunks before it have no keys */
  const bool paged = p->pages.table != NULL;
  const bool interleaved = p->key_layout == ATTN_KEYS_INTERLEAVED;
  attn_attention_task t = {
      .q = input_at(&p->q, s->batch, head, s->q_row),
      .q_head = p->q.head_stride,
      .q_row = p->q.row_stride,
      .q_dim = p->q.dim_stride,
      .k = input_at(&p->k, s->kv_batch, share->kv_head, paged ? 0 : s->kv_row),
      .k_row = interleaved ? p->head_size : p->k.row_stride,
      .k_dim = interleaved ? 1 : p->k.dim_stride,
      .k_interleaved = interleaved,
      .v = input_at(&p->v, s->kv_batch, share->kv_head, paged ? 0 : s->kv_row),
      .v_row = p->v.row_stride,
      .v_dim = p->v.dim_stride,
      .table = paged ? p->pages.table + share->n * p->pages.table_stride : NULL,
      .table_width = p->pages.table_width,
      .page_size = p->pages.page_size,
      .slot = s->kv_row,
      .k_page = p->k.batch_stride,
      .v_page = p->v.batch_stride,
      .head_size = p->head_size,
      .value_size = p->value_size,
      .group = problem->group,
      .lane = share->lane,
      .lanes = share->lanes,
      .kv_begin = s->kv_begin,
      .kv_len = s->kv_len,
      .diagonal = s->diagonal,
      .chunk_begin = share->chunk_begin > begin ? share->chunk_begin : begin,
      .chunk_end = share->chunk_end,
      .streaming = problem->kv_bytes > STREAM_BYTES,
      .scale = p->scale,
  };
  set_outputs(p, s, head, &t);
  return t;
}

/* What the runner of task i probably runs after it, so that it can be read ahead; nothing after less than a tile, which
 * would end before it helps. */
static bool next_task(const attn_plan *plan, int64_t i, const attn_share *share,
                      attn_attention_task *next) {
  i += plan->problem.params.num_threads;
  if (i >= plan->schedule.tasks || share->lanes < plan->problem.kernels->lanes) return false;
  const attn_share then = attn_schedule_share(&plan->schedule, &plan->problem, i);
  const attn_sequence sequence = attn_problem_sequence(&plan->problem, then.n);
  *next = task_of(&plan->problem, &then, &sequence);
  return true;
}

static void run_task(attn_plan *plan, int64_t i, void *workspace) {
  const attn_kernels *kernels = plan->problem.kernels;
  const attn_share share = attn_schedule_share(&plan->schedule, &plan->problem, i);
  const attn_sequence sequence = attn_problem_sequence(&plan->problem, share.n);
  const attn_dropout_lanes lanes = {&plan->problem, &sequence, share.n, share.kv_head};
  attn_attention_task task = task_of(&plan->problem, &share, &sequence);
  if (plan->problem.dropout) {
    task.dropout = attn_dropout_keep;
    task.dropout_user = &lanes;
    task.dropout_scale = attn_dropout_scale(plan->problem.params.dropout.rate);
  }
  attn_attention_task next;
  if (next_task(plan, i, &share, &next)) task.next = &next;
  const attn_cut *c = share.cut;
  if (c->pieces == 1) {
    kernels->attention(kernels, &task, workspace);
    return;
  }
  float *states = plan->states + share.state * lane_floats(plan);
  const int64_t stride = c->lanes_per_task * lane_floats(plan);
  task.state = states + (share.piece - c->piece_begin) * stride;
  kernels->attention(kernels, &task, workspace);
  if (atomic_fetch_sub(&plan->pending[share.row], 1) > 1) return;
  /* The last piece of this row: the order of the tree, not of arrival, decides the bits. */
  atomic_store(&plan->pending[share.row], (int)c->pieces);
  kernels->combine(&task, states, c->piece_begin, c->pieces, (size_t)stride, workspace);
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

/* Behind the cuts. */
static size_t forward_bytes(const attn_plan *plan) {
  return (size_t)plan->problem.params.num_threads * plan->runner_bytes + shared_bytes(plan);
}

/* Memory for the cuts of a ragged batch; NULL for others, which need none. */
static attn_status acquire_cuts(attn_context *context, const attn_problem *problem, void **cuts) {
  const size_t bytes = cuts_bytes(problem);
  *cuts = bytes ? attn_scratch_acquire(context, bytes) : NULL;
  if (*cuts || !bytes) return ATTN_OK;
  return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a schedule of %zu bytes", bytes);
}

/* What a call of `threads` needs wherever it is made. */
static attn_status workspace_bytes(const attn_problem *problem, const attn_kernels *kernels,
                                   int32_t threads, size_t *bytes) {
  attn_plan plan = {.problem = *problem};
  void *cuts;
  const attn_status status = acquire_cuts(NULL, problem, &cuts);
  if (status) return status;
  /* Whether the call will use one thread or all is not known here, and one thread's larger tasks
   * may need more. */
  plan_init(&plan, kernels, threads, cuts);
  const size_t team = forward_bytes(&plan);
  plan_init(&plan, kernels, 1, cuts);
  /* The memory may start anywhere. */
  *bytes = cuts_bytes(problem) + larger(team, forward_bytes(&plan)) + ATTN_ALIGNMENT;
  attn_scratch_release(NULL, cuts);
  return ATTN_OK;
}

attn_status attn_workspace_size(const attn_params *params, size_t *bytes) {
  attn_problem problem;
  const attn_kernels *kernels;
  if (!bytes) return attn_fail(ATTN_INVALID_ARGUMENT, "bytes is NULL; it must point to a size");
  attn_status status = attn_kernels_current(&kernels);
  if (!status) status = attn_problem_shape(params, "lengths.", &problem);
  return status ? status : workspace_bytes(&problem, kernels, problem.params.num_threads, bytes);
}

static attn_status forward_run(attn_plan *plan, char *memory) {
  const attn_params *p = &plan->problem.params;
  plan_share_memory(plan, memory);
  forward f = {plan, memory + shared_bytes(plan)};
  return attn_run_tasks(p->num_threads, plan->schedule.tasks, forward_task, &f, p->cancel,
                        p->cancel_user);
}

/* What is asked for is what attn_workspace_size() says, though this call might do with less. */
static attn_status refuse_workspace(const attn_problem *problem, const attn_kernels *kernels,
                                    int32_t threads) {
  const attn_params *p = &problem->params;
  size_t bytes;
  const attn_status status = workspace_bytes(problem, kernels, threads, &bytes);
  if (status) return status;
  return attn_fail_memory("workspace", p->workspace, p->workspace_size, bytes, "bytes",
                          "attn_workspace_size");
}

/* In the caller's workspace. */
static attn_status forward_inside(attn_plan *plan, const attn_kernels *kernels, int32_t threads) {
  const attn_params *p = &plan->problem.params;
  char *memory = (char *)attn_align((size_t)(uintptr_t)p->workspace);
  const size_t cuts = cuts_bytes(&plan->problem);
  const int32_t most = p->num_threads; /* what was asked for; the plan keeps what is used */
  bool fits = p->workspace_size >= cuts + ATTN_ALIGNMENT;
  if (fits) {
    plan_init(plan, kernels, threads, memory);
    fits = p->workspace_size >= cuts + forward_bytes(plan) + ATTN_ALIGNMENT;
  }
  return fits ? forward_run(plan, memory + cuts) : refuse_workspace(&plan->problem, kernels, most);
}

static attn_status forward_scratch(attn_context *context, attn_plan *plan,
                                   const attn_kernels *kernels, int32_t threads) {
  void *cuts;
  attn_status status = acquire_cuts(context, &plan->problem, &cuts);
  if (status) return status;
  plan_init(plan, kernels, threads, cuts);
  const size_t need = forward_bytes(plan);
  char *memory = attn_scratch_acquire(context, need);
  status = memory ? forward_run(plan, memory)
                  : attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", need);
  attn_scratch_release(context, memory);
  attn_scratch_release(context, cuts);
  return status;
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
  const int32_t threads = attn_threads_for(plan.problem.cost, p->num_threads);
  if (p->workspace) return forward_inside(&plan, kernels, threads);
  return forward_scratch(context, &plan, kernels, threads);
}

/* ---- the caller's threads ---- */

attn_status attn_plan_create(const attn_params *params, attn_plan **plan) {
  if (!plan) return attn_fail(ATTN_INVALID_ARGUMENT, "plan is NULL; it must point to a handle");
  attn_problem problem;
  const attn_kernels *kernels;
  attn_status status = attn_kernels_current(&kernels);
  if (!status) status = attn_problem_init(params, &problem);
  if (status) return status;
  const size_t cuts = cuts_bytes(&problem);
  attn_plan *made = malloc(sizeof(*made));
  void *room = cuts ? attn_allocate(cuts) : NULL;
  if (!made || (cuts && !room)) {
    free(made);
    attn_release(room, cuts);
    return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a plan");
  }
  made->problem = problem;
  plan_init(made, kernels, problem.params.num_threads, room);
  const size_t shared = shared_bytes(made);
  void *memory = NULL;
  if (shared > 0 && !(memory = attn_allocate(shared))) {
    attn_release(room, cuts);
    free(made);
    return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for the %zu bytes of a plan's states", shared);
  }
  plan_share_memory(made, memory);
  *plan = made;
  return ATTN_OK;
}

void attn_plan_destroy(attn_plan *plan) {
  if (!plan) return;
  attn_release(plan->schedule.cuts, cuts_bytes(&plan->problem));
  attn_release(plan->states, shared_bytes(plan));
  free(plan);
}

int64_t attn_plan_task_count(const attn_plan *plan) { return plan ? plan->schedule.tasks : 0; }

double attn_plan_task_cost(const attn_plan *plan, int64_t i) {
  if (!plan || i < 0 || i >= plan->schedule.tasks) return 0.0;
  const attn_fpmode mode = attn_fpmode_enter();
  const double cost = attn_schedule_cost(&plan->schedule, &plan->problem, i);
  attn_fpmode_leave(mode);
  return cost;
}

size_t attn_plan_workspace_size(const attn_plan *plan) {
  return plan ? plan->runner_bytes + ATTN_ALIGNMENT : 0;
}

attn_status attn_plan_run_task(attn_plan *plan, int64_t i, void *workspace, size_t workspace_size) {
  if (!plan) return attn_fail(ATTN_INVALID_ARGUMENT, "plan is NULL; it must be a plan's handle");
  if (plan->schedule.tasks == 0) {
    return attn_fail(ATTN_INVALID_ARGUMENT, "task i is %" PRId64 "; this plan has no tasks", i);
  }
  const attn_status status =
      attn_check_range("task i", i, 0, plan->schedule.tasks - 1, "attn_plan_task_count() - 1");
  if (status) return status;
  const size_t needed = attn_plan_workspace_size(plan);
  if (!workspace || workspace_size < needed) {
    return attn_fail_memory("workspace", workspace, workspace_size, needed, "bytes",
                            "attn_plan_workspace_size");
  }
  const attn_fpmode mode = attn_fpmode_enter();
  run_task(plan, i, (void *)attn_align((size_t)(uintptr_t)workspace));
  attn_fpmode_leave(mode);
  return ATTN_OK;
}
