/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char general_help[] =
    "Exit status: 0 done and right, 1 bad data, a file that cannot be read or written, or an "
    "error\n"
    "above the tolerance (the output is written all the same), 2 bad usage,\n"
    "3 what is asked for is well formed, but this version or this machine cannot do it: a feature\n"
    "of a case, another layer's weights, an instruction set.\n"
    "Environment: ATTN_ISA and ATTN_EXP as --isa and --exp; OMP_NUM_THREADS limits the threads;\n"
    "OMP_WAIT_POLICY=passive on CPUs that others use too, else threads spin while they wait.\n";

static const char run_help[] = "Runs a layer or attention case; where the file holds the truth, "
                               "shows the error and fails when\n"
                               "it is above the tolerance. With --weights, runs a layer on your "
                               "own data, which may be F32,\n"
                               "F64, F16 or BF16; all is computed in float.\n";

static const char plan_help[] =
    "Shows how attention would be cut into tasks for 1 ... 256 threads, and how evenly these would "
    "be\n"
    "loaded; runs nothing. A line for each number of threads:\n"
    "\n"
    "  threads   that take the tasks in order, each the next one when it is free\n"
    "  tasks     into which the work is cut for so many threads\n"
    "  makespan  work of the busiest thread, in multiply-adds: when all are done\n"
    "  bound     the least that any assignment of these tasks takes: the most of even shares, the\n"
    "            largest task, and what a thread gets that must take two or more\n"
    "  ratio     makespan / bound: how good the order is; 1 is best, even if threads have nothing "
    "to do\n"
    "  speed-up  all work / makespan: as many threads, always busy, would take as long\n"
    "\n"
    "Only multiply-adds are counted; decode mostly waits for memory, which threads share.\n";

static const char info_help[] =
    "Shows what this build and this machine can do: instruction sets, and which is selected; the\n"
    "threads that a call uses when none are asked for (the least of the CPUs that the process may "
    "run\n"
    "on, its CPU quota and OMP_NUM_THREADS); caches.\n";

static const struct command {
  const char *name, *usage[2]; /* what may follow the name, one way or two */
  const char *brief, *help;
  command_id id;
  int (*run)(const options *o);
} commands[] = {
    {"run",
     {"CASE.safetensors [-o OUT.safetensors] [options]",
      "--weights W.safetensors --input X.safetensors --heads N [options]"},
     "runs a layer or attention, of a case file or on your own data",
     run_help,
     RUN,
     command_run},
    {"plan",
     {"--heads N --head-size N --len N | --lens Q:K,... [options]", NULL},
     "shows how attention would be cut into tasks for 1 ... 256 threads, and how evenly",
     plan_help,
     PLAN,
     command_plan},
    {"info",
     {"[options]", NULL},
     "shows what this build and this machine can do",
     info_help,
     INFO,
     command_info},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(const struct command *c, const char *before) {
  printf("%s attn %s %s\n", before, c->name, c->usage[0]);
  if (c->usage[1] != NULL) printf("       attn %s %s\n", c->name, c->usage[1]);
}

static void print_help(void) {
  for (int i = 0; i < COMMANDS; i++) print_usage(&commands[i], i == 0 ? "usage:" : "      ");
  printf("       attn COMMAND --help\n       attn --help | --version\n\n");
  for (int i = 0; i < COMMANDS; i++) printf("%-5s %s\n", commands[i].name, commands[i].brief);
  printf("\n%s", general_help);
}

static int refuse_command(const char *name) {
  char list[80] = "";
  size_t used = 0;
  for (int i = 0; i < COMMANDS && used < sizeof(list); i++)
    used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                             commands[i].name);
  if (name == NULL) return fail(EXIT_BAD_USAGE, "no command; allowed: %s (attn --help)", list);
  return fail(EXIT_BAD_USAGE, "unknown command '%s'; allowed: %s (attn --help)", name, list);
}

/* argv[0] is the command's name. */
static int run_command(const struct command *c, int argc, char **argv) {
  options o = {.repeat = 1, .causal = true, .batch = 1};
  bool wants_help = false;
  const int code = options_parse(c->id, argc, argv, &o, &wants_help);
  if (code != 0) return code;
  if (!wants_help) return c->run(&o);
  print_usage(c, "usage:");
  printf("\n%s\n", c->help);
  options_print_help(c->id);
  return 0;
}

static int run(int argc, char **argv) {
  if (argc < 2) return refuse_command(NULL);
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help();
    return 0;
  }
  if (strcmp(name, "--version") == 0) {
    printf("attn %s\n", attn_version());
    return 0;
  }
  for (int i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return run_command(&commands[i], argc - 1, argv + 1);
  return refuse_command(name);
}

int main(int argc, char **argv) {
  int code = run(argc, argv);
  /* A result that did not reach its reader is a failure, too: a full disk, a closed pipe. */
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0)
    code = fail(EXIT_BAD_DATA, "cannot write to standard output: %s", strerror(errno));
  return code;
}
