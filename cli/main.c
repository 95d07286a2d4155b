/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: attn run CASE.safetensors [-o OUT.safetensors] [options]\n"
    "       attn run --weights W.safetensors --input X.safetensors --heads N [options]\n"
    "       attn plan --heads N --head-size N --len N | --lens Q:K,... [options]\n"
    "       attn info [--json] [options]\n"
    "       attn --help | --version\n";

static const char help[] =
    "\n"
    "attn run CASE        runs a layer or attention case; where the file holds the truth, shows "
    "the\n"
    "                     error and fails when it is above the tolerance\n"
    "attn run --weights   runs a layer on your own data\n"
    "attn plan            shows how attention would be cut for 1 ... 256 threads, and how evenly;\n"
    "                     runs nothing. The makespan is the work of the busiest thread, in\n"
    "                     multiply-adds; its bound is that of even shares, or of the largest task\n"
    "attn info            shows what this build and this machine can do\n"
    "\n"
    "  -o, --output FILE  write the result: y, or o and lse\n"
    "  --threads N        the most threads to use, 1 ... 1024\n"
    "  --isa NAME         instruction set: generic, avx2, avx512 or neon\n"
    "  --exp NAME         exponential: inline or sleef\n"
    "  --repeat N         run N times and show the best and median time\n"
    "  --json             print JSON\n"
    "  -h, --help         show this text\n"
    "\n"
    "With --weights:\n"
    "  --input FILE       holds the input, (T,D) or (B,T,D)\n"
    "  --tensor NAME      its name; not needed when it is x or the only tensor of the file\n"
    "  --heads N          query heads; not needed when the weights are stored per head\n"
    "  --kv-heads N       key and value heads, when fewer\n"
    "  --head-size N      when it is not d_model / heads\n"
    "  --prefix TEXT      stands before every tensor name in the weights file, with its last\n"
    "                     '.' or '/': layers.0.attn.\n"
    "  --allow-other      the weights file may hold other tensors under that prefix\n"
    "  --no-causal        every query sees every key\n"
    "\n"
    "With plan: also --batch N, --kv-heads N, --kv-len N, --no-causal; --threads N shows that "
    "count.\n"
    "  --lens Q:K,...     a batch of unequal sequences, each with its queries and keys; Q:KxN\n"
    "                     stands for N of them: 512:4096,1:1024x15 is a chunk of a prompt beside\n"
    "                     15 sequences that get one more token each\n"
    "\n"
    "Files may hold F32, F64, F16 or BF16; all is computed in float.\n"
    "Exit status: 0 done and right, 1 bad data or an error above the tolerance, 2 bad usage, 3 the "
    "case\n"
    "needs a feature that this version lacks.\n"
    "Environment: ATTN_ISA and ATTN_EXP as --isa and --exp; OMP_NUM_THREADS limits the threads.\n";

static int show_help(void) {
  printf("%s%s", usage, help);
  return 0;
}

static int run_command(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  options o = {.repeat = 1, .causal = true, .batch = 1};
  bool wants_help = false;
  int code;
  if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 || strcmp(command, "help") == 0)
    return show_help();
  if (strcmp(command, "--version") == 0) {
    printf("attn %s\n", attn_version());
    return 0;
  }
  if (strcmp(command, "run") == 0) {
    code = options_parse_run(argc - 1, argv + 1, &o, &wants_help);
    if (code == 0) code = wants_help ? show_help() : command_run(&o);
  } else if (strcmp(command, "info") == 0) {
    code = options_parse_info(argc - 1, argv + 1, &o, &wants_help);
    if (code == 0) code = wants_help ? show_help() : command_info(&o);
  } else if (strcmp(command, "plan") == 0) {
    code = options_parse_plan(argc - 1, argv + 1, &o, &wants_help);
    if (code == 0) code = wants_help ? show_help() : command_plan(&o);
  } else if (command[0] == '\0') {
    code = fail(EXIT_BAD_USAGE, "no command; the commands are run, plan and info (attn --help)");
  } else {
    code =
        fail(EXIT_BAD_USAGE, "unknown command '%s'; the commands are run, plan and info", command);
  }
  return code;
}

int main(int argc, char **argv) {
  int code = run_command(argc, argv);
  /* A result that did not reach its reader is a failure, too: a full disk, a closed pipe. */
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0)
    code = fail(EXIT_BAD_DATA, "cannot write to standard output: %s", strerror(errno));
  return code;
}
