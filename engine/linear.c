/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "linear.h"

#include "memory.h"
#include "status.h"
#include "threads.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static float *alloc_zero(size_t floats) {
  if (floats > SIZE_MAX / sizeof(float)) return NULL;
  float *p = attn_allocate(floats * sizeof(float));
  if (p) memset(p, 0, floats * sizeof(float));
  return p;
}

static size_t padded_columns(const attn_linear *l) {
  return (size_t)(divide_up(l->columns, l->kernels->panel) * l->kernels->panel);
}

attn_status attn_linear_init(attn_linear *l, const attn_kernels *kernels, int64_t depth,
                             int64_t columns) {
  *l = (attn_linear){.kernels = kernels, .depth = depth, .columns = columns};
  l->w = alloc_zero((size_t)depth * padded_columns(l));
  if (l->w) return ATTN_OK;
  return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for weights of %" PRId64 " x %" PRId64, depth,
                   columns);
}

void attn_linear_free(attn_linear *l) {
  if (!l->w) return; /* never initialised */
  const size_t columns = padded_columns(l);
  attn_release(l->w, (size_t)l->depth * columns * sizeof(float));
  attn_release(l->bias, columns * sizeof(float));
}

attn_status attn_linear_pack(attn_linear *l, const attn_weight *weight, int64_t first,
                             int64_t count) {
  const int64_t panel = l->kernels->panel;
  for (int64_t column = 0; column < count; column++) {
    const int64_t n = first + column;
    float *to = l->w + n / panel * panel * l->depth + n % panel;
    const float *from = (const float *)weight->kernel + column * weight->out_stride;
    for (int64_t k = 0; k < l->depth; k++) to[k * panel] = from[k * weight->in_stride];
  }
  if (!weight->bias) return ATTN_OK;
  if (!l->bias && !(l->bias = alloc_zero(padded_columns(l)))) {
    return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a bias of %" PRId64, l->columns);
  }
  memcpy(l->bias + first, weight->bias, (size_t)count * sizeof(float));
  return ATTN_OK;
}

/* ---- running ---- */

/* A task's rows share each panel of W, which may come from memory; their run of X, 128 rows of 256
 * features, stays in a second cache level of 512 KiB (64 to 128 rows beat 256 by 1 to 4 %, 512 by more than 15 %). */
enum { ROWS_PER_TASK = 128, PANELS_PER_TASK = 8, TASKS_PER_RUNNER = 4 };

typedef struct linear_run {
  const attn_linear *linear;
  const float *x;
  float *y;
  int64_t x_row, y_row, rows;
  int64_t rows_per_task, panels_per_task, column_tasks;
  char *workspaces;
  size_t runner_bytes;
} linear_run;

static void run_task(void *user, int64_t i, int32_t runner) {
  const linear_run *r = user;
  const attn_linear *l = r->linear;
  const int64_t row = i / r->column_tasks * r->rows_per_task;
  const int64_t column = i % r->column_tasks * r->panels_per_task * l->kernels->panel;
  const int64_t rows = r->rows - row, columns = l->columns - column;
  const int64_t most = r->panels_per_task * l->kernels->panel;
  const attn_linear_task task = {
      .x = r->x + row * r->x_row,
      .x_row = r->x_row,
      .rows = rows < r->rows_per_task ? rows : r->rows_per_task,
      .w = l->w + column * l->depth,
      .bias = l->bias ? l->bias + column : NULL,
      .depth = l->depth,
      .columns = columns < most ? columns : most,
      .y = r->y + row * r->y_row + column,
      .y_row = r->y_row,
  };
  l->kernels->linear(&task, r->workspaces + (size_t)runner * r->runner_bytes);
}

static int64_t rows_per_task(int64_t rows) {
  return divide_up(rows, divide_up(rows, ROWS_PER_TASK)); /* evenly */
}

static size_t runner_bytes(const attn_linear *l, int64_t rows) {
  return attn_align(l->kernels->linear_workspace(rows_per_task(rows)));
}

size_t attn_linear_workspace(const attn_linear *l, int64_t rows, int32_t threads) {
  return (size_t)threads * runner_bytes(l, rows);
}

attn_status attn_linear_run(const attn_linear *l, const float *x, int64_t x_row, int64_t rows,
                            float *y, int64_t y_row, int32_t threads, void *workspace,
                            attn_cancel_fn cancel, void *cancel_user) {
  linear_run r = {.linear = l,
                  .x = x,
                  .y = y,
                  .x_row = x_row,
                  .y_row = y_row,
                  .rows = rows,
                  .rows_per_task = rows_per_task(rows),
                  .panels_per_task = PANELS_PER_TASK,
                  .workspaces = workspace,
                  .runner_bytes = runner_bytes(l, rows)};
  const int64_t panels = divide_up(l->columns, l->kernels->panel);
  const int64_t row_tasks = divide_up(rows, r.rows_per_task);
  threads = attn_threads_for((double)rows * (double)l->depth * (double)l->columns, threads);
  while (threads > 1 && r.panels_per_task > 1 &&
         row_tasks * divide_up(panels, r.panels_per_task) < (int64_t)TASKS_PER_RUNNER * threads) {
    r.panels_per_task /= 2;
  }
  r.column_tasks = divide_up(panels, r.panels_per_task);
  return attn_run_tasks(threads, row_tasks * r.column_tasks, run_task, &r, cancel, cancel_user);
}
