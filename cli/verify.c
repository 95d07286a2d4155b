/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* How far a result is from the truth. */
#include "job.h"

#include <math.h>

#define EPS 0x1p-23 /* of float32 */

/* NaN and infinities must be met exactly: they have no distance. */
static double distance(double got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (got == want) return 0;
  double d = fabs(got - want);
  return isfinite(d) ? d : INFINITY;
}

void verify(check *c) {
  double squares = 0, wanted = 0;
  c->worst = 0;
  c->worst_row = 0;
  c->exact = true;
  for (int64_t row = 0; row < c->rows; row++) {
    double largest = 0;
    for (int64_t i = row * c->columns; i < (row + 1) * c->columns; i++) {
      double got = (double)c->got[i], d = distance(got, c->want[i]);
      if (d > largest) largest = d;
      if (distance(got, (double)(float)c->want[i]) != 0) c->exact = false;
      if (!isfinite(c->want[i]) && d == 0) continue;
      squares += d * d;
      wanted += c->want[i] * c->want[i];
    }
    double units = largest == 0 ? 0 : largest / (EPS * (double)c->unit[row]);
    if (!(units >= 0)) units = INFINITY; /* a unit that is NaN or negative allows nothing */
    if (units > c->worst) {
      c->worst = units;
      c->worst_row = row;
    }
  }
  c->rms = squares == 0 ? 0 : sqrt(squares / wanted) / EPS;
  c->ok = c->worst <= c->allowed;
}

double visible_pairs(int64_t q_len, int64_t kv_len, bool causal) {
  double rows = (double)q_len, most = (double)kv_len;
  if (!causal) return rows * most;
  /* The last row sees all keys, each one before it one less. */
  double seeing = rows < most ? rows : most;
  return seeing * (most + most - seeing + 1) / 2;
}
