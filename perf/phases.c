/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/phases.h"

#include "simd/phase.h"

const char *const perf_phase_names[PERF_PHASES] = {"scores",      "softmax", "values",
                                                   "projections", "packing", "rest"};

_Static_assert(PERF_PHASES == ATTN_PHASE_COUNT + 1, "every phase needs a name");

#ifdef ATTN_PHASES
bool perf_phases_built(void) { return true; }
uint64_t perf_phases_now(void) { return attn_phase_now(); }

void perf_phases_reset(void) {
  uint64_t ticks[ATTN_PHASE_COUNT];
  attn_phase_take(ticks);
}

void perf_phases_take(uint64_t elapsed, int threads, double share[PERF_PHASES]) {
  uint64_t ticks[ATTN_PHASE_COUNT];
  double all = (double)elapsed * threads, rest = 1;
  attn_phase_take(ticks);
  for (int i = 0; i < ATTN_PHASE_COUNT; i++) {
    share[i] = (double)ticks[i] / all;
    rest -= share[i];
  }
  share[ATTN_PHASE_COUNT] = rest > 0 ? rest : 0;
}
#else
bool perf_phases_built(void) { return false; }
uint64_t perf_phases_now(void) { return 0; }
void perf_phases_reset(void) {}

void perf_phases_take(uint64_t elapsed, int threads, double share[PERF_PHASES]) {
  (void)elapsed;
  (void)threads;
  for (int i = 0; i < PERF_PHASES; i++) share[i] = 0;
}
#endif
