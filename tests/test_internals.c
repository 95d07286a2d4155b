/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Parts of the engine that the public interface shows only dimly. Links the library's inside. */

#include "check.h"
#include "engine/context.h"
#include "engine/philox.h"
#include "engine/status.h"
#include "engine/threads.h"
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

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  philox();
  messages();
  memory();
  scratch();
  quotas();
  return check_done();
}
