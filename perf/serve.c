/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/serve.h"

#include <attn/attn.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/bench.h"
#include "perf/clock.h"
#include "perf/counters.h"
#include "perf/machine.h"
#include "perf/phases.h"
#include "perf_revision.h" /* generated at every build */

enum { MAX_CALLS = 100000, MAX_THREADS = 1024, DIGITS = 9, EXIT_FAULT = 1 };

static bool answer(json_t *object) {
  bool good = object && json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) == 0;
  json_decref(object);
  return good && putchar('\n') != EOF && fflush(stdout) == 0;
}

static bool answer_error(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return answer(json_pack("{s:s}", "error", text));
}

static const char *const kinds[] = {
    [PERF_ATTENTION] = "attention", [PERF_LAYER] = "layer", [PERF_CACHED] = "cached"};

static json_t *describe_workload(const perf_workload *w) {
  perf_work work = perf_work_of(w);
  return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", /**/
                   "name", w->name, "what", w->what, "kind", kinds[w->kind], "batch",
                   (json_int_t)w->batch, "heads", (json_int_t)w->heads, "kv_heads",
                   (json_int_t)w->kv_heads, "len", (json_int_t)w->q_len, "kv_len",
                   (json_int_t)w->kv_len, "head_size", (json_int_t)w->head_size, "d_model",
                   (json_int_t)w->d_model, "flops", perf_flops(w), "fmas", work.fmas, "exps",
                   work.exps, "bytes", work.bytes);
}

static json_t *describe(void) {
  char cpu[256];
  perf_cpu_model(cpu, sizeof cpu);
  const char *missing = perf_counters_missing();
  json_t *workloads = json_array();
  for (int i = 0; i < perf_workload_count; i++)
    json_array_append_new(workloads, describe_workload(&perf_workloads[i]));
  return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:o}", /**/
                   "serve", 1, "cpu", cpu, "isa", attn_isa_name(), "exp", attn_exp_name(), "sleef",
                   attn_sleef_version(), "attn_version", attn_version(), "git_revision",
                   ATTN_PERF_REVISION, "compiler", ATTN_PERF_COMPILER, "flags", ATTN_PERF_FLAGS,
                   "hardware_counters", missing ? missing : "cycles, instructions", "phases",
                   perf_phases_built(), "default_threads", (int)attn_default_threads(), "workloads",
                   workloads);
}

/* The benchmark of that name, or NULL. */
static perf_bench *find_bench(const char *name) {
  static perf_bench bench;
  int end = 0, threads = 0;
  char workload[16];
  if (sscanf(name, "%15[^/]/f32/threads:%d%n", workload, &threads, &end) != 2 || name[end])
    return NULL;
  if (threads < 1 || threads > MAX_THREADS) return NULL;
  for (int i = 0; i < perf_workload_count; i++) {
    if (strcmp(perf_workloads[i].name, workload) != 0) continue;
    bench = (perf_bench){&perf_workloads[i], threads};
    return &bench;
  }
  return NULL;
}

static json_t *phases_json(uint64_t elapsed, int threads) {
  double share[PERF_PHASES];
  json_t *object = json_object();
  perf_phases_take(elapsed, threads, share);
  for (int i = 0; i < PERF_PHASES; i++)
    json_object_set_new(object, perf_phase_names[i], json_real(share[i]));
  return object;
}

static bool sample(const char *name, int calls) {
  const perf_bench *bench = find_bench(name);
  if (!bench) return answer_error("no such benchmark: %s", name);
  if (calls < 1 || calls > MAX_CALLS)
    return answer_error("%d calls of %s: allowed are 1 to %d", calls, name, MAX_CALLS);
  const char *fault = perf_bench_prepare(bench);
  if (fault) return answer_error("%s: %s", name, fault);
  json_t *wall = json_array(), *cpu = json_array();
  perf_counts before, after;
  bool counted = bench->threads == 1 && perf_counters_read(&before);
  perf_phases_reset();
  uint64_t start_ticks = perf_phases_now();
  for (int i = 0; i < calls; i++) {
    double start = perf_now(), start_cpu = perf_cpu_now();
    attn_status status = perf_bench_call(bench);
    double end_cpu = perf_cpu_now(), end = perf_now();
    if (status != ATTN_OK) return answer_error("%s: %s", name, attn_last_error());
    json_array_append_new(wall, json_real(end - start));
    json_array_append_new(cpu, json_real(end_cpu - start_cpu));
  }
  uint64_t elapsed = perf_phases_now() - start_ticks;
  json_t *object = json_pack("{s:o, s:o}", "wall", wall, "cpu", cpu);
  if (counted && perf_counters_read(&after)) {
    json_object_set_new(object, "cycles", json_real((double)(after.cycles - before.cycles)));
    json_object_set_new(object, "instructions",
                        json_real((double)(after.instructions - before.instructions)));
  }
  if (perf_phases_built())
    json_object_set_new(object, "phases", phases_json(elapsed, bench->threads));
  return answer(object);
}

static bool serve_line(const char *line) {
  char name[64];
  int number;
  if (sscanf(line, "sample %63s %d", name, &number) == 2) return sample(name, number);
  bool peak = sscanf(line, "peak %d", &number) == 1;
  if (!peak && sscanf(line, "bandwidth %d", &number) != 1)
    return answer_error("unknown request: %s", line);
  if (number < 1 || number > MAX_THREADS)
    return answer_error("%d threads: allowed are 1 to %d", number, MAX_THREADS);
  double value = peak ? perf_peak_gflops(number) : perf_bandwidth_gbs(number, PERF_BANDWIDTH_BYTES);
  return answer(json_pack("{s:f}", peak ? "gflops" : "gbs", value));
}

int perf_serve(void) {
  char line[256];
  if (!answer(describe())) return EXIT_FAULT;
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (!serve_line(line)) return EXIT_FAULT;
  }
  return 0;
}
