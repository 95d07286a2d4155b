/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The library leaves the process as it found it, and works from many threads, inside parallel
 * regions and in forked children. Memory and thread counts are in test_resources.c. */

#include "exact.h"
#include "random.h"
#include <attn/layer.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t seed = 9001;

/* ---- floating-point mode ---- */

#if defined(__x86_64__)
#include <xmmintrin.h>
/* Without the six flags that any inexact operation may raise. */
static uint64_t get_mode(void) { return _mm_getcsr() & 0xffc0; }
static void set_mode(uint64_t mode) { _mm_setcsr((unsigned)mode); }
/* Flush and denormals-are-zero; rounding down, up, to zero; invalid operations and overflow trap. */
static const uint64_t modes[] = {0x1f80, 0x9fc0, 0x3f80, 0x5f80, 0x7f80, 0x1b00, 0xffc0};
#else
static uint64_t get_mode(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
static void set_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
static const uint64_t modes[] = {0, 1 << 24, 1 << 22, 2 << 22, 3 << 22, (1 << 24) | (3 << 22)};
#endif
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

/* Subnormal values and results, scores that round, an Inf and a NaN. */
static problem delicate(void) {
  problem p = problem_random((shape){1, 2, 1, 200, 200, 64, 8}, seed);
  for (size_t i = 0; i < p.v_count; i += 2) p.v[i] *= 1e-39f;
  p.v[p.v_count - 1] = INFINITY;
  p.v[p.v_count - 2] = NAN;
  p.q[3] = 1e-40f;
  return p;
}

static void floating_point_mode(void) {
  problem p = delicate();
  bits want = bits_of(&p, 1);
  size_t subnormal = 0;
  for (size_t i = 0; i < p.o_count; i++) subnormal += fpclassify(p.o[i]) == FP_SUBNORMAL;
  CHECK(subnormal > 100);
  attn_layer_config c = ATTN_LAYER_CONFIG_INIT;
  c.d_model = 24;
  c.num_heads = 3;
  attn_layer *first = NULL;
  CHECK_OK(attn_layer_create_init(&c, seed, &first));
  float x[40 * 24], y_want[40 * 24], y[40 * 24];
  sm_fill(x, 40 * 24, seed, 1e-38);
  attn_layer_params lp = ATTN_LAYER_PARAMS_INIT;
  lp.len = 40;
  lp.x = x;
  lp.y = y_want;
  CHECK_OK(attn_layer_forward(NULL, first, &lp));
  lp.y = y;
  size_t size = 0;
  CHECK_OK(attn_workspace_size(&p.params, &size));
  void *workspace = check_alloc(size);
  const uint64_t usual = get_mode();
  for (int n = 0; n < MODES; n++) {
    canary_fill(p.o, p.o_count);
    canary_fill(p.lse, p.lse_count);
    canary_fill(y, 40 * 24);
    attn_layer *layer = NULL;
    attn_plan *plan = NULL;
    attn_status status[5] = {ATTN_OK};
    set_mode(modes[n]);
    const uint64_t set = get_mode(); /* some bits may not exist */
    p.params.num_threads = 1 + n % 3;
    status[0] = attn_forward(NULL, &p.params);
    const uint64_t after_forward = get_mode();
    status[1] = attn_layer_create_init(&c, seed, &layer);
    const uint64_t after_create = get_mode();
    status[2] = attn_layer_forward(NULL, layer, &lp);
    const uint64_t after_layer = get_mode();
    set_mode(usual);
    check_context("floating-point mode %llx", (unsigned long long)set);
    for (int i = 0; i < 3; i++) CHECK_OK(status[i]);
    CHECK_INT(after_forward, set);
    CHECK_INT(after_create, set);
    CHECK_INT(after_layer, set);
    CHECK_SAME(&p, &want);
    CHECK_BITS(y, y_want, 40 * 24);
    canary_fill(p.o, p.o_count);
    set_mode(modes[n]);
    status[3] = attn_plan_create(&p.params, &plan);
    for (int64_t i = 0; i < attn_plan_task_count(plan); i++)
      status[4] = attn_plan_run_task(plan, i, workspace, size);
    const uint64_t after_plan = get_mode();
    set_mode(usual);
    CHECK_OK(status[3]);
    CHECK_OK(status[4]);
    CHECK_INT(after_plan, set);
    CHECK_SAME(&p, &want);
    attn_plan_destroy(plan);
    attn_layer_destroy(layer);
  }
  free(workspace);
  attn_layer_destroy(first);
  bits_free(&want);
  problem_free(&p);
}

/* ---- OpenMP ---- */

static void openmp_settings(void) {
  check_context("OpenMP settings");
  omp_set_dynamic(1);
  for (int n = 0; n < 2; n++) {
    if (n == 1) omp_set_dynamic(0), omp_set_num_threads(5);
    const int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
    const int levels = omp_get_max_active_levels();
    problem p = problem_random((shape){1, 4, 4, 100, 100, 32, 32}, seed);
    bits want = bits_of(&p, 1);
    CHECK_INT(omp_get_max_threads(), threads);
    problem_run_threads(&p, 3);
    CHECK_SAME(&p, &want);
    p.params.has_num_threads = false;
    problem_run(&p);
    CHECK_INT(omp_get_max_threads(), threads);
    CHECK_INT(omp_get_dynamic(), dynamic);
    CHECK_INT(omp_get_max_active_levels(), levels);
    bits_free(&want);
    problem_free(&p);
  }
}

static void nested(void) {
  enum { TEAM = 3 };
  problem p[TEAM];
  bits want[TEAM];
  for (int n = 0; n < TEAM; n++) {
    p[n] = problem_random((shape){1, 2, 2, 90 + n, 700, 16, 16}, seed + (uint64_t)n);
    want[n] = bits_of(&p[n], 1);
    p[n].params.num_threads = 4;
    canary_fill(p[n].o, p[n].o_count);
  }
  attn_status status[TEAM];
#pragma omp parallel num_threads(TEAM)
  {
#pragma omp for
    for (int n = 0; n < TEAM; n++) status[n] = attn_forward(NULL, &p[n].params);
  }
  check_context("called from within a parallel region");
  for (int n = 0; n < TEAM; n++) {
    CHECK_OK(status[n]);
    CHECK_SAME(&p[n], &want[n]);
    bits_free(&want[n]);
    problem_free(&p[n]);
  }
}

/* ---- many callers ---- */

enum { CALLERS = 8, CALLS = 50 };

typedef struct caller {
  pthread_t thread;
  attn_context *context;
  const attn_layer *layer;
  problem p;
  bits want;
  float x[30 * 48], y[30 * 48], y_want[30 * 48];
  int wrong;
} caller;

static void *call(void *user) {
  caller *c = user;
  attn_layer_params lp = ATTN_LAYER_PARAMS_INIT;
  lp.len = 30;
  lp.x = c->x;
  lp.y = c->y;
  lp.has_num_threads = true;
  for (int i = 0; i < CALLS; i++) {
    c->p.params.num_threads = lp.num_threads = 1 + i % 3;
    canary_fill(c->p.o, c->p.o_count);
    memset(c->y, 0, sizeof(c->y));
    c->wrong += attn_forward(c->context, &c->p.params) != ATTN_OK;
    c->wrong += memcmp(c->p.o, c->want.o, c->p.o_count * sizeof(float)) != 0;
    c->wrong += attn_layer_forward(c->context, c->layer, &lp) != ATTN_OK;
    c->wrong += memcmp(c->y, c->y_want, sizeof(c->y)) != 0;
    attn_params bad = c->p.params;
    bad.head_size = 2000 + i;
    c->wrong += attn_forward(c->context, &bad) != ATTN_INVALID_ARGUMENT;
    char number[16];
    snprintf(number, sizeof(number), "%d", 2000 + i);
    c->wrong += strstr(attn_last_error(), number) == NULL;
  }
  return NULL;
}

static void many_callers(void) {
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  config.d_model = 48;
  config.num_heads = 4;
  attn_layer *layer = NULL;
  attn_context *context = NULL;
  CHECK_OK(attn_layer_create_init(&config, 1, &layer));
  CHECK_OK(attn_context_create(&context));
  caller *callers = check_alloc(CALLERS * sizeof(*callers));
  for (int n = 0; n < CALLERS; n++) {
    caller *c = &callers[n];
    *c = (caller){.context = n % 2 ? context : NULL, .layer = layer};
    c->p = problem_random((shape){1, 2, 1, 40 + n, 300 * (n % 3) + 40 + n, 64, 64},
                          seed + 10 * (uint64_t)n);
    c->want = bits_of(&c->p, 1);
    sm_fill(c->x, 30 * 48, (uint64_t)n, 1);
    attn_layer_params lp = ATTN_LAYER_PARAMS_INIT;
    lp.len = 30;
    lp.x = c->x;
    lp.y = c->y_want;
    CHECK_OK(attn_layer_forward(NULL, layer, &lp));
  }
  for (int n = 0; n < CALLERS; n++)
    CHECK(pthread_create(&callers[n].thread, NULL, call, &callers[n]) == 0);
  for (int n = 0; n < CALLERS; n++) {
    CHECK(pthread_join(callers[n].thread, NULL) == 0);
    check_context("caller %d of %d", n, CALLERS);
    CHECK_INT(callers[n].wrong, 0);
    bits_free(&callers[n].want);
    problem_free(&callers[n].p);
  }
  free(callers);
  attn_context_destroy(context);
  attn_layer_destroy(layer);
}

/* ---- cancelling ---- */

static atomic_int asked;
static int cancel_after;

/* Runs on any thread: counts by what it is given, and checks nothing itself. */
static bool cancel(void *user) {
  atomic_int *count = user;
  return atomic_fetch_add(count, 1) >= cancel_after;
}

static void cancelling(void) {
  problem p = problem_random((shape){2, 4, 4, 200, 200, 16, 16}, seed);
  bits want = bits_of(&p, 1);
  p.params.cancel = cancel;
  p.params.cancel_user = &asked;
  for (int32_t threads = 1; threads <= 3; threads++) {
    check_context("cancelling with %d threads", threads);
    p.params.num_threads = threads;
    for (cancel_after = 0; cancel_after < 3; cancel_after++) {
      atomic_store(&asked, 0);
      CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_CANCELLED);
      CHECK(strstr(attn_last_error(), "cancel") != NULL);
      CHECK(atomic_load(&asked) <= cancel_after + threads);
    }
    cancel_after = 1 << 30;
    atomic_store(&asked, 0);
    problem_run(&p);
    CHECK_SAME(&p, &want);
    CHECK(atomic_load(&asked) > 1);
  }
  bits_free(&want);
  problem_free(&p);
}

/* ---- fork ---- */

static void forked(void) {
  problem p = problem_random((shape){1, 8, 8, 256, 256, 32, 32}, seed);
  bits want = bits_of(&p, 4);
  check_context("child after fork");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60); /* a hang ends the child */
    canary_fill(p.o, p.o_count);
    bool good = attn_forward(NULL, &p.params) == ATTN_OK;
    good = good && memcmp(p.o, want.o, p.o_count * sizeof(float)) == 0;
    p.params.has_num_threads = false;
    canary_fill(p.o, p.o_count);
    good = good && attn_forward(NULL, &p.params) == ATTN_OK;
    good = good && memcmp(p.o, want.o, p.o_count * sizeof(float)) == 0;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK_INT(status, 0);
  problem_run_threads(&p, 4); /* and the parent goes on */
  CHECK_SAME(&p, &want);
  bits_free(&want);
  problem_free(&p);
}

/* ---- neighbours ---- */

/* Rows of outputs side by side, stored by many threads, over and over. The work is too small for
 * attn_forward() to use them, so the tasks of a plan are run here. */
static void neighbours(void) {
  enum { THREADS = 8, GAP = 3, O = 7 * 5, LSE = 7, ROOM = GAP + O + GAP + LSE + GAP };
  problem p = problem_new((shape){1, 7, 7, 1, 13, 9, 5});
  problem_fill(&p, 138, 1);
  bits want = bits_of(&p, 1);
  problem_check(&p);
  float room[ROOM], *o = room + GAP, *lse = o + O + GAP;
  p.params.num_threads = THREADS;
  p.params.o.data = o;
  p.params.lse.data = lse;
  attn_plan *plan = NULL;
  CHECK_OK(attn_plan_create(&p.params, &plan));
  const size_t size = attn_plan_workspace_size(plan);
  const int64_t tasks = attn_plan_task_count(plan);
  char *workspaces = check_alloc(THREADS * size);
  check_context("adjacent rows, %lld tasks by %d threads", (long long)tasks, THREADS);
  CHECK(tasks >= 7);
  for (int i = 0; i < (check_brief() ? 50 : 500); i++) {
    int refused = 0;
    canary_fill(room, ROOM);
#pragma omp parallel for num_threads(THREADS) schedule(dynamic, 1) reduction(+ : refused)
    for (int64_t n = 0; n < tasks; n++)
      refused += attn_plan_run_task(plan, n, workspaces + (size_t)omp_get_thread_num() * size,
                                    size) != ATTN_OK;
    CHECK_INT(refused, 0);
    CHECK_BITS(o, want.o, O);
    CHECK_BITS(lse, want.lse, LSE);
    CHECK(canary_intact(room, GAP) && canary_intact(o + O, GAP) && canary_intact(lse + LSE, GAP));
  }
  free(workspaces);
  attn_plan_destroy(plan);
  bits_free(&want);
  problem_free(&p);
}

/* A callback runs in the caller's mode, and what it does to that changes no bit. */
static uint64_t mode_in_callback;
static bool meddle(void *user) {
  mode_in_callback = get_mode();
  set_mode(*(const uint64_t *)user);
  return false;
}

static void callback_mode(void) {
  problem p = problem_new((shape){1, 2, 2, 300, 300, 33, 31});
  problem_fill(&p, seed, 1);
  const bits want = bits_of(&p, 1);
  const uint64_t before = get_mode();
  uint64_t other = modes[2];
  p.params.cancel = meddle;
  p.params.cancel_user = &other;
  p.params.has_num_threads = true;
  p.params.num_threads = 1;
  check_context("a callback that sets the floating-point mode");
  CHECK_OK(attn_forward(NULL, &p.params));
  CHECK_BITS(p.o, want.o, p.o_count);
  CHECK(mode_in_callback == before || mode_in_callback == other);
  set_mode(before);
  bits_free((bits *)&want);
  problem_free(&p);
}

/* Checking arguments raises nothing, not even where the caller traps on it. */
static void trapping_caller(void) {
#if defined(__x86_64__)
  problem p = problem_new((shape){1, 1, 1, 4, 4, 8, 8});
  problem_fill(&p, seed, 1);
  const uint64_t before = get_mode();
  check_context("a caller that traps on every floating-point exception");
  set_mode(before & ~UINT64_C(0x1f80));
  const attn_status fine = attn_forward(NULL, &p.params);
  p.params.has_scale = true;
  p.params.scale = __builtin_nanf("");
  const attn_status scale = attn_forward(NULL, &p.params);
  p.params.scale = 1;
  p.params.dropout.rate = __builtin_nan("");
  const attn_status rate = attn_forward(NULL, &p.params);
  set_mode(before);
  CHECK_OK(fine);
  CHECK(scale == ATTN_INVALID_ARGUMENT && rate == ATTN_INVALID_ARGUMENT);
  problem_free(&p);
#endif
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  floating_point_mode();
  callback_mode();
  trapping_caller();
  openmp_settings();
  nested();
  many_callers();
  cancelling();
  neighbours();
  forked();
  return check_done();
}
