/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The workloads, as data. A line in workloads.c makes a benchmark. */
#ifndef ATTN_PERF_WORKLOADS_H
#define ATTN_PERF_WORKLOADS_H

#include <stdbool.h>
#include <stdint.h>

/* PERF_CACHED is attention to keys and values that lie as in an attn_cache, in pages or, without, in one page for each
 * sequence, which few queries read: decode, or with it a chunk of a prompt. */
typedef enum perf_kind { PERF_ATTENTION, PERF_LAYER, PERF_CACHED } perf_kind;

typedef struct perf_workload {
  const char *name;
  const char *what; /* for --help */
  perf_kind kind;
  int64_t batch, heads, kv_heads, q_len, kv_len, head_size;
  int64_t d_model; /* of layers */
  /* The rest is for PERF_CACHED. */
  int64_t least;     /* not 0: lengths from that one to kv_len, evenly spread over the sequences */
  int64_t page_size; /* 0: no pages */
  int64_t
      chunk; /* not 0: the first sequence has so many rows, kv_len keys, and no part in `least` */
  bool keys_in_rows; /* as plain arrays have them; else interleaved */
} perf_workload;

extern const perf_workload perf_workloads[];
extern const int perf_workload_count;

typedef struct perf_sequence {
  int64_t q_len, kv_len;
} perf_sequence;

/* The n-th of the batch. */
perf_sequence perf_sequence_of(const perf_workload *workload, int64_t n);
/* Slots of its pages; without pages, of the one that each sequence has. */
int64_t perf_page_size(const perf_workload *workload);
/* Query rows of all sequences, which lie one behind the other as (row, head, dim). */
int64_t perf_rows(const perf_workload *workload);

/* What one call needs at least, whatever the kernel does: no padding, no masked half of a block. */
typedef struct perf_work {
  double
      fmas; /* multiply-adds of the dot products of visible pairs, and of a layer's projections */
  double exps;     /* exponentials: one per visible pair */
  double bytes;    /* every input and weight read once, every output written once; a layer's q, k, v
                   and heads' outputs written and read once each: they exceed the caches */
  double kv_bytes; /* those of keys and values, which are all that decode waits for */
} perf_work;

perf_work perf_work_of(const perf_workload *workload);

/* Floating-point operations of one call: two per multiply-add. */
double perf_flops(const perf_workload *workload);

#endif
