/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Test data that anyone can make again: splitmix64 (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014) of a seed and an index, its upper 24 bits as a
 * float in [-1, 1). */
#ifndef ATTN_TESTS_RANDOM_H
#define ATTN_TESTS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t splitmix64(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* Element `index` of the sequence sm(seed): exact in float. */
static inline float sm(uint64_t seed, uint64_t index) {
  return ((float)(int32_t)(splitmix64(seed, index) >> 40) - 8388608.0f) / 8388608.0f;
}

static inline void sm_fill(float *out, size_t count, uint64_t seed, double factor) {
  for (size_t i = 0; i < count; i++) out[i] = (float)(factor * (double)sm(seed, i));
}

/* A sequence of draws below `bound`; `state` counts them. */
static inline uint64_t sm_below(uint64_t seed, uint64_t *state, uint64_t bound) {
  return (splitmix64(seed, (*state)++) >> 20) % bound;
}

#endif
