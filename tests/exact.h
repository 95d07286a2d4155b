/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the tests of exactness share: outputs kept to be compared bit for bit. */
#ifndef ATTN_TESTS_EXACT_H
#define ATTN_TESTS_EXACT_H

#include "problem.h"
#include <stdlib.h>

typedef struct bits {
  float *o, *lse;
} bits;

/* Runs p on `threads` and keeps what came out. */
static inline bits bits_of(problem *p, int32_t threads) {
  problem_run_threads(p, threads);
  return (bits){copy_floats(p->o, p->o_count), copy_floats(p->lse, p->lse_count)};
}

static inline void bits_free(bits *b) {
  free(b->o);
  free(b->lse);
}

#define CHECK_SAME(problem, bits)                                                                  \
  do {                                                                                             \
    CHECK_BITS((problem)->o, (bits)->o, (problem)->o_count);                                       \
    CHECK_BITS((problem)->lse, (bits)->lse, (problem)->lse_count);                                 \
  } while (0)

/* FNV-1a (Fowler, Noll and Vo) over the bits of floats, little-endian. */
static inline uint64_t digest(uint64_t hash, const float *a, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t word = float_bits(a[i]);
    for (int byte = 0; byte < 4; byte++, word >>= 8)
      hash = (hash ^ (word & 0xff)) * UINT64_C(0x100000001b3);
  }
  return hash;
}
#define DIGEST_START UINT64_C(0xcbf29ce484222325)

/* Instruction sets with fused multiply-add give the same bits as each other. */
static inline bool isa_is_canonical(const char *isa) {
#ifdef ATTN_TEST_GENERIC_FMA
  return isa != NULL;
#else
  return isa[0] != 'g';
#endif
}

#endif
