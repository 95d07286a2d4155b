/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* attn_perf: its own options, the context block of the report, and one benchmark per workload and
 * thread count. Everything else is Google Benchmark's. */
#include <attn/attn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/bench.h"
#include "perf/counters.h"
#include "perf/machine.h"
#include "perf/serve.h"
#include "perf/shim.h"
#include "perf_revision.h" /* generated at every build */

enum { MAX_THREAD_COUNTS = 16, MAX_THREADS = 1024, MAX_ARGUMENTS = 64, EXIT_USAGE = 2 };

typedef struct options {
  const char *isa, *exp;
  int threads[MAX_THREAD_COUNTS];
  int thread_counts;
  bool help, serve;
} options;

static const char usage[] =
    "usage: attn_perf [--isa NAME] [--exp NAME] [--threads N[,N...]] [--benchmark_...]\n"
    "       attn_perf [--isa NAME] [--exp NAME] --serve\n"
    "\n"
    "  --isa NAME       generic, avx2, avx512 or neon; default: the widest this machine has\n"
    "  --exp NAME       inline or sleef\n"
    "  --threads N,...  one benchmark for each count; default: 1 and what the library takes\n"
    "  --serve          times calls on request, for perf/track (perf/serve.h)\n"
    "\n"
    "  --benchmark_filter=REGEX           as P2/f32/threads:1$\n"
    "  --benchmark_min_time=SECONDS       per repetition\n"
    "  --benchmark_repetitions=N          default 5: shows the median, the least and the greatest\n"
    "  --benchmark_enable_random_interleaving=true\n"
    "  --benchmark_format=json            and the other options of Google Benchmark\n"
    "\n"
    "Time is the wall time of one call. GFLOPS counts visible pairs only. peak is the share of "
    "what\n"
    "the same threads reach with multiply-adds in registers, right before or after; bandwidth "
    "that\n"
    "of reading memory. FMAs, exps and bytes are what the call needs at least.\n"
    "\n";

static int bad_usage(const char *what, const char *value, const char *allowed) {
  fprintf(stderr, "attn_perf: %s%s%s\n", what, value, allowed);
  return EXIT_USAGE;
}

static int add_threads(options *o, const char *list) {
  const char *at = list;
  do {
    char *end;
    errno = 0;
    long n = strtol(at, &end, 10);
    bool good = end != at && errno == 0 && n >= 1 && n <= MAX_THREADS;
    if (!good || (*end != ',' && *end != 0))
      return bad_usage("--threads ", list, ": allowed are numbers from 1 to 1024, as 1,2");
    if (o->thread_counts == MAX_THREAD_COUNTS)
      return bad_usage("--threads ", list, ": allowed are at most 16 counts");
    o->threads[o->thread_counts++] = (int)n;
    at = *end ? end + 1 : end;
  } while (*at);
  return 0;
}

/* Takes the program's own options out of argv. */
static int parse(options *o, int *argc, char **argv) {
  int kept = 1, status = 0;
  for (int i = 1; i < *argc && !status; i++) {
    bool own =
        !strcmp(argv[i], "--isa") || !strcmp(argv[i], "--exp") || !strcmp(argv[i], "--threads");
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      o->help = true;
    } else if (!strcmp(argv[i], "--serve")) {
      o->serve = true;
    } else if (!own) {
      argv[kept++] = argv[i];
    } else if (i + 1 == *argc) {
      status = bad_usage("", argv[i], " needs a value");
    } else {
      const char *name = argv[i++];
      if (!strcmp(name, "--isa"))
        o->isa = argv[i];
      else if (!strcmp(name, "--exp"))
        o->exp = argv[i];
      else
        status = add_threads(o, argv[i]);
    }
  }
  argv[kept] = NULL;
  *argc = kept;
  return status;
}

/* Google Benchmark with our default before the user's options, which then prevail. */
static int initialize_benchmark(int argc, char **argv) {
  static char repetitions[] = "--benchmark_repetitions=5";
  char *all[MAX_ARGUMENTS + 2] = {argv[0], repetitions};
  if (argc > MAX_ARGUMENTS) return bad_usage("", "too many arguments", "");
  for (int i = 1; i <= argc; i++) all[i + 1] = argv[i];
  int left = argc + 1;
  perf_initialize(&left, all);
  return left > 1 ? bad_usage("unknown argument ", all[1], "; see --help") : 0;
}

static void describe(const options *o) {
  char text[256];
  perf_cpu_model(text, sizeof text);
  perf_context("cpu", text);
  perf_context("isa", attn_isa_name());
  perf_context("exp", attn_exp_name());
  perf_context("sleef", attn_sleef_version());
  perf_context("attn_version", attn_version());
  perf_context("git_revision", ATTN_PERF_REVISION);
  perf_context("compiler", ATTN_PERF_COMPILER);
  perf_context("flags", ATTN_PERF_FLAGS);
  const char *missing = perf_counters_missing();
  perf_context("hardware_counters", missing ? missing : "cycles, instructions");
  size_t used = 0;
  for (int i = 0; i < o->thread_counts; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, i ? ",%d" : "%d", o->threads[i]);
  perf_context("threads", text);
  for (int i = 0; i < o->thread_counts; i++) {
    char key[64];
    snprintf(key, sizeof key, "fma_peak_gflops_threads_%d", o->threads[i]);
    snprintf(text, sizeof text, "%.1f", perf_peak_gflops(o->threads[i]));
    perf_context(key, text);
    snprintf(key, sizeof key, "read_gbs_threads_%d", o->threads[i]);
    snprintf(text, sizeof text, "%.1f", perf_bandwidth_gbs(o->threads[i], PERF_BANDWIDTH_BYTES));
    perf_context(key, text);
  }
}

/* Registered benchmarks point into the array, which lives until the process ends. */
static bool register_all(const options *o) {
  int count = perf_workload_count * o->thread_counts;
  static perf_bench *benches;
  benches = malloc(sizeof *benches * (size_t)count);
  if (!benches) return false;
  for (int i = 0; i < count; i++) {
    const perf_workload *w = &perf_workloads[i / o->thread_counts];
    benches[i] = (perf_bench){w, o->threads[i % o->thread_counts]};
    char name[64];
    snprintf(name, sizeof name, "%s/f32/threads:%d", w->name, benches[i].threads);
    perf_register(name, perf_bench_run, &benches[i]);
  }
  return true;
}

static void print_help(void) {
  fputs(usage, stdout);
  for (int i = 0; i < perf_workload_count; i++) {
    const perf_workload *w = &perf_workloads[i];
    printf("  %-9s %-38s B %d, H %d (%d kv), T %d, D %d", w->name, w->what, (int)w->batch,
           (int)w->heads, (int)w->kv_heads, (int)w->q_len, (int)w->head_size);
    if (w->kind == PERF_CACHED && w->least) printf(", S %d to %d", (int)w->least, (int)w->kv_len);
    if (w->kind == PERF_CACHED && !w->least) printf(", S %d", (int)w->kv_len);
    if (w->page_size) printf(", pages of %d", (int)w->page_size);
    if (w->keys_in_rows) printf(", keys in rows");
    if (w->kind == PERF_LAYER) printf(", d_model %d", (int)w->d_model);
    puts("");
  }
}

int main(int argc, char **argv) {
  options o = {0};
  int status = parse(&o, &argc, argv);
  if (status) return status;
  if (o.help) {
    print_help();
    return 0;
  }
  if (((o.isa || o.exp) && attn_select(o.isa, o.exp) != ATTN_OK) || !attn_isa_name())
    return bad_usage(attn_last_error(), "", "");
  if (o.serve) {
    if (argc > 1 || o.thread_counts) return bad_usage("--serve takes --isa and --exp only", "", "");
    return perf_serve();
  }
  if (!o.thread_counts) {
    o.threads[o.thread_counts++] = 1;
    if (attn_default_threads() > 1) o.threads[o.thread_counts++] = attn_default_threads();
  }
  status = initialize_benchmark(argc, argv);
  if (status) return status;
  describe(&o);
  if (!register_all(&o)) return bad_usage("out of memory", "", "");
  return perf_run() ? 0 : EXIT_FAILURE;
}
