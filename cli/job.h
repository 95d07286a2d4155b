/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* One thing to run: a layer or an attention problem with its files, its buffers, and what is known of
 * the right answer. */
#ifndef ATTN_CLI_JOB_H
#define ATTN_CLI_JOB_H

#include "cli.h"

/* A result to be compared row by row with the truth. */
typedef struct check {
  const char *name;   /* of the tensor that holds the truth */
  const char *result; /* of the result that is compared */
  const float *got;
  double *want; /* (rows, columns) */
  float *unit;  /* (rows): tolerance unit of each row */
  int64_t rows, columns;
  double allowed; /* tolerance units */

  double worst; /* largest error in tolerance units; infinite when a NaN or Inf is wrong */
  int64_t worst_row;
  double rms; /* rms(got - want) / rms(want), in float32 roundings (2^-23) */
  bool exact; /* equal once the truth is rounded to float */
  bool ok;
} check;

enum { MAX_FILES = 2, MAX_BUFFERS = 8, MAX_CHECKS = 3, MAX_RESULTS = 2 };

typedef struct job {
  const char *path; /* of the case, or of the input */
  const char *form; /* "nnx", "linen", "core"; "layer" for --weights */
  char shape[160];  /* for people: "B 3, T 257, d_model 128, heads 4, head size 32" */
  double flops;     /* of one run, visible pairs only */

  attn_file *files[MAX_FILES]; /* the case or the input; where the weights are, if elsewhere */
  const char *params_path;     /* of a case's params_file; NULL: none */
  void *buffers[MAX_BUFFERS];
  int buffer_count;

  attn_layer *layer; /* NULL: an attention problem */
  attn_layer_params layer_params;
  attn_params params;

  attn_tensor results[MAX_RESULTS];
  int result_count;
  check checks[MAX_CHECKS];
  int check_count;
} job;

/* Each returns 0 or an exit code after it has said why. */
int job_open_case(job *j,
                  const options *o); /* decides by the file's form, then one of the next two */
int job_load_layer_case(job *j, const options *o);
int job_load_core_case(job *j, const options *o);
int job_open_weights(job *j, const options *o); /* --weights and --input */
void job_close(job *j);

/* ---- for those who load ---- */

/* Opens a file; the job closes it. */
int job_open_file(job *j, int i, const char *path);
/* Memory that the job frees; NULL, after saying so, when there is none. */
void *job_alloc(job *j, int64_t count, size_t size);
/* The tensor as floats. */
int job_floats(job *j, const attn_tensor *tensor, const float **floats);
int job_missing(const job *j, const char *tensor);

/* Metadata as a number; a missing or malformed one is a failure. */
int job_int(const job *j, const char *key, int64_t least, int64_t most, int64_t *value);
int job_number(const job *j, const char *key, double *value);

/* Fails unless the tensor has this shape. */
int job_expect_shape(const job *j, const attn_tensor *tensor, int32_t rank, const int64_t *shape);

/* Adds a float array to what the run gives. */
void job_add_result(job *j, const char *name, float *data, int32_t rank, const int64_t *shape);

/* Will compare a result with tensor `truth`, where the file has that, by the tolerance units in tensor `unit`:
 * one per row, or one per element. */
int job_add_check(job *j, int result, const char *truth, const char *unit, bool per_element,
                  double allowed);

/* Sums, over the queries, the keys that each one sees. */
double visible_pairs(int64_t q_len, int64_t kv_len, bool causal);

/* ---- what is done with it ---- */

/* Fills in the outcome of a check. */
void verify(check *c);

typedef struct timing {
  int64_t runs;
  double best, median; /* seconds */
} timing;

/* To standard output. Returns 0 or an exit code. */
int report(const job *j, const options *o, const timing *t);

#endif
