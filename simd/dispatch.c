/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The list of kernel tables, made from isa.inc. */

#include "cpu.h"
#include "kernels.h"

#include <string.h>

/* Keep what is said of sets that this processor may have, and drop the rest: their kernels are not compiled. */
#define ON_ANYWHERE(...) __VA_ARGS__
#if defined(__x86_64__)
#define ON_X86_64(...) __VA_ARGS__
#define ON_AARCH64(...)
#elif defined(__aarch64__)
#define ON_X86_64(...)
#define ON_AARCH64(...) __VA_ARGS__
#else
#define ON_X86_64(...)
#define ON_AARCH64(...)
#endif

#define ATTN_ISA_ROW(name, processors, feature)                                                    \
  ON_##processors(extern const attn_kernels attn_kernels_##name[2];)
#include "isa.inc"
#undef ATTN_ISA_ROW

static const struct {
  const attn_kernels *kernels;
  unsigned feature;
} list[] = {
#define ATTN_ISA_ROW(name, processors, feature) ON_##processors({attn_kernels_##name, feature}, )
#include "isa.inc"
#undef ATTN_ISA_ROW
};

static const char *const known[] = {
#define ATTN_ISA_ROW(name, processors, feature) #name,
#include "isa.inc"
#undef ATTN_ISA_ROW
};

enum { COUNT = sizeof(list) / sizeof(list[0]) };

const char *attn_kernels_known(int i) {
  return i >= 0 && i < (int)(sizeof(known) / sizeof(known[0])) ? known[i] : NULL;
}

const char *attn_kernels_name(int i) { return i >= 0 && i < COUNT ? list[i].kernels->isa : NULL; }

static int find(const char *isa) {
  for (int i = 0; i < COUNT; i++) {
    if (strcmp(list[i].kernels->isa, isa) == 0) return i;
  }
  return -1;
}

const attn_kernels *attn_kernels_find(const char *isa, bool exp_sleef) {
  const int i = find(isa);
  return i < 0 ? NULL : &list[i].kernels[exp_sleef];
}

static bool supported(int i) {
  return (attn_cpu_features_here() & list[i].feature) == list[i].feature;
}

bool attn_kernels_supported(const attn_kernels *kernels) { return supported(find(kernels->isa)); }

const attn_kernels *attn_kernels_best(bool exp_sleef) {
  int best = 0; /* generic needs nothing */
  for (int i = 1; i < COUNT; i++) {
    if (supported(i)) best = i;
  }
  return &list[best].kernels[exp_sleef];
}
