/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* `attn run`: load, run and time, write, compare, report. */
#include "job.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- progress ------------------------------------------------------------------------------- */

/* A line on the terminal for whoever waits longer than this many seconds. */
#define PATIENCE 2.0
#define UPDATE_EVERY 0.5

typedef struct progress {
  double begin;
  int64_t run, runs;
  _Atomic int64_t shown; /* updates so far */
} progress;

/* A cancellation callback that never cancels: the library asks it between tasks, from any thread. */
static bool show_progress(void *user) {
  progress *p = user;
  double waited = now() - p->begin;
  if (waited < PATIENCE) return false;
  int64_t due = (int64_t)((waited - PATIENCE) / UPDATE_EVERY) + 1, shown = p->shown;
  if (due > shown && atomic_compare_exchange_strong(&p->shown, &shown, due))
    fprintf(stderr, "\rattn: run %lld of %lld, %.0f s ", (long long)p->run, (long long)p->runs,
            waited);
  return false;
}

static void end_progress(const progress *p) {
  if (p->shown > 0) fprintf(stderr, "\r%60s\r", "");
}

/* ---- running -------------------------------------------------------------------------------- */

static int compare_double(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static attn_status run_once(job *j) {
  return j->layer != NULL ? attn_layer_forward(NULL, j->layer, &j->layer_params)
                          : attn_forward(NULL, &j->params);
}

static int run_timed(job *j, int64_t runs, timing *t) {
  double *seconds = malloc((size_t)runs * sizeof(double));
  if (seconds == NULL)
    return fail(EXIT_BAD_DATA, "out of memory for the times of %lld runs", (long long)runs);
  progress p = {.begin = now(), .runs = runs};
  if (isatty(STDERR_FILENO)) {
    j->params.cancel = j->layer_params.cancel = show_progress;
    j->params.cancel_user = j->layer_params.cancel_user = &p;
  }
  attn_status status = ATTN_OK;
  for (int64_t i = 0; status == ATTN_OK && i < runs; i++) {
    p.run = i + 1;
    double begin = now();
    status = run_once(j);
    seconds[i] = fmax(now() - begin, 1e-9); /* a clock may tick slower than an empty run */
  }
  end_progress(&p);
  j->params.cancel_user = j->layer_params.cancel_user = NULL;
  j->params.cancel = j->layer_params.cancel = NULL;
  if (status == ATTN_OK) {
    qsort(seconds, (size_t)runs, sizeof(*seconds), compare_double);
    *t = (timing){runs, seconds[0], (seconds[(runs - 1) / 2] + seconds[runs / 2]) / 2};
  }
  free(seconds);
  return status == ATTN_OK ? 0 : fail_data(status, j->path);
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int refuse_overwriting(const options *o, const char *input) {
  if (o->output == NULL || input == NULL || !same_file(o->output, input)) return 0;
  return fail(EXIT_BAD_USAGE, "--output %s is the input file %s; name another", o->output, input);
}

static int write_results(const job *j, const options *o) {
  if (o->output == NULL) return 0;
  attn_status status = attn_file_write(o->output, j->results, j->result_count, NULL, 0);
  return status == ATTN_OK ? 0 : fail_data(status, NULL);
}

/* ---- the command ---------------------------------------------------------------------------- */

static int open_job(job *j, const options *o) {
  const char *inputs[] = {o->case_path, o->weights, o->input};
  for (int i = 0; i < 3; i++) {
    int code = refuse_overwriting(o, inputs[i]);
    if (code != 0) return code;
  }
  int code = o->case_path != NULL ? job_open_case(j, o) : job_open_weights(j, o);
  return code == 0 ? refuse_overwriting(o, j->params_path) : code;
}

static int judge(const job *j) {
  int code = 0;
  for (int i = 0; i < j->check_count; i++) {
    const check *c = &j->checks[i];
    if (c->ok) continue;
    code = fail(EXIT_BAD_DATA, "%s: row %lld of %s is %.4g tolerance units from %s; allowed are %g",
                j->path, (long long)c->worst_row, c->result, c->worst, c->name, c->allowed);
  }
  return code;
}

int command_run(const options *o) {
  job j = {.path = ""};
  timing t = {0};
  int code = options_select(o);
  if (code == 0) code = open_job(&j, o);
  if (code == 0) code = run_timed(&j, o->repeat, &t);
  if (code == 0) code = write_results(&j, o);
  if (code == 0) {
    for (int i = 0; i < j.check_count; i++) verify(&j.checks[i]);
    code = report(&j, o, &t);
    if (code == 0) code = judge(&j);
  }
  job_close(&j);
  return code;
}
