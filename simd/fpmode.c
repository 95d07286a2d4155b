/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Results are defined for round-to-nearest with subnormals; a caller may have set something else. */

#include "kernels.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

attn_fpmode attn_fpmode_enter(void) {
  const attn_fpmode mode = {_mm_getcsr()};
  _mm_setcsr(0x1f80); /* the state a process starts with: all exceptions masked */
  return mode;
}

void attn_fpmode_leave(attn_fpmode mode) { _mm_setcsr((unsigned)mode.saved); }
#elif defined(__aarch64__)
attn_fpmode attn_fpmode_enter(void) {
  attn_fpmode mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode.saved));
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
  return mode;
}

void attn_fpmode_leave(attn_fpmode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode.saved)); }
#else
#error "attn runs on x86-64 and aarch64"
#endif
