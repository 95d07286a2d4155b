/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Every wrapper of simd/isa.h by itself against scalar code, and exp2 against the installed SLEEF.
 * Compiled once per instruction set, as the kernels are. */

#include "vector.h"

#include "check.h"
#include "guard.h"
#include "random.h"
#include "simd/vector_math.h"
#include <stdlib.h>

#ifdef ATTN_GENERIC_FMA
#define FUSED 1
#elif defined(ATTN_ISA_generic)
#define FUSED 0
#else
#define FUSED 1
#endif

static const float specials[] = {0.0f,    -0.0f,      1.0f,        -1.0f,  0.5f,       1.5f,
                                 -2.75f,  3e38f,      -3e38f,      1e-38f, -1e-38f,    1e-45f,
                                 -1e-42f, INFINITY,   -INFINITY,   NAN,    16777216.f, 0.1f,
                                 -126.0f, 1.0000001f, 0.99999994f, 88.0f,  -103.9f,    7e-20f};
enum { SPECIALS = sizeof(specials) / sizeof(specials[0]) };

/* Calls body for many vectors of three operands: all pairs of specials, then random bits. */
typedef void (*operand_body)(const float *a, const float *b, const float *c);

static void for_operands(operand_body body) {
  float a[V_LANES], b[V_LANES], c[V_LANES];
  for (int n = 0; n < SPECIALS * SPECIALS; n += V_LANES) {
    for (int i = 0; i < V_LANES; i++) {
      int at = (n + i) % (SPECIALS * SPECIALS);
      a[i] = specials[at / SPECIALS];
      b[i] = specials[at % SPECIALS];
      c[i] = specials[(at * 7 + 3) % SPECIALS];
    }
    body(a, b, c);
  }
  for (uint64_t n = 0; n < 20000; n++) {
    for (uint64_t i = 0; i < V_LANES; i++) {
      a[i] = sm(1, n * V_LANES + i) * 3;
      b[i] = sm(2, n * V_LANES + i);
      c[i] = n % 2 ? -a[i] * b[i] : sm(3, n * V_LANES + i); /* cancellation shows the rounding */
    }
    body(a, b, c);
  }
}

/* Equal in bits, or both NaN. */
static bool same(float a, float b) {
  return float_bits(a) == float_bits(b) || (isnan(a) && isnan(b));
}

static void compare(const char *what, v_f32 got, const float *want) {
  float out[V_LANES];
  v_store(out, got);
  for (int i = 0; i < V_LANES; i++)
    check_report(same(out[i], want[i]), __FILE__, __LINE__,
                 "%s lane %d: got %.9g (%08x), want %.9g", what, i, (double)out[i],
                 float_bits(out[i]), (double)want[i]);
}

#define COMPARE(wrapper, scalar)                                                                   \
  do {                                                                                             \
    float want[V_LANES];                                                                           \
    for (int i = 0; i < V_LANES; i++) want[i] = (scalar);                                          \
    compare(#wrapper, wrapper, want);                                                              \
  } while (0)

static float fused(float a, float b, float c) {
  /* Both steps stored: an excess of precision would be a third answer. */
  volatile float product = a * b, sum = product + c;
  return FUSED ? fmaf(a, b, c) : sum;
}

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

static void arithmetic(const float *a, const float *b, const float *c) {
  v_f32 va = v_load(a), vb = v_load(b), vc = v_load(c);
  COMPARE(v_add(va, vb), a[i] + b[i]);
  COMPARE(v_sub(va, vb), a[i] - b[i]);
  COMPARE(v_mul(va, vb), a[i] * b[i]);
  COMPARE(v_div(va, vb), a[i] / b[i]);
  COMPARE(v_fma(va, vb, vc), fused(a[i], b[i], c[i]));
  COMPARE(v_max(va, vb), a[i] > b[i] ? a[i] : b[i]);
  COMPARE(v_xor(va, vb), from_bits(float_bits(a[i]) ^ float_bits(b[i])));
  COMPARE(v_shl23(va), from_bits(float_bits(a[i]) << 23));
  COMPARE(v_canonical_nan(va), isnan(a[i]) ? from_bits(0x7fc00000) : a[i]);
}

/* v_max must give the second operand's very bits for NaN and for zeros of either sign. */
static void maximum(const float *a, const float *b, const float *c) {
  (void)c;
  float out[V_LANES];
  v_store(out, v_max(v_load(a), v_load(b)));
  for (int i = 0; i < V_LANES; i++)
    CHECK_INT(float_bits(out[i]), float_bits(a[i] > b[i] ? a[i] : b[i]));
  v_store(out, v_canonical_nan(v_load(a)));
  for (int i = 0; i < V_LANES; i++)
    if (isnan(a[i])) CHECK_INT(float_bits(out[i]), 0x7fc00000);
}

static void choice(const float *a, const float *b, const float *c) {
  v_f32 va = v_load(a), vb = v_load(b), vc = v_load(c);
  COMPARE(v_select(v_lt(va, vb), vb, vc), a[i] < b[i] ? b[i] : c[i]);
  COMPARE(v_select(v_eq(va, vb), vb, vc), a[i] == b[i] ? b[i] : c[i]);
  COMPARE(v_select(v_unordered(va), vb, vc), isnan(a[i]) ? b[i] : c[i]);
  COMPARE(v_keep(v_lt(va, vb), vc), a[i] < b[i] ? c[i] : 0.0f);
  COMPARE(v_drop(v_lt(va, vb), vc), a[i] < b[i] ? 0.0f : c[i]);
  bool all = true;
  for (int i = 0; i < V_LANES; i++) all = all && a[i] < b[i];
  CHECK_INT(v_all(v_lt(va, vb)) != 0, all);
}

/* Masks from integers, of every position of the border. */
static void integers(void) {
  float one[V_LANES], want[V_LANES];
  for (int i = 0; i < V_LANES; i++) one[i] = (float)(i + 1);
  for (int32_t n = -2; n <= V_LANES + 1; n++) {
    for (int i = 0; i < V_LANES; i++) want[i] = i >= n ? one[i] : 0.0f;
    compare("v_ge_i(iota, n)", v_keep(v_ge_i(v_iota_i(), v_set1_i(n)), v_load(one)), want);
    for (int i = 0; i < V_LANES; i++) want[i] = n >= i ? one[i] : 0.0f;
    compare("v_ge_i(n, iota)", v_keep(v_ge_i(v_set1_i(n), v_iota_i()), v_load(one)), want);
    CHECK_INT(v_all(v_ge_i(v_set1_i(n), v_iota_i())) != 0, n >= V_LANES - 1);
    CHECK_INT(v_all(v_ge_i(v_iota_i(), v_set1_i(n))) != 0, n <= 0);
  }
  compare("v_ge_i extremes", v_keep(v_ge_i(v_set1_i(INT32_MIN), v_set1_i(INT32_MAX)), v_load(one)),
          (const float[V_LANES]){0});
  CHECK(v_all(v_ge_i(v_set1_i(INT32_MAX), v_set1_i(INT32_MIN))));
}

/* Loads and stores of n lanes, at all alignments, against unreadable pages on either side. */
static void memory(void) {
  float from[V_LANES], want[V_LANES];
  for (int i = 0; i < V_LANES; i++) from[i] = (float)(i + 1);
  for (int64_t n = 0; n <= V_LANES; n++)
    for (int side = GUARD_BEFORE; side <= GUARD_AFTER; side++) {
      check_context("%lld of %d lanes, guard %s", (long long)n, V_LANES, side ? "after" : "before");
      guarded g = guard_alloc((size_t)n * sizeof(float), (guard_side)side);
      float *p = g.data;
      v_store_n(p, v_load(from), n);
      for (int64_t i = 0; i < n; i++) CHECK(p[i] == from[i]);
      for (int i = 0; i < V_LANES; i++) want[i] = i < n ? from[i] : 0.0f;
      compare("v_load_n", v_load_n(p, n), want);
      if (n == V_LANES) {
        v_store(p, v_load(p));
        compare("v_load", v_load(p), from);
      }
      if (n > 0) {
        for (int i = 0; i < V_LANES; i++) want[i] = from[n - 1];
        compare("v_broadcast", v_broadcast(p + n - 1), want);
      }
      CHECK(guard_intact(&g));
      guard_free(&g);
    }
  float room[3 * V_LANES];
  for (int64_t at = 0; at < V_LANES; at++)
    for (int64_t n = 0; n <= V_LANES; n++) {
      for (int i = 0; i < 3 * V_LANES; i++) room[i] = -1.0f;
      v_store_n(room + at, v_load(from), n);
      for (int i = 0; i < 3 * V_LANES; i++)
        CHECK(room[i] == (i >= at && i < at + n ? from[i - at] : -1.0f));
    }
  for (int i = 0; i < V_LANES; i++) want[i] = -3.5f;
  compare("v_set1", v_set1(-3.5f), want);
  compare("v_zero", v_zero(), (const float[V_LANES]){0});
}

static void transpose(void) {
  v_f32 rows[V_LANES];
  float in[V_LANES], want[V_LANES];
  for (int r = 0; r < V_LANES; r++) {
    for (int i = 0; i < V_LANES; i++) in[i] = (float)(r * V_LANES + i);
    rows[r] = v_load(in);
  }
  v_transpose(rows);
  for (int r = 0; r < V_LANES; r++) {
    for (int i = 0; i < V_LANES; i++) want[i] = (float)(i * V_LANES + r);
    compare("v_transpose", rows[r], want);
  }
}

/* Every part of V_COLUMNS columns, for rows close together and apart, of which the last ends where memory does. */
static void load_columns(void) {
  for (int64_t stride = V_COLUMNS; stride <= V_COLUMNS + 3; stride++) {
    const int64_t floats = (V_LANES - 1) * stride + V_COLUMNS;
    guarded g = guard_alloc((size_t)floats * sizeof(float), GUARD_AFTER);
    float *p = g.data;
    for (int64_t i = 0; i < floats; i++) p[i] = (float)i;
    V_UNROLL for (int part = 0; part < V_COLUMNS / 4; part++) {
      v_f32 column[4];
      v_load_columns(column, p, stride, part);
      for (int c = 0; c < 4; c++) {
        float want[V_LANES];
        for (int r = 0; r < V_LANES; r++) want[r] = (float)(r * stride + part * 4 + c);
        check_context("column %d of part %d, rows %lld apart", c, part, (long long)stride);
        compare("v_load_columns", column[c], want);
      }
    }
    CHECK(guard_intact(&g));
    guard_free(&g);
  }
}

/* The library's function of the kind that this set must agree with: without FMA for generic, where
 * a vector of it takes a quarter of the time of the scalar one that the wrapper calls. */
static v_f32 library_exp2(v_f32 d) {
#if defined(ATTN_ISA_generic) && !defined(ATTN_GENERIC_FMA) && defined(__x86_64__)
  return (v_f32)Sleef_cinz_exp2f4_u10sse2((__m128)d);
#elif defined(ATTN_ISA_generic) && defined(__FMA__)
  return (v_f32)Sleef_finz_exp2f4_u10avx2128((__m128)d);
#else
  return v_sleef_exp2(d);
#endif
}

/* exp2 of 1024 floats from `bits` on, `stride` apart: the wrapper against the library. Returns in
 * how many vectors they differ. */
static uint64_t exp2_differs(uint32_t bits, uint32_t stride) {
  enum { AT_ONCE = 1024 };
  uint32_t in[AT_ONCE];
  float x[AT_ONCE];
  for (uint32_t i = 0; i < AT_ONCE; i++) in[i] = bits + i * stride;
  memcpy(x, in, sizeof(x));
  uint64_t count = 0;
  for (int i = 0; i < AT_ONCE; i += V_LANES) {
    v_f32 d = v_load(x + i), got = v_exp2(d);
    /* Equal as numbers: neither is NaN or -0 here. */
    count += !v_all(v_eq(got, library_exp2(d)));
    if (stride > 1) count += !v_all(v_eq(got, v_exp2_sleef(d)));
  }
  return count;
}

/* All of [-126, -0], or every 257th float. */
static void exp2_equals_sleef(void) {
  const uint32_t first = 0x80000000u, last = float_bits(-126.0f);
  const uint32_t stride = check_full() ? 1 : 257;
  uint64_t bad = 0, blocks = 0;
  for (uint64_t bits = first; bits + 1023u * (uint64_t)stride <= last;
       bits += 1024u * (uint64_t)stride)
    bad += exp2_differs((uint32_t)bits, stride), blocks++;
  bad += exp2_differs(last - 1023u, 1); /* the end, whole */
  check_context("exp2 on %llu floats of [-126, -0]", (unsigned long long)(blocks * 1024));
  CHECK_INT(bad, 0);
}

static void exp2_elsewhere(void) {
  static const float zero[] = {-126.00001f, -127.0f,   -149.0f, -150.0f, -1000.0f,
                               -3e38f,      -INFINITY, -126.5f, -200.0f, -1e10f};
  float want[V_LANES];
  check_context("exp2 below -126, of 0 and of NaN");
  for (size_t n = 0; n < sizeof(zero) / sizeof(zero[0]); n++) {
    for (int i = 0; i < V_LANES; i++) want[i] = 0.0f;
    compare("v_exp2", v_exp2(v_set1(zero[n])), want);
    compare("v_exp2_sleef", v_exp2_sleef(v_set1(zero[n])), want);
  }
  for (uint32_t bits = float_bits(-126.0f) + 1; bits < float_bits(-INFINITY); bits += 4093) {
    float out[V_LANES];
    v_store(out, v_exp2(v_set1(from_bits(bits))));
    if (float_bits(out[0]) != 0 || float_bits(out[V_LANES - 1]) != 0)
      check_report(false, __FILE__, __LINE__, "v_exp2(%g) is %g", (double)from_bits(bits),
                   (double)out[0]);
  }
  static const float exact[][2] = {
      {0.0f, 1.0f}, {-0.0f, 1.0f}, {-1.0f, 0.5f}, {-2.0f, 0.25f}, {-126.0f, 0x1p-126f}};
  for (size_t n = 0; n < sizeof(exact) / sizeof(exact[0]); n++) {
    for (int i = 0; i < V_LANES; i++) want[i] = exact[n][1];
    compare("v_exp2", v_exp2(v_set1(exact[n][0])), want);
  }
  for (int i = 0; i < V_LANES; i++) want[i] = NAN;
  compare("v_exp2", v_exp2(v_set1(NAN)), want);
  compare("v_exp2", v_exp2(v_set1(from_bits(0xffc12345))), want);
  compare("v_exp2_sleef", v_exp2_sleef(v_set1(NAN)), want);
}

/* Within one unit in the last place of the true value, over what sums of weights can be. */
static void logarithm(void) {
  check_context("log");
  for (uint32_t bits = float_bits(0x1p-126f); bits < float_bits(1e12f); bits += 65521) {
    float out[V_LANES], x = from_bits(bits);
    v_store(out, v_log(v_set1(x)));
    double want = log((double)x);
    if (fabs((double)out[0] - want) > fabs(want) * 0x1p-23 + 1e-45)
      check_report(false, __FILE__, __LINE__, "log(%.9g) is %.9g", (double)x, (double)out[0]);
  }
  float want[V_LANES];
  for (int i = 0; i < V_LANES; i++) want[i] = 0.0f;
  compare("v_log(1)", v_log(v_set1(1.0f)), want);
  for (int i = 0; i < V_LANES; i++) want[i] = NAN;
  compare("v_log(NaN)", v_log(v_set1(NAN)), want);
}

void vector_checks(void) {
  memory();
  integers();
  transpose();
  load_columns();
  check_context("arithmetic");
  for_operands(arithmetic);
  for_operands(maximum);
  for_operands(choice);
  exp2_elsewhere();
  exp2_equals_sleef();
  logarithm();
}
