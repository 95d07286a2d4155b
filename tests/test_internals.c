/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Parts of the engine that the public interface shows only dimly. Links the library's inside. */

#include "check.h"
#include "engine/context.h"
#include "engine/philox.h"
#include "engine/schedule.h"
#include "engine/status.h"
#include "engine/threads.h"
#include "random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Known answers published with the generator (Random123, kat_vectors: philox4x32 10). */
static void philox(void) {
  static const struct {
    uint64_t low, high, key;
    uint32_t want[4];
  } known[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {UINT64_C(0x85a308d3243f6a88),
       UINT64_C(0x0370734413198a2e),
       UINT64_C(0x299f31d0a4093822),
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  check_context("philox");
  for (size_t i = 0; i < 3; i++) {
    attn_philox got = attn_philox4x32(known[i].low, known[i].high, known[i].key);
    for (int w = 0; w < 4; w++) CHECK_INT(got.word[w], known[i].want[w]);
  }
}

/* A message is one line of whole characters, whatever was put into it. */
static void messages(void) {
  check_context("messages");
  CHECK(attn_fail(ATTN_BAD_FILE, "a\nb\x7f \xc3\xa9 %.1s|", "\xc3\xa9") == ATTN_BAD_FILE);
  CHECK(strcmp(attn_last_error(), "a?b? \xc3\xa9 ?|") == 0);
}

/* On a boundary, writable from end to end, and none where there cannot be any. */
static void memory(void) {
  const size_t huge = ATTN_HUGE_PAGE;
  const size_t sizes[] = {1, 64, huge - 1, huge, huge + 1, 3 * huge - 64};
  check_context("memory");
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    const size_t bytes = sizes[i], boundary = bytes < huge ? (size_t)ATTN_ALIGNMENT : huge;
    unsigned char *m = attn_allocate(bytes);
    CHECK(m != NULL);
    if (!m) continue;
    CHECK_INT((intptr_t)((uintptr_t)m % boundary), 0);
    memset(m, 0x5a, bytes);
    CHECK(m[0] == 0x5a && m[bytes - 1] == 0x5a);
    attn_release(m, bytes);
  }
  CHECK(attn_allocate(SIZE_MAX) == NULL);
  CHECK(attn_allocate(SIZE_MAX / 2 - 1) == NULL);
  attn_release(NULL, 0);
  attn_release(NULL, huge);
}

/* A block that was given back is the next one that fits, also one with no room to spare. */
static void scratch(void) {
  const size_t sizes[] = {64, 4096, ATTN_HUGE_PAGE, 16 << 20, (16 << 20) + 1};
  check_context("scratch");
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    attn_context *context;
    CHECK_INT(attn_context_create(&context), ATTN_OK);
    void *first = attn_scratch_acquire(context, sizes[i]);
    CHECK(first != NULL);
    if (first) memset(first, 1, sizes[i]);
    attn_scratch_release(context, first);
    void *again = attn_scratch_acquire(context, sizes[i]);
    CHECK(again == first);
    attn_scratch_release(context, again);
    attn_context_destroy(context);
  }
  CHECK(attn_scratch_acquire(NULL, SIZE_MAX) == NULL);
  /* Blocks that stay idle, one behind another that is the system's memory: no leak to a leak checker. */
  void *small = attn_scratch_acquire(NULL, 0),
       *large = attn_scratch_acquire(NULL, 2 * ATTN_HUGE_PAGE);
  CHECK(small && large);
  attn_scratch_release(NULL, small);
  attn_scratch_release(NULL, large);
}

/* CPU quotas of a made-up cgroup file system. The group of this process is looked for below the
 * root; the root's own file bounds it in any case. */
static void quotas(void) {
  static const struct {
    const char *text;
    int32_t want;
  } files[] = {{"max 100000\n", INT32_MAX},
               {"200000 100000\n", 2},
               {"250000 100000\n", 3},
               {"100000 100000\n", 1},
               {"1000 100000\n", 1},
               {"50000 20000", 3},
               {"", INT32_MAX},
               {"max\n", INT32_MAX},
               {"-1 100000\n", INT32_MAX},
               {"0 100000\n", INT32_MAX},
               {"200000\n", INT32_MAX},
               {"200000 0\n", INT32_MAX},
               {"200000 x\n", INT32_MAX},
               {"junk\n", INT32_MAX},
               {"200000 -5\n", INT32_MAX},
               {"9999999999 1\n", INT32_MAX}};
  char root[] = "/tmp/attn-cgroup-XXXXXX", path[64];
  CHECK(mkdtemp(root) != NULL);
  snprintf(path, sizeof(path), "%s/cpu.max", root);
  CHECK_INT(attn_cgroup_threads(root), INT32_MAX); /* no file, no limit */
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
    check_context("cpu.max '%s'", files[i].text);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (!file) continue;
    fputs(files[i].text, file);
    fclose(file);
    CHECK_INT(attn_cgroup_threads(root), files[i].want);
  }
  unlink(path);
  rmdir(root);
  CHECK_INT(attn_cgroup_threads("/nonexistent"), INT32_MAX);
}

/* Each group of lanes and each piece of its keys is one task, for every head. */
static void cut_covered(const attn_schedule *s, const attn_problem *problem, const attn_cut *c) {
  const int64_t kv_heads = problem->params.kv_heads;
  const int64_t count = c->sequences * kv_heads * c->groups * c->pieces;
  const int64_t whole = c->pieces == 1 ? count : count / c->pieces * (c->pieces - 1);
  int *tasks = check_alloc((size_t)count * sizeof(*tasks));
  memset(tasks, 0, (size_t)count * sizeof(*tasks));
  for (int64_t i = 0; i < count; i++) {
    const int64_t task = i < whole ? c->first_task + i : c->last_task + i - whole;
    const attn_share share = attn_schedule_share(s, problem, task);
    const int64_t head = (share.n - c->sequence) * kv_heads + share.kv_head;
    const int64_t behind = c->lanes - share.lane - share.lanes;
    const int64_t group = behind / c->lanes_per_task, piece = share.piece - c->piece_begin;
    CHECK(share.cut == c && behind % c->lanes_per_task == 0 && share.lane >= 0 && share.lanes > 0);
    const bool there = head >= 0 && head < c->sequences * kv_heads && group >= 0 &&
                       group < c->groups && piece >= 0 && piece < c->pieces;
    CHECK(there);
    if (there) tasks[(head * c->groups + group) * c->pieces + piece]++;
  }
  for (int64_t i = 0; i < count; i++) CHECK_INT(tasks[i], 1);
  free(tasks);
}

static void schedule(void) {
  enum { SEQUENCES = 4 };
  static const int64_t kv_heads[] = {1, 2, 8, 30}, groups[] = {1, 2, 4, 7};
  uint64_t draw = 0;
#define BELOW(n) ((int64_t)sm_below(77, &draw, (uint64_t)(n)))
  int64_t in_both = 0; /* cut in groups of lanes and in pieces of keys */
  for (int number = 0; number < (check_brief() ? 300 : 3000); number++) {
    int32_t q_lens[SEQUENCES], kv_lens[SEQUENCES];
    attn_cut cuts[SEQUENCES];
    attn_params p = ATTN_PARAMS_INIT;
    p.batch = 1 + BELOW(SEQUENCES);
    p.kv_heads = kv_heads[BELOW(4)];
    p.q_heads = p.kv_heads * groups[BELOW(4)];
    p.kv_len = 1 + BELOW(BELOW(2) ? 6000 : 600);
    p.q_len = BELOW(3) ? 1 + BELOW(p.kv_len) : p.kv_len;
    p.head_size = p.value_size = 16;
    p.causal = BELOW(4) > 0;
    if (BELOW(2)) {
      for (int i = 0; i < SEQUENCES; i++) {
        q_lens[i] = (int32_t)BELOW(p.q_len + 1);
        kv_lens[i] = (int32_t)BELOW(p.kv_len + 1);
      }
      p.lengths.q_lens = q_lens;
      p.lengths.kv_lens = kv_lens;
    }
    attn_problem problem;
    CHECK_OK(attn_problem_shape(&p, "lengths.", &problem));
    problem.kernels = attn_kernels_best(false);
    problem.params.num_threads = (int32_t)(1 + BELOW(BELOW(2) ? 8 : 256));
    check_context("schedule %d: %lld x %lld on %lld heads, %lld queries, %lld keys, %d threads",
                  number, (long long)p.batch, (long long)p.q_heads, (long long)p.kv_heads,
                  (long long)p.q_len, (long long)p.kv_len, problem.params.num_threads);
    attn_schedule s;
    attn_schedule_make(&problem, cuts, &s);
    for (int64_t i = 0; i < s.count; i++) {
      const attn_cut *c = attn_schedule_cut(&s, i);
      in_both += c->groups > 1 && c->pieces > 1;
      cut_covered(&s, &problem, c);
    }
  }
#undef BELOW
  check_context("schedules");
  CHECK(in_both > 20);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  philox();
  messages();
  memory();
  scratch();
  quotas();
  schedule();
  return check_done();
}
