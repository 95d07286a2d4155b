/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (SC'11). A pure function: 128 bits of counter and 64 of key to 128 bits. */
#ifndef ATTN_ENGINE_PHILOX_H
#define ATTN_ENGINE_PHILOX_H

#include <stdint.h>

typedef struct attn_philox {
  uint32_t word[4];
} attn_philox;

static inline attn_philox attn_philox4x32(uint64_t counter_low, uint64_t counter_high,
                                          uint64_t key) {
  uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
  uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (attn_philox){{c0, c1, c2, c3}};
}

#endif
