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

/* What the library calls unsupported is so everywhere; whose fault an invalid argument is, a file's or an option's, only
 * the caller knows. */
static int exit_code(attn_status status, int invalid) {
  return status == ATTN_UNSUPPORTED        ? EXIT_UNSUPPORTED
         : status == ATTN_INVALID_ARGUMENT ? invalid
                                           : EXIT_BAD_DATA;
}

int fail_data(attn_status status, const char *path) {
  return fail(exit_code(status, EXIT_BAD_DATA), "%s%s%s", path != NULL ? path : "",
              path != NULL ? ": " : "", attn_last_error());
}

int fail_options(attn_status status) {
  static const char *const names[][2] = {{"q_heads", "--heads"},
                                         {"num_heads", "--heads"},
                                         {"num_kv_heads", "--kv-heads"},
                                         {"head_size", "--head-size"}};
  /* Others may begin with a file's name, which is to stay what it is. */
  if (status != ATTN_INVALID_ARGUMENT) return fail_data(status, NULL);
  const char *message = attn_last_error();
  const size_t length = strcspn(message, " ");
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strlen(names[i][0]) == length && memcmp(names[i][0], message, length) == 0)
      return fail(EXIT_BAD_USAGE, "%s%s", names[i][1], message + length);
  return fail(EXIT_BAD_USAGE, "%s", message);
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

typedef struct spec {
  int option;
  const char *name, *value; /* `value` is how help calls it; NULL: takes none */
  int commands;
  const char *help;
} spec;

enum { ALL = RUN | PLAN | INFO };

/* What commands take: getopt's tables and the help are made from it. */
static const spec specs[] = {
    {'o', "output", "FILE", RUN, "write the result: y, or o and lse"},
    {OPT_THREADS, "threads", "N", RUN, "the most threads to use, 1 ... 1024"},
    {OPT_THREADS, "threads", "N", INFO, "show that count instead of what a call uses by itself"},
    {OPT_REPEAT, "repeat", "N", RUN, "run N times and show the best and median time"},
    {OPT_HEADS, "heads", "N", PLAN, "query heads"},
    {OPT_KV_HEADS, "kv-heads", "N", PLAN, "key and value heads, when fewer"},
    {OPT_HEAD_SIZE, "head-size", "N", PLAN, "of keys and of values"},
    {OPT_LEN, "len", "N", PLAN, "queries of a sequence"},
    {OPT_KV_LEN, "kv-len", "N", PLAN, "keys of a sequence, when not as many as queries"},
    {OPT_BATCH, "batch", "N", PLAN, "sequences, all alike; 1 when not given"},
    {OPT_LENS, "lens", "Q:K,...", PLAN,
     "instead of those three: unequal sequences, each with its\n"
     "queries and keys; Q:KxN stands for N of them:\n"
     "512:4096,1:1024x15 is a chunk of a prompt beside 15\n"
     "sequences that get one more token each"},
    {OPT_NO_CAUSAL, "no-causal", NULL, PLAN, "every query sees every key"},
    {OPT_THREADS, "threads", "N", PLAN, "that count alone, not 1 ... 256; up to 1024"},
    {OPT_ISA, "isa", "NAME", ALL, "instruction set: generic, avx2, avx512 or neon"},
    {OPT_EXP, "exp", "NAME", ALL, "exponential: inline or sleef"},
    {OPT_JSON, "json", NULL, ALL, "print JSON"},
    {'h', "help", NULL, ALL, "show this text"},
    {OPT_WEIGHTS, "weights", "FILE", RUN, "run the layer that these are the weights of"},
    {OPT_INPUT, "input", "FILE", RUN, "holds the input, (T,D) or (B,T,D)"},
    {OPT_TENSOR, "tensor", "NAME", RUN,
     "its name, when it is not x or the only tensor of the file"},
    {OPT_HEADS, "heads", "N", RUN, "query heads, when the weights are not stored per head"},
    {OPT_KV_HEADS, "kv-heads", "N", RUN, "key and value heads, when fewer"},
    {OPT_HEAD_SIZE, "head-size", "N", RUN, "when it is not d_model / heads"},
    {OPT_PREFIX, "prefix", "TEXT", RUN,
     "stands before every tensor name in the weights file, with\n"
     "its last '.' or '/': layers.0.attn."},
    {OPT_ALLOW_OTHER, "allow-other", NULL, RUN,
     "the weights file may hold other tensors under that prefix"},
    {OPT_NO_CAUSAL, "no-causal", NULL, RUN, "every query sees every key"},
};

enum { SPECS = sizeof(specs) / sizeof(specs[0]) };

static void print_option(const spec *s) {
  char name[32];
  const char *line = s->help;
  snprintf(name, sizeof(name), "%s--%s%s%s",
           s->option == 'o'   ? "-o, "
           : s->option == 'h' ? "-h, "
                              : "",
           s->name, s->value != NULL ? " " : "", s->value != NULL ? s->value : "");
  printf("  %-19s ", name);
  for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
    printf("%.*s\n%22s", (int)(end - line), line, "");
  printf("%s\n", line);
}

void options_print_help(command_id command) {
  for (int i = 0; i < SPECS; i++) {
    if ((specs[i].commands & (int)command) == 0) continue;
    if (specs[i].option == OPT_WEIGHTS) printf("\nYour own data:\n");
    print_option(&specs[i]);
  }
}

/* The options of a command as getopt wants them. */
static void make_table(command_id command, struct option table[SPECS + 1]) {
  int count = 0;
  for (int i = 0; i < SPECS; i++) {
    if ((specs[i].commands & (int)command) == 0) continue;
    table[count++] = (struct option){specs[i].name, specs[i].value != NULL, NULL, specs[i].option};
  }
  table[count] = (struct option){NULL, 0, NULL, 0};
}

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

/* A long option that is none, or may be several: which ones. */
static int bad_name(const struct option *table, const char *command, const char *argument) {
  const char *name = argument + 2;
  const size_t length = strcspn(name, "=");
  char candidates[256] = "";
  size_t used = 0;
  for (; table->name != NULL && length > 0 && used < sizeof(candidates); table++) {
    if (strncmp(table->name, name, length) != 0) continue;
    used += (size_t)snprintf(candidates + used, sizeof(candidates) - used, "%s--%s",
                             used > 0 ? ", " : "", table->name);
  }
  if (used > 0)
    return fail(EXIT_BAD_USAGE, "option '--%.*s' is ambiguous; it may be: %s", (int)length, name,
                candidates);
  return fail(EXIT_BAD_USAGE, "unknown option '--%.*s' (attn %s --help)", (int)length, name,
              command);
}

/* optind points behind the argument at fault, or at it when a bundle of short options goes on. */
static int bad_option(const struct option *table, char **argv, int error) {
  const char *name =
      optopt >= 256 || optopt == 'o' || optopt == 'h' ? option_name(table, optopt) : NULL;
  if (name != NULL && error == ':') return fail(EXIT_BAD_USAGE, "--%s needs a value", name);
  if (name != NULL) return fail(EXIT_BAD_USAGE, "--%s takes no value", name);
  if (optopt != 0)
    return fail(EXIT_BAD_USAGE, "unknown option '-%c' (attn %s --help)", optopt, argv[0]);
  return bad_name(table, argv[0], argv[optind - 1]);
}

static int check_no_arguments(int argc, char **argv) {
  if (optind == argc) return 0;
  return fail(EXIT_BAD_USAGE, "'%s' is too much; attn %s takes options only", argv[optind],
              argv[0]);
}

static int check_plan(const options *o) {
  if (o->heads == 0) return fail(EXIT_BAD_USAGE, "--heads is missing");
  const char *alike = o->has_batch ? "batch" : o->has_kv_len ? "kv-len" : o->len ? "len" : NULL;
  if (o->lens != NULL && alike != NULL)
    return fail(EXIT_BAD_USAGE, "--%s does not go with --lens", alike);
  if (o->lens == NULL && o->len == 0)
    return fail(EXIT_BAD_USAGE, "--len is missing, or --lens for unequal sequences");
  if (!o->has_head_size) return fail(EXIT_BAD_USAGE, "--head-size is missing");
  return 0;
}

/* `only_weights` names an option that makes sense with --weights alone; NULL: none is given. */
static int check_run(int argc, char **argv, options *o, const char *only_weights) {
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

int options_parse(command_id command, int argc, char **argv, options *o, bool *help) {
  struct option table[SPECS + 1];
  const char *only_weights = NULL;
  make_table(command, table);
  opterr = 0;
  optind = 1;
  for (int option;
       (option = getopt_long(argc, argv, command == RUN ? ":ho:" : ":h", table, NULL)) != -1;) {
    if (option == '?' || option == ':') return bad_option(table, argv, option);
    int code = set_option(option, o, help);
    if (code != 0) return code;
    if (option >= OPT_TENSOR) only_weights = option_name(table, option);
  }
  if (*help) return 0;
  if (command == RUN) return check_run(argc, argv, o, only_weights);
  const int code = check_no_arguments(argc, argv);
  return code == 0 && command == PLAN ? check_plan(o) : code;
}

int options_select(const options *o) {
  const attn_status status = attn_select(o->isa, o->exp);
  if (status == ATTN_OK) return 0;
  /* The message begins with isa or exp, or with the variable that was read instead. */
  const bool variable = strncmp(attn_last_error(), "ATTN_", 5) == 0;
  return fail(exit_code(status, EXIT_BAD_USAGE), "%s%s", variable ? "" : "--", attn_last_error());
}
