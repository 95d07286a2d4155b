/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What is to be computed, validated and with every default resolved. Pure data. */
#ifndef ATTN_ENGINE_PROBLEM_H
#define ATTN_ENGINE_PROBLEM_H

#include <attn/attn.h>

#include "simd/kernels.h"

enum { ATTN_MAX_HEAD_SIZE = 1024 };
/* Of lengths and counts: a key's index is an int32 in the kernels. */
#define ATTN_MAX_EXTENT ((int64_t)INT32_MAX)

typedef struct attn_problem {
  attn_params params; /* has_scale and has_num_threads are true */
  const attn_kernels *kernels;
  int64_t group; /* query heads per kv head */
  bool ragged;   /* sequences may differ */
  bool dropout;
  double cost;      /* multiply-adds over visible pairs */
  int64_t kv_bytes; /* of the keys and values that a call reads, each counted once */
} attn_problem;

/* Sequence n of a batch. Row i sees keys kv_begin <= j <= i + diagonal, j < kv_len. */
typedef struct attn_sequence {
  int64_t batch, q_row;     /* where its rows begin in q, o and lse */
  int64_t kv_batch, kv_row; /* where key 0 lies in k and v; with pages, kv_row is its slot */
  int64_t q_len, kv_len;    /* keys are [kv_begin, kv_len) */
  int64_t kv_begin, diagonal;
} attn_sequence;

attn_sequence attn_problem_sequence(const attn_problem *problem, int64_t n);
/* The room that it has, before q_lens and the other lengths say how much of it is used. */
attn_sequence attn_sequence_room(const attn_params *params, int64_t n);

/* Copies the fields that `theirs` has, into `ours` as initialised; refuses a newer struct whose
 * unknown tail is not zero. `name` is for the message. */
attn_status attn_copy_params(const char *name, void *ours, size_t our_size, const void *theirs);

/* Checks shapes and options, not pointers. In messages `lengths_prefix` stands before the fields of params.lengths:
 * "lengths.", or "" where the caller knows them from another struct. */
attn_status attn_problem_shape(const attn_params *params, const char *lengths_prefix,
                               attn_problem *problem);
/* Checks everything. */
attn_status attn_problem_init(const attn_params *params, attn_problem *problem);

/* attn_forward() on kernels chosen earlier, as a layer does. */
attn_status attn_forward_with(attn_context *context, const attn_params *params,
                              const attn_kernels *kernels);

/* Copies a resolved struct out to a caller, as much as theirs has room for; its size stays theirs. */
attn_status attn_copy_out(const char *name, void *theirs, const void *ours, size_t our_size);

/* 1/sqrt(head_size) in double, rounded to float, whatever the caller's rounding mode. */
float attn_default_scale(int64_t head_size);

/* `limit` tells to what `most` is due; NULL: it is always the same. */
attn_status attn_check_range(const char *name, int64_t value, int64_t least, int64_t most,
                             const char *limit);
/* The same for entry i of the array that is called `prefix` and `name`. */
attn_status attn_check_entry(const char *prefix, const char *name, int64_t i, int64_t value,
                             int64_t least, int64_t most, const char *limit);
attn_status attn_check_heads(int64_t q_heads, int64_t kv_heads);
attn_status attn_check_scale(bool has_scale, float scale);
attn_status attn_check_dropout(const attn_dropout *dropout);
/* `page_size_name` as the caller knows it; NULL: there are no pages. */
attn_status attn_check_key_layout(attn_key_layout layout, const char *page_size_name,
                                  int64_t page_size);
/* Also resolves the default. */
attn_status attn_check_threads(bool has_num_threads, int32_t num_threads, int32_t *threads);

/* Multiply-adds over visible pairs of one kv head. For callers in the library's floating-point mode. */
double attn_sequence_cost(const attn_problem *problem, const attn_sequence *sequence);

/* Which weights are kept: attn_attention_task.dropout. */
typedef struct attn_dropout_lanes {
  const attn_problem *problem;
  const attn_sequence *sequence;
  int64_t n, kv_head;
} attn_dropout_lanes;
void attn_dropout_keep(const void *dropout_lanes, int64_t lane, int64_t lanes, int64_t lane_stride,
                       int64_t key, int64_t keys, int64_t key_stride, float *keep);
/* 1/(1 - rate), and 0 for rate 1, which keeps nothing. */
float attn_dropout_scale(double rate);

#endif
