/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Every bad argument is refused with its status and one line that names the thing and its value,
 * and the output stays as it was. Zero-sized problems succeed. */

#include "refusal.h"
#include <stdlib.h>

/* `spoil` acts on `a`, the parameters of a sound problem. */
#define BAD(spoil, words)                                                                          \
  do {                                                                                             \
    check_context("%s", #spoil);                                                                   \
    attn_params *a = &p.params, before = *a;                                                       \
    spoil;                                                                                         \
    refuse(&p, ATTN_INVALID_ARGUMENT, words, __LINE__);                                            \
    *a = before;                                                                                   \
  } while (0)

static void extents(void) {
  problem p = sound();
  BAD(a->batch = -1, "batch -1");
  BAD(a->q_heads = 0, "q_heads 0");
  BAD(a->q_heads = -4, "q_heads -4");
  BAD(a->kv_heads = 0, "kv_heads 0");
  BAD(a->kv_heads = -2, "kv_heads -2");
  BAD((a->q_heads = 0, a->kv_heads = 0), "heads 0");
  BAD((a->q_heads = 3, a->kv_heads = 2), "q_heads 3 kv_heads 2");
  BAD((a->q_heads = 33, a->kv_heads = 2), "q_heads 33 kv_heads 2");
  BAD((a->q_heads = 2, a->kv_heads = 3), "q_heads 2 kv_heads 3");
  BAD((a->q_heads = 1, a->kv_heads = 2), "q_heads 1 kv_heads 2");
  BAD(a->q_len = -1, "q_len -1");
  BAD(a->kv_len = -7, "kv_len -7");
  BAD(a->head_size = 0, "head_size 0 1024");
  BAD(a->head_size = -1, "head_size -1");
  BAD(a->head_size = 1025, "head_size 1025 1024");
  BAD(a->value_size = 0, "value_size 0");
  BAD(a->value_size = -1, "value_size -1");
  BAD(a->value_size = 1025, "value_size 1025");
  BAD(a->batch = INT64_C(1) << 31, "batch 2147483648");
  BAD(a->q_len = INT64_C(1) << 31, "q_len 2147483648");
  BAD(a->kv_len = INT64_C(1) << 31, "kv_len 2147483648");
  BAD((a->batch = 1 << 20, a->q_heads = 1 << 10, a->q_len = (1 << 10) + 1), "batch q_heads q_len");
  BAD(a->batch = INT64_MAX, "batch 9223372036854775807");
  BAD(a->batch = INT64_MIN, "batch -9223372036854775808");
  BAD(a->q_heads = INT64_MAX - 1, "q_heads 9223372036854775806");
  BAD(a->q_len = INT64_MAX, "q_len 9223372036854775807");
  BAD(a->kv_len = INT64_MAX, "kv_len 9223372036854775807");
  problem_free(&p);
}

static void options(void) {
  problem p = sound();
  BAD((a->has_scale = true, a->scale = NAN), "scale nan");
  BAD((a->has_scale = true, a->scale = INFINITY), "scale inf");
  BAD((a->has_scale = true, a->scale = -INFINITY), "scale -inf");
  BAD((a->has_scale = true, a->scale = 2e38f), "scale 2e+38");
  BAD((a->has_scale = true, a->scale = -2e38f), "scale -2e+38");
  BAD(a->dropout.rate = -0.5, "rate -0.5");
  BAD(a->dropout.rate = 1.5, "rate 1.5");
  BAD(a->dropout.rate = 1.0000001, "1.0000001");
  BAD(a->dropout.rate = (double)NAN, "rate nan");
  BAD((a->has_num_threads = true, a->num_threads = 0), "num_threads 0");
  BAD((a->has_num_threads = true, a->num_threads = -1), "num_threads -1");
  BAD((a->has_num_threads = true, a->num_threads = 1025), "num_threads 1025 1024");
  BAD(a->struct_size = 0, "struct_size 0");
  BAD(a->struct_size = 3, "struct_size 3");
  BAD(a->reserved = 7, "reserved 7");
  BAD(a->q.data = NULL, "q NULL");
  BAD(a->k.data = NULL, "k NULL");
  BAD(a->v.data = NULL, "v NULL");
  BAD(a->o.data = NULL, "o NULL");
  BAD(a->o.batch_stride = 0, "o batch_stride 0");
  BAD(a->o.head_stride = 0, "o head_stride 0");
  BAD(a->o.row_stride = 0, "o row_stride 0");
  BAD(a->o.dim_stride = 0, "o dim_stride 0");
  BAD(a->lse.batch_stride = 0, "lse batch_stride 0");
  BAD(a->lse.head_stride = 0, "lse head_stride 0");
  BAD(a->lse.row_stride = 0, "lse row_stride 0");
  problem_free(&p);
}

/* Neither too small a workspace nor the others' NULLs. */
static void workspaces_and_handles(void) {
  problem p = sound();
  size_t need = 0;
  p.params.has_num_threads = true; /* of one thread: the size is what is needed, and no more */
  p.params.num_threads = 1;
  CHECK_OK(attn_workspace_size(&p.params, &need));
  CHECK(need > 0);
  char *workspace = check_alloc(need);
  p.params.workspace = workspace;
  p.params.workspace_size = need - 1;
  CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_INVALID_ARGUMENT);
  char text[160];
  const char *format =
      "workspace_size is %zu; it must be at least %zu bytes, as attn_workspace_size() says";
  snprintf(text, sizeof(text), format, need - 1, need);
  check_says(text, __FILE__, __LINE__);
  p.params.workspace_size = 0;
  CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text), format, (size_t)0, need);
  check_says(text, __FILE__, __LINE__);
  check_context("a ragged batch, whose schedule also lies in the workspace");
  const attn_params alike = p.params;
  size_t ragged = 0;
  p.params.lengths.q_lens = (int32_t[]){3, 2};
  p.params.has_num_threads = false;
  CHECK_OK(attn_workspace_size(&p.params, &ragged));
  for (int small = 0; small < 2; small++) {
    p.params.workspace_size = small ? 0 : 65; /* enough for no task */
    CHECK_STATUS(attn_forward(NULL, &p.params), ATTN_INVALID_ARGUMENT);
    snprintf(text, sizeof(text), format, p.params.workspace_size, ragged);
    check_says(text, __FILE__, __LINE__);
  }
  p.params = alike;
  CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
  p.params.workspace_size = need;
  CHECK_OK(attn_forward(NULL, &p.params));
  free(workspace);

  CHECK_STATUS(attn_forward(NULL, NULL), ATTN_INVALID_ARGUMENT);
  check_message("params NULL", __FILE__, __LINE__);
  CHECK_STATUS(attn_workspace_size(&p.params, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_workspace_size(NULL, &need), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_plan_create(&p.params, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_context_create(NULL), ATTN_INVALID_ARGUMENT);
  size_t bytes = 12345;
  attn_params bad = p.params;
  bad.head_size = 1025;
  CHECK_STATUS(attn_workspace_size(&bad, &bytes), ATTN_INVALID_ARGUMENT);
  CHECK_INT(bytes, 12345);
  attn_params huge = p.params;
  huge.batch = huge.q_heads = huge.kv_heads = huge.q_len = huge.kv_len = INT32_MAX;
  CHECK(attn_workspace_size(&huge, &bytes) != ATTN_OK);
  CHECK(one_line(attn_last_error()));
  attn_plan_destroy(NULL);
  attn_plan_reset(NULL);
  attn_context_destroy(NULL);
  attn_context_trim(NULL);
  problem_free(&p);
}

static void plans(void) {
  problem p = sound();
  attn_plan *plan = NULL;
  p.params.workspace = NULL;
  CHECK_OK(attn_plan_create(&p.params, &plan));
  int64_t count = attn_plan_task_count(plan);
  size_t size = attn_plan_workspace_size(plan);
  char *workspace = check_alloc(size);
  const int64_t outside[] = {-1, count, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 4; i++) {
    char number[32];
    snprintf(number, sizeof(number), "%lld", (long long)outside[i]);
    check_context("plan task %s", number);
    CHECK_STATUS(attn_plan_run_task(plan, outside[i], workspace, size), ATTN_INVALID_ARGUMENT);
    check_message(number, __FILE__, __LINE__);
  }
  char text[160];
  CHECK_STATUS(attn_plan_run_task(plan, count, workspace, size), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text), "task i is %lld; allowed: 0 ... %lld, attn_plan_task_count() - 1",
           (long long)count, (long long)count - 1);
  check_says(text, __FILE__, __LINE__);
  CHECK_STATUS(attn_plan_run_task(plan, 0, workspace, size - 1), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text),
           "workspace_size is %zu; it must be at least %zu bytes, as attn_plan_workspace_size() "
           "says",
           size - 1, size);
  check_says(text, __FILE__, __LINE__);
  CHECK_STATUS(attn_plan_run_task(plan, 0, NULL, size), ATTN_INVALID_ARGUMENT);
  snprintf(text, sizeof(text),
           "workspace is NULL; it must point to %zu bytes, as attn_plan_workspace_size() says",
           size);
  check_says(text, __FILE__, __LINE__);
  CHECK_STATUS(attn_plan_run_task(NULL, 0, workspace, size), ATTN_INVALID_ARGUMENT);
  CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
  attn_plan_destroy(plan);
  free(workspace);
  problem_free(&p);
}

/* An older program's struct ends earlier: the rest has its default. A newer one's may be longer. */
static void struct_sizes(void) {
  problem p = sound();
  problem_run(&p);
  float *want = copy_floats(p.o, p.o_count);
  check_context("shorter struct");
  p.params.struct_size = offsetof(attn_params, causal);
  p.params.causal = false; /* not to be read, nor what follows */
  p.params.has_scale = true;
  p.params.scale = NAN;
  p.params.dropout.rate = -1;
  problem_run(&p);
  CHECK_BITS(p.o, want, p.o_count);

  check_context("longer struct");
  struct {
    attn_params params;
    uint64_t tail[4];
  } newer = {.tail = {0}};
  problem q = sound();
  newer.params = q.params;
  newer.params.struct_size = sizeof(newer);
  CHECK_OK(attn_forward(NULL, &newer.params));
  CHECK_BITS(q.o, want, q.o_count);
  canary_fill(q.o, q.o_count);
  newer.tail[3] = UINT64_C(1) << 63;
  CHECK_STATUS(attn_forward(NULL, &newer.params), ATTN_INVALID_ARGUMENT);
  check_message("struct_size", __FILE__, __LINE__);
  CHECK(canary_intact(q.o, q.o_count));
  free(want);
  problem_free(&p);
  problem_free(&q);
}

static void selection(void) {
  const char *isa = attn_isa_name(), *exp = attn_exp_name();
  check_context("attn_select");
  CHECK_STATUS(attn_select("avx1024", NULL), ATTN_INVALID_ARGUMENT);
  check_message("avx1024 generic", __FILE__, __LINE__);
  CHECK_STATUS(attn_select(NULL, "libm"), ATTN_INVALID_ARGUMENT);
  check_message("libm inline sleef", __FILE__, __LINE__);
  CHECK_STATUS(attn_select("generic", "libm"), ATTN_INVALID_ARGUMENT);
  check_context("attn_select with the set of another processor");
  const char *other = attn_isa_tile_sizes("neon", &(attn_tile_sizes){0}) ? "avx2" : "neon";
  CHECK_STATUS(attn_select(other, NULL), ATTN_UNSUPPORTED);
  check_message(other, __FILE__, __LINE__);
  CHECK(strcmp(attn_isa_name(), isa) == 0);
  CHECK(!attn_isa_supported("avx1024") && !attn_isa_supported("") && !attn_isa_supported(NULL));
  CHECK(attn_isa_supported("generic"));
  for (int i = 0; attn_isa_compiled(i); i++) {
    const char *name = attn_isa_compiled(i);
    bool supported = attn_isa_supported(name);
    CHECK_STATUS(attn_select(name, NULL), supported ? ATTN_OK : ATTN_UNSUPPORTED);
    if (!supported)
      check_message(name, __FILE__, __LINE__);
    else
      CHECK(strcmp(attn_isa_name(), name) == 0);
    CHECK_OK(attn_select(isa, exp));
  }
  CHECK(attn_isa_compiled(-1) == NULL && attn_isa_compiled(1000) == NULL);
  CHECK(strcmp(attn_isa_name(), isa) == 0 && strcmp(attn_exp_name(), exp) == 0);
  CHECK(strcmp(attn_status_string(ATTN_OK), "ok") == 0);
  CHECK(strcmp(attn_status_string((attn_status)99), "unknown status") == 0);
}

/* Nothing to do is success; no keys is zeros and -inf. */
static void empty(void) {
  problem p = sound();
  attn_params before = p.params;
  for (int n = 0; n < 4; n++) {
    check_context("zero-sized problem %d", n);
    if (n == 0) p.params.batch = 0;
    if (n == 1) p.params.q_len = 0;
    if (n == 2) p.params.batch = p.params.q_len = p.params.kv_len = 0;
    if (n == 3) p.params.batch = 0, p.params.o.data = NULL, p.params.q.data = NULL;
    CHECK_OK(attn_forward(NULL, &p.params));
    CHECK(canary_intact(p.o, p.o_count) && canary_intact(p.lse, p.lse_count));
    attn_plan *plan = NULL;
    CHECK_OK(attn_plan_create(&p.params, &plan));
    CHECK_INT(attn_plan_task_count(plan), 0);
    CHECK_STATUS(attn_plan_run_task(plan, 0, p.o, 0), ATTN_INVALID_ARGUMENT);
    check_says("task i is 0; this plan has no tasks", __FILE__, __LINE__);
    attn_plan_destroy(plan);
    p.params = before;
  }
  check_context("no keys");
  p.params.kv_len = 0;
  p.params.k.data = p.params.v.data = NULL;
  problem_run(&p);
  for (size_t i = 0; i < p.o_count; i++) CHECK_INT(float_bits(p.o[i]), 0);
  for (size_t i = 0; i < p.lse_count; i++) CHECK(p.lse[i] == -INFINITY);
  check_context("outputs of one element need no stride, and the lse is optional");
  problem one = problem_random((shape){1, 1, 1, 1, 4, 8, 1}, 8002);
  one.params.o = (attn_output){one.o, 0, 0, 0, 0};
  one.params.lse = (attn_lse_output){one.lse, 0, 0, 0};
  problem_run(&one);
  problem_check(&one);
  one.params.lse = (attn_lse_output){0};
  CHECK_OK(attn_forward(NULL, &one.params));
  problem_free(&one);
  problem_free(&p);
}

/* A failure's line stays until the next failure, and is each thread's own. */
static void last_error(void) {
  problem p = sound();
  p.params.head_size = 2000;
  CHECK(attn_forward(NULL, &p.params) != ATTN_OK);
  char message[512];
  snprintf(message, sizeof(message), "%s", attn_last_error());
  p.params.head_size = 8;
  CHECK_OK(attn_forward(NULL, &p.params));
  CHECK(strcmp(attn_last_error(), message) == 0);
  problem_free(&p);
}

int main(int argc, char **argv) {
  CHECK(strcmp(attn_last_error(), "") == 0);
  check_begin(&argc, argv);
  extents();
  options();
  workspaces_and_handles();
  plans();
  struct_sizes();
  selection();
  empty();
  last_error();
  return check_done();
}
