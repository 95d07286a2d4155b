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

/* Each group of lanes and each piece of its keys is one task, for every head; a last piece has the last
 * keys that its group sees. */
static void schedule_covered(const attn_schedule *s, const attn_problem *problem) {
  const int64_t kv_heads = problem->params.kv_heads;
  int *tasks = check_alloc((size_t)s->tasks * sizeof(*tasks));
  int64_t first[5] = {0}; /* of each cut */
  for (int64_t i = 0; i < s->count; i++) {
    const attn_cut *c = attn_schedule_cut(s, i);
    first[i + 1] = first[i] + c->sequences * kv_heads * c->groups * c->pieces;
  }
  CHECK_INT(s->tasks, first[s->count]);
  memset(tasks, 0, (size_t)s->tasks * sizeof(*tasks));
  for (int64_t i = 0; i < s->tasks; i++) {
    const attn_share share = attn_schedule_share(s, problem, i);
    const attn_cut *c = share.cut;
    const int64_t cut = c - attn_schedule_cut(s, 0);
    const int64_t head = (share.n - c->sequence) * kv_heads + share.kv_head;
    const int64_t behind = c->lanes - share.lane - share.lanes;
    const int64_t group = behind / c->lanes_per_task, piece = share.piece - c->piece_begin;
    CHECK(behind % c->lanes_per_task == 0 && share.lane >= 0 && share.lanes > 0);
    const bool there = head >= 0 && head < c->sequences * kv_heads && group >= 0 &&
                       group < c->groups && piece >= 0 && piece < c->pieces;
    CHECK(there);
    if (there) tasks[first[cut] + (head * c->groups + group) * c->pieces + piece]++;
    if (!c->last_apart || i - c->first_task < c->rows * (c->pieces - 1)) continue;
    const attn_sequence q = attn_problem_sequence(problem, share.n);
    const int64_t lane = share.lane + share.lanes - 1;
    const int64_t key = attn_last_key(lane / problem->group, q.diagonal, q.kv_len);
    CHECK(c->pieces > 1 && (key < q.kv_begin || (share.chunk_begin * ATTN_KEY_CHUNK <= key &&
                                                 key < share.chunk_end * ATTN_KEY_CHUNK)));
  }
  for (int64_t i = 0; i < s->tasks; i++) CHECK_INT(tasks[i], 1);
  free(tasks);
}

/* Last pieces that come behind all others go from many keys to few, but that small ones may come early. */
static void last_sorted(int64_t q_len, int64_t kv_len) {
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = p.kv_heads = p.q_heads = 1;
  p.q_len = q_len;
  p.kv_len = kv_len;
  p.head_size = p.value_size = 16;
  attn_problem problem;
  CHECK_OK(attn_problem_shape(&p, "lengths.", &problem));
  problem.kernels = attn_kernels_find("generic", false);
  problem.params.num_threads = 200;
  attn_schedule s;
  attn_schedule_make(&problem, NULL, &s);
  check_context("the last pieces of %lld queries and %lld keys", (long long)q_len,
                (long long)kv_len);
  CHECK(s.alike.last_apart && s.alike.groups > 1);
  const int64_t first = s.tasks - s.alike.rows;
  const double most = attn_schedule_cost(&s, &problem, first);
  for (int64_t i = first; i < s.tasks; i++) {
    const double left = (double)(s.tasks - i) / (double)(s.tasks - first);
    CHECK(attn_schedule_cost(&s, &problem, i) <= most * (left + 0.25));
  }
}

static void schedule(void) {
  enum { SEQUENCES = 4 };
  static const int64_t kv_heads[] = {1, 2, 8, 30}, groups[] = {1, 2, 3, 4, 6, 7};
  uint64_t draw = 0;
#define BELOW(n) ((int64_t)sm_below(77, &draw, (uint64_t)(n)))
  int64_t in_both = 0; /* cut in groups of lanes and in pieces of keys */
  int known = 0;
  while (attn_kernels_name(known)) known++;
  for (int number = 0; number < (check_brief() ? 500 : 5000); number++) {
    int32_t q_lens[SEQUENCES], kv_lens[SEQUENCES], kv_starts[SEQUENCES];
    attn_cut cuts[SEQUENCES];
    attn_params p = ATTN_PARAMS_INIT;
    p.batch = BELOW(SEQUENCES + 1);
    p.kv_heads = kv_heads[BELOW(4)];
    p.q_heads = p.kv_heads * groups[BELOW(6)];
    p.kv_len = 1 + BELOW(BELOW(2) ? 6000 : 600);
    p.q_len = BELOW(3) ? 1 + BELOW(p.kv_len) : p.kv_len;
    p.head_size = p.value_size = 16;
    p.causal = BELOW(4) > 0;
    if (BELOW(2)) {
      for (int i = 0; i < SEQUENCES; i++) {
        q_lens[i] = (int32_t)BELOW(p.q_len + 1);
        kv_lens[i] = (int32_t)BELOW(p.kv_len + 1);
        kv_starts[i] = (int32_t)BELOW(kv_lens[i] + 1);
      }
      p.lengths.q_lens = q_lens;
      p.lengths.kv_lens = kv_lens;
      if (BELOW(2)) p.lengths.kv_starts = kv_starts;
    }
    attn_problem problem;
    CHECK_OK(attn_problem_shape(&p, "lengths.", &problem));
    /* Of the kernels the schedule looks at sizes alone: the machine need not have the set. */
    problem.kernels = attn_kernels_find(attn_kernels_name((int)BELOW(known)), false);
    problem.params.num_threads = (int32_t)(1 + BELOW(BELOW(2) ? 8 : 256));
    check_context("schedule %d: %lld x %lld on %lld heads, %lld queries, %lld keys, %s, %d threads",
                  number, (long long)p.batch, (long long)p.q_heads, (long long)p.kv_heads,
                  (long long)p.q_len, (long long)p.kv_len, problem.kernels->isa,
                  problem.params.num_threads);
    attn_schedule s;
    attn_schedule_make(&problem, cuts, &s);
    for (int64_t i = 0; i < s.count; i++) {
      const attn_cut *c = attn_schedule_cut(&s, i);
      in_both += c->groups > 1 && c->pieces > 1;
    }
    schedule_covered(&s, &problem);
  }
#undef BELOW
  check_context("schedules");
  CHECK(in_both > 40);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  philox();
  messages();
  memory();
  scratch();
  quotas();
  schedule();
  last_sorted(2048, 2048);
  last_sorted(1800, 1800);
  last_sorted(1100, 8492);
  last_sorted(1500, 1536);
  return check_done();
}
