/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The list of kernel tables, made from isa.inc. */

#include "cpu.h"
#include "kernels.h"

#include <string.h>

/* Keeps what is said of sets that are compiled in (ATTN_HAVE_<name> is 1, by cmake/IsaFlags.cmake), and drops the rest. */
#define IF_0(...)
#define IF_1(...) __VA_ARGS__
#define IF_EXPANDED(have, ...) IF_##have(__VA_ARGS__)
#define IF(have, ...) IF_EXPANDED(have, __VA_ARGS__)

#define ATTN_ISA_ROW(name, feature)                                                                \
  IF(ATTN_HAVE_##name, extern const attn_kernels attn_kernels_##name[2];)
#include "isa.inc"
#undef ATTN_ISA_ROW

static const struct {
  const attn_kernels *kernels;
  unsigned feature;
} list[] = {
#define ATTN_ISA_ROW(name, feature) IF(ATTN_HAVE_##name, {attn_kernels_##name, feature}, )
#include "isa.inc"
#undef ATTN_ISA_ROW
};

static const char *const known[] = {
#define ATTN_ISA_ROW(name, feature) #name,
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
