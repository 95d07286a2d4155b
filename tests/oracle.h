/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Attention and the layer in double, written to be read: the truth that tests compare with, and
 * how far a float result may be from it. Uses the public parameter structs and nothing else of
 * the library. */
#ifndef ATTN_TESTS_ORACLE_H
#define ATTN_TESTS_ORACLE_H

#include <attn/attn.h>
#include <attn/layer.h>

/* Where a sequence lies, and what of it there is, as attn_lengths says. */
typedef struct oracle_sequence {
  int64_t q_batch, q_row, q_len;
  int64_t kv_batch, kv_row, kv_len; /* with pages, kv_row is the slot of key 0 */
  int64_t kv_begin;                 /* keys before it are gone */
} oracle_sequence;
oracle_sequence oracle_sequence_of(const attn_params *p, int64_t n);

/* o and lse are (oracle_batch, q_heads, q_len, ...): 1 when sequences lie one behind the other. */
int64_t oracle_batch(const attn_params *p);

/* Dense arrays, (oracle_batch, q_heads, q_len, value_size) and (oracle_batch, q_heads, q_len). Rows that are
 * no sequence's have units of -1.
 *
 * `unit` is how large the error of a row gets when every elementary result carries an independent
 * relative error of 1: a float result r is right when |r - o| <= c * 2^-23 * unit for every
 * element, c = 8 for attention and 16 for a layer. The same for lse with lse_unit and c = 4. */
typedef struct oracle_result {
  double *o;
  double *lse;
  double *unit;
  double *lse_unit;
} oracle_result;

/* Reads q, k, v, lengths, pages, causal, scale, and dropout when it is a recorded mask. Nothing but
 * the keys that are there is read. `exact_scores`: scores carry no rounding error (powers of two). */
oracle_result oracle_attention(const attn_params *p, bool exact_scores);
void oracle_free(oracle_result *r);

/* y and unit[row] of a layer on dense x (batch, len, d_model); both freed by the caller.
 * config->has_num_kv_heads and the other optional values are honoured. */
void oracle_layer(const attn_layer_config *config, const attn_layer_weights *weights, int64_t batch,
                  int64_t len, const float *x, const attn_dropout *dropout, double **y,
                  double **unit);

/* Worst |got - o| / (2^-23 * unit) over the rows of all sequences; infinite for a wrong NaN, Inf or a
 * row that must be exactly 0. got is read through its strides. */
double oracle_worst_o(const attn_params *p, const oracle_result *r);
double oracle_worst_lse(const attn_params *p, const oracle_result *r);

/* |got - want| in units of 2^-23 * unit: 0 for equal infinities and for NaN where NaN is due,
 * infinite for any other non-finite value. */
double oracle_error(double got, double want, double unit);

#endif
