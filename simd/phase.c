/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Compiled in builds with ATTN_PHASES=ON only. */
#include "simd/phase.h"

#include <stdatomic.h>

static _Atomic uint64_t total[ATTN_PHASE_COUNT];

void attn_phase_add(int phase, uint64_t ticks) {
  atomic_fetch_add_explicit(&total[phase], ticks, memory_order_relaxed);
}

void attn_phase_take(uint64_t ticks[ATTN_PHASE_COUNT]) {
  for (int i = 0; i < ATTN_PHASE_COUNT; i++) ticks[i] = atomic_exchange(&total[i], 0);
}
