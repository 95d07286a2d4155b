/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "cpu.h"

enum { EAX, EBX, ECX, EDX };

static int bit(uint32_t word, int n) { return (word >> n) & 1; }

unsigned attn_cpu_features(const attn_cpuid_source *source) {
  uint32_t leaf[4];
  source->cpuid(source->user, 0, 0, leaf);
  if (leaf[EAX] < 7) return 0;
  source->cpuid(source->user, 1, 0, leaf);
  const int fma = bit(leaf[ECX], 12), osxsave = bit(leaf[ECX], 27), avx = bit(leaf[ECX], 28);
  if (!osxsave || !avx || !fma) return 0;
  const uint64_t xcr0 = source->xgetbv(source->user);
  const uint64_t ymm = 0x06, zmm = 0xe6; /* SSE and YMM; and opmask, upper ZMM, high ZMM */
  source->cpuid(source->user, 7, 0, leaf);
  if ((xcr0 & ymm) != ymm || !bit(leaf[EBX], 5)) return 0;
  const int avx512 =
      bit(leaf[EBX], 16) && bit(leaf[EBX], 17) && bit(leaf[EBX], 30) && bit(leaf[EBX], 31);
  if ((xcr0 & zmm) != zmm || !avx512) return ATTN_CPU_AVX2;
  return ATTN_CPU_AVX2 | ATTN_CPU_AVX512;
}

#if defined(__x86_64__)
#include <cpuid.h>

static void cpuid_here(void *user, uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  (void)user;
  __cpuid_count(leaf, subleaf, out[EAX], out[EBX], out[ECX], out[EDX]);
}

static uint64_t xgetbv_here(void *user) {
  (void)user;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

unsigned attn_cpu_features_here(void) {
  const attn_cpuid_source source = {cpuid_here, xgetbv_here, 0};
  return attn_cpu_features(&source);
}
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

unsigned attn_cpu_features_here(void) {
  return getauxval(AT_HWCAP) & HWCAP_ASIMD ? ATTN_CPU_NEON : 0;
}
#else
unsigned attn_cpu_features_here(void) { return 0; }
#endif
