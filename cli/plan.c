/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* `attn plan`: the schedule is a pure function of the problem, so how evenly it would load machines that
 * are not at hand can be told without them. Each next task goes to the runner that is free first, as
 * in a real run; the time of the last to end is held against the least that any assignment of these
 * tasks could take. */
#include "cli.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNNERS = 1024, MAX_TASKS = 1 << 20, MAX_SEQUENCES = 1 << 20 };

typedef struct outcome {
  int32_t threads;
  int64_t tasks;
  double makespan, bound, speedup; /* makespan and bound in multiply-adds */
} outcome;

/* Ends when the last runner does. Costs are in the order in which tasks are handed out. */
static double makespan_of(const double *costs, int64_t tasks, int32_t threads) {
  double busy[MAX_RUNNERS] = {0}, last = 0;
  for (int64_t i = 0; i < tasks; i++) {
    int32_t first = 0;
    for (int32_t t = 1; t < threads; t++)
      if (busy[t] < busy[first]) first = t;
    busy[first] += costs[i];
    if (busy[first] > last) last = busy[first];
  }
  return last;
}

static int by_cost(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* No assignment takes less than even shares, nor than a runner that gets k + 1 of the largest
 * k * threads + 1 tasks, as one must, if these are the least of them (k = 0: the largest task). Costs
 * are sorted, and then summed up: sums of whole numbers, so exact to 2^53. */
static double bound_of(double *costs, int64_t tasks, int32_t threads) {
  qsort(costs, (size_t)tasks, sizeof(*costs), by_cost);
  for (int64_t i = 1; i < tasks; i++) costs[i] += costs[i - 1];
  double bound = tasks > 0 ? costs[tasks - 1] / threads : 0;
  for (int64_t k = 0; k * threads < tasks; k++) {
    const int64_t last = k * threads, before = last - k - 1;
    const double least = costs[last] - (before >= 0 ? costs[before] : 0);
    if (least > bound) bound = least;
  }
  return bound;
}

/* ---- unequal sequences ---- */

/* The number that `text` begins with, and what follows it; NULL when there is none, or one out of range. */
static const char *leading_int(const char *text, int64_t least, int64_t *value) {
  char digits[16];
  const size_t length = strspn(text, "0123456789");
  if (length == 0 || length >= sizeof(digits)) return NULL;
  memcpy(digits, text, length);
  digits[length] = '\0';
  return parse_int(digits, least, INT32_MAX, value) ? text + length : NULL;
}

/* An item "Q:K" or "Q:KxN" and what follows it; NULL when it is malformed. */
static const char *leading_item(const char *text, int64_t *q, int64_t *k, int64_t *times) {
  *times = 1;
  text = leading_int(text, 0, q);
  if (text == NULL || *text != ':') return NULL;
  text = leading_int(text + 1, 0, k);
  if (text != NULL && *text == 'x') text = leading_int(text + 1, 1, times);
  if (text == NULL || *text == '\0') return text;
  return *text == ',' && text[1] != '\0' ? text + 1 : NULL;
}

typedef struct lens {
  int32_t *q, *k; /* one array: k behind q */
  int64_t count, most_q, most_k;
} lens;

/* Counts the sequences, and stores their lengths where there is room. */
static int read_lens(const char *text, lens *l) {
  l->count = 0;
  for (const char *item = text; *item != '\0';) {
    int64_t q, k, times;
    const char *next = leading_item(item, &q, &k, &times);
    if (next == NULL)
      return fail(EXIT_BAD_USAGE,
                  "--lens has '%s'; allowed are Q:K and Q:KxN, with commas between them, of "
                  "numbers up to %d, N from 1",
                  item, INT32_MAX);
    if (times > MAX_SEQUENCES - l->count)
      return fail(EXIT_BAD_USAGE, "--lens has more than %d sequences", MAX_SEQUENCES);
    for (int64_t i = 0; i < times && l->q != NULL; i++) {
      l->q[l->count + i] = (int32_t)q;
      l->k[l->count + i] = (int32_t)k;
    }
    l->count += times;
    if (q > l->most_q) l->most_q = q;
    if (k > l->most_k) l->most_k = k;
    item = next;
  }
  return l->count > 0 ? 0 : fail(EXIT_BAD_USAGE, "--lens is empty; it must hold Q:K");
}

static int make_lens(const char *text, lens *l) {
  int code = read_lens(text, l);
  if (code != 0 || l->count <= 0) return code;
  l->q = malloc(2 * (size_t)l->count * sizeof(*l->q));
  if (l->q == NULL)
    return fail(EXIT_BAD_DATA, "out of memory for %lld sequences", (long long)l->count);
  l->k = l->q + l->count;
  return read_lens(text, l);
}

/* ---- the plan ---- */

static attn_params params_of(const options *o, const lens *l) {
  /* A plan does not look at arrays, but wants to be told where they are. */
  static float nowhere;
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = l->q != NULL ? l->count : o->batch;
  p.q_heads = o->heads;
  p.kv_heads = o->has_kv_heads ? o->kv_heads : o->heads;
  p.q_len = l->q != NULL ? l->most_q : o->len;
  p.kv_len = l->q != NULL ? l->most_k : o->has_kv_len ? o->kv_len : o->len;
  p.lengths.q_lens = l->q;
  p.lengths.kv_lens = l->k;
  p.head_size = p.value_size = o->head_size;
  p.q = p.k = p.v = (attn_input){&nowhere, 1, 1, 1, 1};
  p.o = (attn_output){&nowhere, 1, 1, 1, 1};
  p.causal = o->causal;
  return p;
}

static int plan_for(const attn_params *params, int32_t threads, outcome *out) {
  attn_params p = *params;
  p.has_num_threads = true;
  p.num_threads = threads;
  attn_plan *plan;
  attn_status status = attn_plan_create(&p, &plan);
  if (status != ATTN_OK) return fail_options(status);
  if (attn_plan_task_count(plan) > MAX_TASKS) {
    fail(EXIT_BAD_USAGE, "this makes %lld tasks; allowed are %d, or it would take too long",
         (long long)attn_plan_task_count(plan), MAX_TASKS);
    attn_plan_destroy(plan);
    return EXIT_BAD_USAGE;
  }
  const int64_t tasks = attn_plan_task_count(plan);
  double *costs = malloc((size_t)(tasks + 1) * sizeof(*costs)), total = 0;
  if (costs == NULL) {
    attn_plan_destroy(plan);
    return fail(EXIT_BAD_DATA, "out of memory for %lld tasks", (long long)tasks);
  }
  for (int64_t i = 0; i < tasks; i++) total += costs[i] = attn_plan_task_cost(plan, i);
  out->threads = threads;
  out->tasks = tasks;
  out->makespan = makespan_of(costs, tasks, threads);
  out->bound = bound_of(costs, tasks, threads);
  if (out->bound > out->makespan) out->bound = out->makespan; /* rounding */
  out->speedup = out->makespan > 0 ? total / out->makespan : 1.0;
  free(costs);
  attn_plan_destroy(plan);
  return 0;
}

static void print_text(const outcome *o) {
  printf("%7d %8lld %14.3g %14.3g %10.3f %9.1f\n", (int)o->threads, (long long)o->tasks,
         o->makespan, o->bound, o->bound > 0 ? o->makespan / o->bound : 1.0, o->speedup);
}

static json_t *to_json(const outcome *o) {
  return json_pack("{s:i, s:I, s:f, s:f, s:f, s:f}", "threads", (int)o->threads, "tasks",
                   (json_int_t)o->tasks, "makespan", o->makespan, "bound", o->bound, "ratio",
                   o->bound > 0 ? o->makespan / o->bound : 1.0, "speedup", o->speedup);
}

int command_plan(const options *o) {
  lens l = {NULL, NULL, 0, 0, 0};
  int code = options_select(o);
  if (code == 0 && o->lens != NULL) code = make_lens(o->lens, &l);
  const attn_params params = params_of(o, &l);
  json_t *list = o->json && code == 0 ? json_array() : NULL;
  const int32_t least = o->has_threads ? o->threads : 1, most = o->has_threads ? o->threads : 256;
  for (int32_t threads = least; threads <= most && code == 0; threads *= 2) {
    outcome out = {0};
    code = plan_for(&params, threads, &out);
    if (code != 0) break;
    if (!o->json && threads == least)
      printf("threads    tasks       makespan          bound      ratio  speed-up\n");
    if (o->json)
      json_array_append_new(list, to_json(&out));
    else
      print_text(&out);
  }
  if (o->json && code == 0) {
    json_dumpf(list, stdout, JSON_INDENT(2));
    printf("\n");
  }
  json_decref(list);
  free(l.q);
  return code;
}
