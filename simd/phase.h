/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Where the time goes: ticks per phase, summed over threads. Only in builds with ATTN_PHASES=ON;
 * otherwise the macros are empty. Phases are entered per block of keys, never per key: two reads of
 * the tick counter and one atomic addition, some tens of nanoseconds.
 *
 *     PHASE_BEGIN(ticks);
 *     ... scores ...  PHASE_NEXT(ticks, ATTN_PHASE_SCORES);
 *     ... values ...  PHASE_NEXT(ticks, ATTN_PHASE_VALUES); */
#ifndef ATTN_SIMD_PHASE_H
#define ATTN_SIMD_PHASE_H

#include <stdint.h>

/* clang-format off */
enum {
  ATTN_PHASE_SCORES, ATTN_PHASE_SOFTMAX, ATTN_PHASE_VALUES, ATTN_PHASE_PROJECTIONS,
  ATTN_PHASE_PACKING, ATTN_PHASE_COUNT
};
/* clang-format on */

#ifdef ATTN_PHASES
/* Ticks of a counter that runs at a constant rate. */
static inline uint64_t attn_phase_now(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
#error "no tick counter is known for this processor: build without ATTN_PHASES"
#endif
}

void attn_phase_add(int phase, uint64_t ticks);
/* Ticks since the last call. */
void attn_phase_take(uint64_t ticks[ATTN_PHASE_COUNT]);

#define PHASE_BEGIN(ticks) uint64_t ticks = attn_phase_now()
#define PHASE_NEXT(ticks, phase)                                                                   \
  do {                                                                                             \
    const uint64_t phase_now = attn_phase_now();                                                   \
    attn_phase_add(phase, phase_now - (ticks));                                                    \
    (ticks) = phase_now;                                                                           \
  } while (0)
#else
#define PHASE_BEGIN(ticks) (void)0
#define PHASE_NEXT(ticks, phase) (void)0
#endif

#endif
