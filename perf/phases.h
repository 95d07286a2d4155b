/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Shares of the time per phase, of builds with ATTN_PHASES=ON. In other builds there are none, and
 * perf_phases_built says so. */
#ifndef ATTN_PERF_PHASES_H
#define ATTN_PERF_PHASES_H

#include <stdbool.h>
#include <stdint.h>

enum { PERF_PHASES = 6 }; /* those of simd/phase.h, and the rest */

extern const char *const perf_phase_names[PERF_PHASES];

bool perf_phases_built(void);
/* Ticks of the clock that phases are measured by. */
uint64_t perf_phases_now(void);
void perf_phases_reset(void);
/* Shares since the last reset or take, of `elapsed` ticks on each of the threads; they sum to 1. */
void perf_phases_take(uint64_t elapsed, int threads, double share[PERF_PHASES]);

#endif
