/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The dropout mask: a pure function of (seed, offset, batch, query head, absolute query position,
 * key), so that no split of the work can change it. Two steps of Philox: the first turns (seed;
 * offset, batch, head) into a key of its own, the second maps (position, key / 4) to four words. */

#include "philox.h"
#include "problem.h"

#include <math.h>

/* A weight is kept when its 32-bit word is at least this; 2^32 keeps none. */
static uint64_t threshold(double rate) { return (uint64_t)nearbyint(ldexp(rate, 32)); }

static uint64_t stream(const attn_dropout *dropout, int64_t batch, int64_t head) {
  const attn_philox p =
      attn_philox4x32(dropout->offset, (uint64_t)batch << 32 | (uint64_t)head, dropout->seed);
  return (uint64_t)p.word[1] << 32 | p.word[0];
}

static void draw(const attn_dropout *dropout, uint64_t key_of_head, int64_t position, int64_t key,
                 int64_t keys, int64_t stride, float *out) {
  const uint64_t least = threshold(dropout->rate);
  attn_philox p = {{0}};
  for (int64_t j = key; j < key + keys; j++) {
    if (j == key || j % 4 == 0) {
      p = attn_philox4x32((uint64_t)(j / 4), (uint64_t)position, key_of_head);
    }
    *out = p.word[j % 4] >= least ? 1.0f : 0.0f;
    out += stride;
  }
}

static void recorded(const attn_keep_mask *keep, int64_t batch, int64_t head, int64_t row,
                     int64_t key, int64_t keys, int64_t stride, float *out) {
  const uint8_t *k = keep->data + batch * keep->batch_stride + head * keep->head_stride +
                     row * keep->row_stride + key * keep->key_stride;
  for (int64_t j = 0; j < keys; j++) {
    *out = *k ? 1.0f : 0.0f;
    out += stride;
    k += keep->key_stride;
  }
}

float attn_dropout_scale(double rate) { return rate < 1.0 ? (float)(1.0 / (1.0 - rate)) : 0.0f; }

void attn_dropout_keep(const void *dropout_lanes, int64_t lane, int64_t lanes, int64_t lane_stride,
                       int64_t key, int64_t keys, int64_t key_stride, float *keep) {
  const attn_dropout_lanes *d = dropout_lanes;
  const attn_sequence *s = d->sequence;
  const attn_dropout *dropout = &d->problem->params.dropout;
  for (int64_t i = 0; i < lanes; i++, keep += lane_stride) {
    const int64_t row = (lane + i) / d->problem->group;
    const int64_t head = d->kv_head * d->problem->group + (lane + i) % d->problem->group;
    const int64_t position = row + s->kv_len - s->q_len;
    /* Entries of keys that the row does not see are not read. */
    int64_t begin = s->kv_begin > key ? s->kv_begin - key : 0;
    int64_t end = attn_last_key(row, s->diagonal, s->kv_len) + 1 - key;
    end = end < keys ? end : keys;
    begin = begin < end ? begin : end;
    if (end > 0 && dropout->keep.data) {
      recorded(&dropout->keep, d->n, head, row, key + begin, end - begin, key_stride,
               keep + begin * key_stride);
    } else if (end > 0) {
      draw(dropout, stream(dropout, d->n, head), position, key + begin, end - begin, key_stride,
           keep + begin * key_stride);
    }
    for (int64_t j = 0; j < keys; j++) {
      if (j < begin || j >= end) keep[j * key_stride] = 0.0f;
    }
  }
}
