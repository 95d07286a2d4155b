/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fail(int code, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  for (char *c = text; *c != '\0'; c++)
    if (*c > 0 && *c < ' ') *c = '?'; /* one line, whatever the names in it hold */
  fprintf(stderr, "attn: %s\n", text);
  return code;
}

int fail_status(attn_status status) {
  return fail(status == ATTN_INVALID_ARGUMENT ? EXIT_BAD_USAGE : EXIT_BAD_DATA, "%s",
              attn_last_error());
}

bool parse_int(const char *text, int64_t least, int64_t most, int64_t *value) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  if (!isdigit((unsigned char)digits[0])) return false; /* strtoll would skip blanks and a plus */
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (errno != 0 || *end != '\0' || number < least || number > most) return false;
  *value = number;
  return true;
}

bool parse_number(const char *text, double *value) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  /* Not blanks, a plus, hexadecimal, inf or nan, all of which strtod takes. */
  if (!isdigit((unsigned char)digits[0]) || strpbrk(text, "xX") != NULL) return false;
  char *end;
  *value = strtod(text, &end);
  return *end == '\0' && isfinite(*value);
}

/* ---- the tables ---------------------------------------------------------------------------- */

enum {
  OPT_THREADS = 256,
  OPT_ISA,
  OPT_EXP,
  OPT_REPEAT,
  OPT_JSON,
  OPT_WEIGHTS,
  OPT_INPUT,
  /* From here on: only with --weights. */
  OPT_TENSOR,
  OPT_HEADS,
  OPT_KV_HEADS,
  OPT_HEAD_SIZE,
  OPT_PREFIX,
  OPT_ALLOW_OTHER,
  OPT_NO_CAUSAL,
  /* Only for attn plan. */
  OPT_BATCH,
  OPT_LEN,
  OPT_KV_LEN,
  OPT_LENS
};

#define INFO_OPTIONS                                                                               \
  {"threads", required_argument, NULL, OPT_THREADS}, {"isa", required_argument, NULL, OPT_ISA},    \
      {"exp", required_argument, NULL, OPT_EXP}, {"json", no_argument, NULL, OPT_JSON},            \
      {"help", no_argument, NULL, 'h'}

static const struct option info_options[] = {INFO_OPTIONS, {NULL, 0, NULL, 0}};

static const struct option run_options[] = {INFO_OPTIONS,
                                            {"output", required_argument, NULL, 'o'},
                                            {"repeat", required_argument, NULL, OPT_REPEAT},
                                            {"weights", required_argument, NULL, OPT_WEIGHTS},
                                            {"input", required_argument, NULL, OPT_INPUT},
                                            {"tensor", required_argument, NULL, OPT_TENSOR},
                                            {"heads", required_argument, NULL, OPT_HEADS},
                                            {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
                                            {"head-size", required_argument, NULL, OPT_HEAD_SIZE},
                                            {"prefix", required_argument, NULL, OPT_PREFIX},
                                            {"allow-other", no_argument, NULL, OPT_ALLOW_OTHER},
                                            {"no-causal", no_argument, NULL, OPT_NO_CAUSAL},
                                            {NULL, 0, NULL, 0}};

static const struct option plan_options[] = {INFO_OPTIONS,
                                             {"batch", required_argument, NULL, OPT_BATCH},
                                             {"heads", required_argument, NULL, OPT_HEADS},
                                             {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
                                             {"head-size", required_argument, NULL, OPT_HEAD_SIZE},
                                             {"len", required_argument, NULL, OPT_LEN},
                                             {"kv-len", required_argument, NULL, OPT_KV_LEN},
                                             {"lens", required_argument, NULL, OPT_LENS},
                                             {"no-causal", no_argument, NULL, OPT_NO_CAUSAL},
                                             {NULL, 0, NULL, 0}};

static int set_int(const char *name, const char *text, int64_t most, int64_t *value) {
  if (parse_int(text, 1, most, value)) return 0;
  return fail(EXIT_BAD_USAGE, "--%s is '%s'; allowed is an integer from 1 to %lld", name, text,
              (long long)most);
}

static int set_option(int option, options *o, bool *help) {
  int64_t threads = 0;
  int code = 0;
  switch (option) {
  case 'h': *help = true; break;
  case 'o': o->output = optarg; break;
  case OPT_JSON: o->json = true; break;
  case OPT_ISA: o->isa = optarg; break;
  case OPT_EXP: o->exp = optarg; break;
  case OPT_WEIGHTS: o->weights = optarg; break;
  case OPT_INPUT: o->input = optarg; break;
  case OPT_TENSOR: o->tensor = optarg; break;
  case OPT_PREFIX: o->prefix = optarg; break;
  case OPT_ALLOW_OTHER: o->allow_other = true; break;
  case OPT_NO_CAUSAL: o->causal = false; break;
  case OPT_REPEAT: code = set_int("repeat", optarg, 1000000, &o->repeat); break;
  case OPT_HEADS: code = set_int("heads", optarg, 1048576, &o->heads); break;
  case OPT_KV_HEADS:
    code = set_int("kv-heads", optarg, 1048576, &o->kv_heads);
    o->has_kv_heads = true;
    break;
  case OPT_HEAD_SIZE:
    code = set_int("head-size", optarg, 1024, &o->head_size);
    o->has_head_size = true;
    break;
  case OPT_LENS: o->lens = optarg; break;
  case OPT_BATCH:
    code = set_int("batch", optarg, 1048576, &o->batch);
    o->has_batch = true;
    break;
  case OPT_LEN: code = set_int("len", optarg, INT32_MAX, &o->len); break;
  case OPT_KV_LEN:
    code = set_int("kv-len", optarg, INT32_MAX, &o->kv_len);
    o->has_kv_len = true;
    break;
  case OPT_THREADS:
    code = set_int("threads", optarg, 1024, &threads);
    o->threads = (int32_t)threads;
    o->has_threads = true;
    break;
  default: break;
  }
  return code;
}

static const char *option_name(const struct option *table, int option) {
  while (table->name != NULL && table->val != option) table++;
  return table->name;
}

/* optind points behind the argument at fault, or at it when a bundle of short options goes on. */
static int bad_option(const struct option *table, char **argv, int error) {
  const char *name =
      optopt >= 256 || optopt == 'o' || optopt == 'h' ? option_name(table, optopt) : NULL;
  if (name != NULL && error == ':') return fail(EXIT_BAD_USAGE, "--%s needs a value", name);
  if (name != NULL) return fail(EXIT_BAD_USAGE, "--%s takes no value", name);
  if (optopt != 0) return fail(EXIT_BAD_USAGE, "unknown option '-%c' (attn --help)", optopt);
  return fail(EXIT_BAD_USAGE, "unknown or ambiguous option '%s' (attn --help)", argv[optind - 1]);
}

/* Sets *only_weights to the name of an option that makes sense with --weights alone. */
static int parse(int argc, char **argv, const char *letters, const struct option *table, options *o,
                 bool *help, const char **only_weights) {
  opterr = 0;
  optind = 1;
  for (int option; (option = getopt_long(argc, argv, letters, table, NULL)) != -1;) {
    if (option == '?' || option == ':') return bad_option(table, argv, option);
    int code = set_option(option, o, help);
    if (code != 0) return code;
    if (option >= OPT_TENSOR) *only_weights = option_name(table, option);
  }
  return 0;
}

int options_parse_info(int argc, char **argv, options *o, bool *help) {
  const char *unused;
  int code = parse(argc, argv, ":h", info_options, o, help, &unused);
  if (code == 0 && !*help && optind < argc)
    code = fail(EXIT_BAD_USAGE, "'%s' is too much; attn info takes options only", argv[optind]);
  return code;
}

int options_parse_plan(int argc, char **argv, options *o, bool *help) {
  const char *unused;
  int code = parse(argc, argv, ":h", plan_options, o, help, &unused);
  if (code != 0 || *help) return code;
  if (optind < argc)
    return fail(EXIT_BAD_USAGE, "'%s' is too much; attn plan takes options only", argv[optind]);
  if (o->heads == 0) return fail(EXIT_BAD_USAGE, "--heads is missing");
  const char *alike = o->has_batch ? "batch" : o->has_kv_len ? "kv-len" : o->len ? "len" : NULL;
  if (o->lens != NULL && alike != NULL)
    return fail(EXIT_BAD_USAGE, "--%s does not go with --lens", alike);
  if (o->lens == NULL && o->len == 0)
    return fail(EXIT_BAD_USAGE, "--len is missing, or --lens for unequal sequences");
  if (!o->has_head_size) return fail(EXIT_BAD_USAGE, "--head-size is missing");
  return 0;
}

int options_parse_run(int argc, char **argv, options *o, bool *help) {
  const char *only_weights = NULL;
  int code = parse(argc, argv, ":ho:", run_options, o, help, &only_weights);
  if (code != 0 || *help) return code;
  if (argc - optind > 1)
    return fail(EXIT_BAD_USAGE, "'%s' is too much; attn run takes one case", argv[optind + 1]);
  if (o->output != NULL && o->output[0] == '\0')
    return fail(EXIT_BAD_USAGE, "--output is empty; it must name a file");
  if (optind < argc) o->case_path = argv[optind];
  if (o->case_path != NULL) {
    if (o->weights != NULL) only_weights = "weights";
    if (o->input != NULL) only_weights = "input";
    if (only_weights != NULL)
      return fail(EXIT_BAD_USAGE, "--%s does not go with a case (%s)", only_weights, o->case_path);
  } else if (o->weights == NULL && o->input == NULL) {
    return fail(EXIT_BAD_USAGE, "nothing to run: give a case, or --weights and --input");
  } else if (o->weights == NULL || o->input == NULL) {
    return fail(EXIT_BAD_USAGE, "--%s is missing; --weights and --input go together",
                o->weights == NULL ? "weights" : "input");
  }
  return 0;
}

int options_select(const options *o) {
  if (o->isa != NULL || o->exp != NULL) {
    attn_status status = attn_select(o->isa, o->exp);
    if (status != ATTN_OK) return fail_status(status);
  }
  if (attn_isa_name() == NULL) return fail(EXIT_BAD_USAGE, "%s", attn_last_error());
  return 0;
}
