/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Which instruction sets a machine is found to have, on machines of our own making; and that what
 * is forced is what runs. Links the library's inside. */

#include "check.h"
#include "problem.h"
#include "simd/cpu.h"
#include "simd/kernels.h"
#include <stdio.h>
#include <string.h>

/* A machine: its CPUID leaves and XCR0, and what was asked of it. */
typedef struct machine {
  uint32_t max_leaf, leaf1_ecx, leaf7_ebx;
  uint64_t xcr0;
  int leaf1_reads, leaf7_reads, beyond_reads, xgetbv_calls;
} machine;

static void cpuid(void *user, uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  machine *m = user;
  /* A leaf above the greatest repeats the data of the greatest on real machines: nonsense. */
  for (int i = 0; i < 4; i++) out[i] = 0xffffffffu;
  if (leaf > m->max_leaf) {
    m->beyond_reads++;
    return;
  }
  for (int i = 0; i < 4; i++) out[i] = 0;
  if (leaf == 0) out[0] = m->max_leaf;
  if (leaf == 1) m->leaf1_reads++, out[2] = m->leaf1_ecx;
  if (leaf == 7 && subleaf == 0) m->leaf7_reads++, out[1] = m->leaf7_ebx;
}

static uint64_t xgetbv(void *user) {
  machine *m = user;
  m->xgetbv_calls++;
  return m->xcr0;
}

enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28 };        /* leaf 1, ecx */
enum { AVX2 = 1 << 5, F = 1 << 16, DQ = 1 << 17, BW = 1 << 30 }; /* leaf 7, ebx */
#define VL (1u << 31)
#define ALL1 ((uint32_t)(FMA | OSXSAVE | AVX))
#define ALL7 ((uint32_t)(AVX2 | F | DQ | BW) | VL)

static void machines(void) {
  static const struct {
    const char *what;
    uint32_t max_leaf, leaf1, leaf7;
    uint64_t xcr0;
    unsigned want;
  } table[] = {
      {"everything", 13, ALL1, ALL7, 0xe7, ATTN_CPU_AVX2 | ATTN_CPU_AVX512},
      {"everything and unknown bits", 32, ~0u, ~0u, ~UINT64_C(0), ATTN_CPU_AVX2 | ATTN_CPU_AVX512},
      {"OSXSAVE off, all other bits on", 13, ALL1 & ~(uint32_t)OSXSAVE, ALL7, 0xe7, 0},
      {"the system keeps no ZMM state", 13, ALL1, ALL7, 0x07, ATTN_CPU_AVX2},
      {"the system keeps no YMM state", 13, ALL1, ALL7, 0x03, 0},
      {"YMM without SSE state", 13, ALL1, ALL7, 0x05, 0},
      {"no mask state", 13, ALL1, ALL7, 0xc7, ATTN_CPU_AVX2},
      {"no upper halves", 13, ALL1, ALL7, 0xa7, ATTN_CPU_AVX2},
      {"no upper registers", 13, ALL1, ALL7, 0x67, ATTN_CPU_AVX2},
      {"ZMM state without YMM state", 13, ALL1, ALL7, 0xe3, 0},
      {"AVX-512 without AVX2", 13, ALL1, ALL7 & ~(uint32_t)AVX2, 0xe7, 0},
      {"AVX2 without FMA", 13, ALL1 & ~(uint32_t)FMA, ALL7, 0xe7, 0},
      {"no AVX", 13, ALL1 & ~(uint32_t)AVX, ALL7, 0xe7, 0},
      {"no F", 13, ALL1, ALL7 & ~(uint32_t)F, 0xe7, ATTN_CPU_AVX2},
      {"no DQ", 13, ALL1, ALL7 & ~(uint32_t)DQ, 0xe7, ATTN_CPU_AVX2},
      {"no BW", 13, ALL1, ALL7 & ~(uint32_t)BW, 0xe7, ATTN_CPU_AVX2},
      {"no VL", 13, ALL1, ALL7 & ~VL, 0xe7, ATTN_CPU_AVX2},
      {"AVX2 alone", 13, ALL1, AVX2, 0x07, ATTN_CPU_AVX2},
      {"no leaf 7", 6, ALL1, ALL7, 0xe7, 0},
      {"leaf 0 only", 0, ALL1, ALL7, 0xe7, 0},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    check_context("%s", table[i].what);
    machine m = {.max_leaf = table[i].max_leaf,
                 .leaf1_ecx = table[i].leaf1,
                 .leaf7_ebx = table[i].leaf7,
                 .xcr0 = table[i].xcr0};
    const attn_cpuid_source source = {cpuid, xgetbv, &m};
    CHECK_INT(attn_cpu_features(&source), table[i].want);
    CHECK_INT(m.beyond_reads, 0);
    if (!(table[i].leaf1 & (uint32_t)OSXSAVE) || m.max_leaf < 1) CHECK_INT(m.xgetbv_calls, 0);
    if (m.max_leaf < 7) CHECK_INT(m.leaf7_reads, 0);
    if (m.max_leaf < 1) CHECK_INT(m.leaf1_reads, 0);
  }
}

/* A name is unknown only when no processor has such a set, whatever this build and this machine lack. */
static void known_names(void) {
  static const char *const names[] = {"generic", "avx2", "avx512", "neon"};
  const int count = sizeof(names) / sizeof(names[0]);
  for (int i = 0; i < count; i++) {
    check_context("%s, known", names[i]);
    CHECK(attn_kernels_known(i) && strcmp(attn_kernels_known(i), names[i]) == 0);
    const attn_status want = attn_isa_supported(names[i]) ? ATTN_OK : ATTN_UNSUPPORTED;
    CHECK_STATUS(attn_select(names[i], NULL), want);
    if (want != ATTN_OK) CHECK(strstr(attn_last_error(), names[i]) != NULL);
  }
  CHECK(attn_kernels_known(count) == NULL && attn_kernels_known(-1) == NULL);
  CHECK_STATUS(attn_select("sse9", NULL), ATTN_INVALID_ARGUMENT);
  for (int i = 0; i < count; i++) CHECK(strstr(attn_last_error(), names[i]) != NULL);
  CHECK_OK(attn_select(NULL, NULL));
}

/* What is offered is what this machine has, and what is forced is what runs. */
static void here(void) {
  unsigned features = attn_cpu_features_here();
  check_context("this machine, features %u", features);
  CHECK(attn_isa_supported("generic"));
  CHECK_INT(attn_isa_supported("avx2"), (features & ATTN_CPU_AVX2) != 0);
  CHECK_INT(attn_isa_supported("avx512"), (features & ATTN_CPU_AVX512) != 0);
  CHECK_INT(attn_isa_supported("neon"), (features & ATTN_CPU_NEON) != 0);
  CHECK(!attn_isa_supported("sse9"));
  CHECK(attn_select("", NULL) == ATTN_INVALID_ARGUMENT &&
        attn_select(NULL, "") == ATTN_INVALID_ARGUMENT);
  attn_tile_sizes sizes;
  CHECK(!attn_isa_tile_sizes("sse9", &sizes) && !attn_isa_tile_sizes("generic", NULL));
  CHECK(attn_isa_tile_sizes("generic", &sizes) && sizes.vector == 4 && sizes.lanes % 4 == 0 &&
        sizes.task_lanes % sizes.lanes == 0);
  const char *widest = "generic";
  for (int i = 0; attn_isa_compiled(i); i++) {
    const char *isa = attn_isa_compiled(i);
    if (!attn_isa_supported(isa)) {
      CHECK_STATUS(attn_select(isa, NULL), ATTN_UNSUPPORTED);
      printf("%s: this machine cannot run it\n", isa);
      continue;
    }
    widest = isa;
    for (int sleef = 0; sleef <= 1; sleef++) {
      CHECK_OK(attn_select(isa, sleef ? "sleef" : "inline"));
      CHECK(strcmp(attn_isa_name(), isa) == 0);
      CHECK(strcmp(attn_exp_name(), sleef ? "sleef" : "inline") == 0);
      const attn_kernels *kernels = attn_kernels_find(isa, sleef != 0);
      CHECK(kernels && strcmp(kernels->isa, isa) == 0 && kernels->exp_sleef == (sleef != 0));
      if (kernels) CHECK(kernels->vector >= 4 && kernels->lanes % kernels->vector == 0);
    }
    problem p = problem_random((shape){1, 2, 1, 30, 30, 8, 8}, 5);
    problem_run(&p);
    problem_check(&p);
    problem_free(&p);
  }
  CHECK_OK(attn_select(NULL, NULL));
  CHECK(strcmp(attn_kernels_best(false)->isa, widest) == 0);
  CHECK(attn_kernels_find("avx1024", false) == NULL);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  machines();
  known_names();
  here();
  return check_done();
}
