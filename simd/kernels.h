/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The one door between engine/ and simd/: what a kernel is asked to do, and the table of kernels of an
 * instruction set. simd/ knows nothing of engine/, of OpenMP, or of the public headers. */
#ifndef ATTN_SIMD_KERNELS_H
#define ATTN_SIMD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Constants of the canonical arithmetic (docs/numerics.md): the same on every instruction set,
 * changing one changes result bits everywhere. */
enum {
  ATTN_DOT_RUN = 256,   /* terms of a dot product added in one run */
  ATTN_KEY_BLOCK = 128, /* keys per step of the online softmax, at multiples of it */
  ATTN_KEY_CHUNK = 512, /* keys per leaf of the merge tree; a multiple of ATTN_KEY_BLOCK */
  ATTN_WEIGHT_SUMS = 8  /* partial sums of the weights of a block, by key index modulo this */
};

/* Keys that lie side by side where they are interleaved: element (key, dim) of a group is at dim * ATTN_KEY_GROUP + key.
 * One line of memory, and whole vectors of every instruction set. */
enum { ATTN_KEY_GROUP = 16 };

/* Where dim 0 of a slot is, from slot 0; dims are ATTN_KEY_GROUP apart. */
static inline int64_t attn_interleaved_at(int64_t slot, int64_t head_size) {
  return slot / ATTN_KEY_GROUP * ATTN_KEY_GROUP * head_size + slot % ATTN_KEY_GROUP;
}

/* So many slots, up to the end of the last one's group. */
static inline int64_t attn_whole_groups(int64_t slots) {
  return (slots + ATTN_KEY_GROUP - 1) / ATTN_KEY_GROUP * ATTN_KEY_GROUP;
}

/* Fills keep[j * key_stride + i * lane_stride], for keys key + j, j < keys, and lanes lane + i, i < lanes,
 * with 0 where the weight is dropped and 1 where it is kept. */
typedef void (*attn_dropout_fn)(const void *user, int64_t lane, int64_t lanes, int64_t lane_stride,
                                int64_t key, int64_t keys, int64_t key_stride, float *keep);

/* One kv head, a run of its queries, a run of its keys.
 *
 * The queries that read one kv head are numbered as lanes: lane n is query row n / group of the n % group-th
 * of the heads that share the kv head. Row i sees keys kv_begin ... attn_last_key(i). */
static inline int64_t attn_last_key(int64_t row, int64_t diagonal, int64_t kv_len) {
  return row + diagonal < kv_len - 1 ? row + diagonal : kv_len - 1;
}

/* Rows `row` apart, with elements `dim` apart, close together. */
static inline void attn_copy_rows(float *to, const float *from, int64_t row, int64_t dim,
                                  int64_t size, int64_t rows) {
  for (int64_t j = 0; j < rows; j++, to += size, from += row) {
    if (dim == 1) {
      memcpy(to, from, (size_t)size * sizeof(float));
    } else {
      for (int64_t d = 0; d < size; d++) to[d] = from[d * dim];
    }
  }
}

typedef struct attn_attention_task {
  const float *q; /* row 0, first head of the group */
  int64_t q_head, q_row, q_dim;
  const float *k; /* key 0; with pages, slot 0 of page 0 */
  int64_t k_row, k_dim;
  /* In pages: keys of every ATTN_KEY_GROUP slots side by side. k_row = head_size and k_dim = 1 tell where groups lie. */
  bool k_interleaved;
  const float *v;
  int64_t v_row, v_dim;
  const int32_t *table; /* the sequence's pages; NULL: keys are k_row apart from first to last */
  int64_t table_width, page_size, slot; /* key 0 has that slot */
  int64_t k_page, v_page;
  /* Keys and values come from memory: the call has more than a core's caches hold. */
  bool streaming;
  int64_t head_size, value_size;
  int64_t group;
  int64_t lane, lanes; /* at most attn_kernels.max_lanes */
  int64_t kv_begin, kv_len;
  int64_t diagonal;
  int64_t chunk_begin, chunk_end; /* in chunks; a whole subtree of the merge tree, or all */
  float scale;
  attn_dropout_fn dropout; /* NULL: none */
  const void *dropout_user;
  float dropout_scale; /* of the output */
  float *o;            /* row 0, first head of the group */
  int64_t o_head, o_row, o_dim;
  float *lse; /* may be NULL */
  int64_t lse_head, lse_row;
  float *state; /* not NULL: store the unnormalised state of these chunks here, and no output */
  /* NULL, or what is probably asked next, for prefetching: queries, keys and lanes alone, no states and no dropout. */
  const struct attn_attention_task *next;
} attn_attention_task;

/* A state of some lanes as tasks exchange it: maxima, sums, each padded, then the unnormalised values of
 * one lane after the other, padded. The same whatever computes it. */
static inline int64_t attn_state_pad(int64_t n) { return (n + 15) / 16 * 16; }
static inline int64_t attn_state_floats(int64_t value_size, int64_t lanes) {
  return 2 * attn_state_pad(lanes) + lanes * attn_state_pad(value_size);
}

/* y[r][n] = sum_k x[r][k] w[k][n] + bias[n] for n in [0, columns), w in panels as packed by
 * engine/linear.c: w[(n / panel * depth + k) * panel + n % panel]. */
typedef struct attn_linear_task {
  const float *x;
  int64_t x_row;
  int64_t rows;
  const float *w;
  const float *bias; /* padded to whole panels; NULL: none */
  int64_t depth, columns;
  float *y;
  int64_t y_row;
} attn_linear_task;

typedef struct attn_kernels {
  const char *isa;
  const char *exp;
  bool exp_sleef;    /* call libsleef for the exponential */
  int32_t vector;    /* floats per vector */
  int32_t lanes;     /* query lanes per register tile */
  int32_t max_lanes; /* most lanes of one task */
  int32_t rows;      /* rows per register tile */
  int32_t panel;     /* columns per panel of packed weights */
  void (*attention)(const struct attn_kernels *, const attn_attention_task *, void *workspace);
  /* Merges the states of subtrees [first, first + count) of equal size, `stride` floats apart,
   * and stores the output of the task's lanes. */
  void (*combine)(const attn_attention_task *, const float *states, int64_t first, int64_t count,
                  size_t stride, void *workspace);
  void (*linear)(const attn_linear_task *, void *workspace);
  /* Rows of keys, `row` apart, their elements `dim` apart, into slots [slot, slot + rows) of interleaved ones, of which
   * slot 0 is at `keys`. */
  void (*interleave)(float *keys, int64_t slot, const float *from, int64_t row, int64_t dim,
                     int64_t size, int64_t rows);
  /* Bytes. Workspaces start on 64-byte boundaries. Of the task, sizes, lanes, chunks, and whether there are
   * pages and dropout are looked at. */
  size_t (*attention_workspace)(const attn_attention_task *);
  size_t (*linear_workspace)(int64_t rows);
  size_t (*combine_workspace)(const attn_attention_task *, int64_t count);
  /* Runs n rounds of independent multiply-adds in registers; returns how many floating-point
   * operations that was. For measuring the peak. */
  double (*peak)(int64_t n);
} attn_kernels;

/* ---- the list of instruction sets ---- */

/* Names of all that there are, on any processor; NULL past the end. */
const char *attn_kernels_known(int i);
/* Names of all that were compiled in, widest last; NULL past the end. */
const char *attn_kernels_name(int i);
/* NULL when the name is not compiled in. */
const attn_kernels *attn_kernels_find(const char *isa, bool exp_sleef);
bool attn_kernels_supported(const attn_kernels *kernels);
/* The widest that this machine can run. */
const attn_kernels *attn_kernels_best(bool exp_sleef);

/* ---- floating-point environment of a computing thread ---- */

typedef struct attn_fpmode {
  uint64_t saved;
} attn_fpmode;
/* Round to nearest, no flushing of subnormals, until attn_fpmode_leave gives the old mode back. */
attn_fpmode attn_fpmode_enter(void);
void attn_fpmode_leave(attn_fpmode mode);

#endif
