/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the parts of the `attn` program share: options, exit codes, messages. The program uses the
 * public headers of the library only. */
#ifndef ATTN_CLI_CLI_H
#define ATTN_CLI_CLI_H

#include <attn/layer.h>

enum {
  EXIT_BAD_DATA = 1,
  EXIT_BAD_USAGE = 2,
  EXIT_UNSUPPORTED = 3 /* well formed, but this version or this machine cannot do it */
};

typedef enum command_id { RUN = 1, PLAN = 2, INFO = 4 } command_id;

typedef struct options {
  bool json;
  const char *isa, *exp; /* NULL: not given */
  bool has_threads;
  int32_t threads;
  int64_t repeat;
  const char *output;    /* NULL: nothing is written */
  const char *case_path; /* NULL: `weights` and `input` are run */
  const char *weights, *input, *prefix, *tensor;
  int64_t heads; /* 0: not given */
  bool has_kv_heads, has_head_size;
  int64_t kv_heads, head_size;
  bool causal, allow_other;
  int64_t batch, len; /* attn plan */
  bool has_batch, has_kv_len;
  int64_t kv_len;
  const char *lens; /* in the place of batch, len and kv_len; NULL: not given */
} options;

/* Parses what follows the command, whose name argv[0] is. Returns 0, or an exit code after it has said why. Sets
 * *help instead of doing anything else when --help is among the options. */
int options_parse(command_id command, int argc, char **argv, options *o, bool *help);

/* Prints the options that a command takes, one or more lines each. */
void options_print_help(command_id command);

/* Selects what --isa, --exp and the environment ask for. */
int options_select(const options *o);

/* Prints "attn: ..." as one line to standard error and returns `code`. */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with the library's message, for a call that returned `status` on the content of files: behind `path` when
 * that is not NULL. */
int fail_data(attn_status status, const char *path);
/* The same for a call on what the options say: an invalid one is called by the option's name. */
int fail_options(attn_status status);

/* The whole text must be one decimal integer in [least, most]. */
bool parse_int(const char *text, int64_t least, int64_t most, int64_t *value);
/* The whole text must be one finite decimal number. */
bool parse_number(const char *text, double *value);

int command_run(const options *o);
int command_info(const options *o);
int command_plan(const options *o);

#endif
