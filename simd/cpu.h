/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What this CPU and its operating system can run. */
#ifndef ATTN_SIMD_CPU_H
#define ATTN_SIMD_CPU_H

#include <stdint.h>

enum {
  ATTN_CPU_AVX2 = 1,   /* AVX2 and FMA, with the YMM state enabled by the system */
  ATTN_CPU_AVX512 = 2, /* that, and F, BW, DQ, VL with the ZMM and mask state enabled */
  ATTN_CPU_NEON = 4
};

/* CPUID and XGETBV, replaceable so that tests can play other machines. */
typedef struct attn_cpuid_source {
  void (*cpuid)(void *user, uint32_t leaf, uint32_t subleaf, uint32_t out[4]); /* eax ebx ecx edx */
  uint64_t (*xgetbv)(void *user);
  void *user;
} attn_cpuid_source;

/* A set of ATTN_CPU_... bits. XGETBV is executed only where OSXSAVE allows it, and no leaf beyond
 * the greatest one is read. */
unsigned attn_cpu_features(const attn_cpuid_source *source);

/* The same for the machine this runs on. */
unsigned attn_cpu_features_here(void);

#endif
