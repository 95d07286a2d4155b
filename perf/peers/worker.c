/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "perf/peers/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/clock.h"

/* Calls are timed in batches of at least this length, against which reading the clock is nothing. */
static const double batch_seconds = 50e-6;
/* A call this long finds its caches as cold as any: it needs no other one before it. */
static const double long_call = 0.3;
enum { MAX_SAMPLES = 4096, LINE = 512 };

static const char *directory;
static int threads;
static double last_calls[WORKER_SLOTS]; /* seconds; 0 before the first */

float *worker_read(const char *name, int64_t count) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.f32", directory, name);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t wanted = (size_t)count;
  float *data = malloc(wanted * sizeof *data + 1);
  bool good = data && fread(data, sizeof *data, wanted, file) == wanted && fgetc(file) == EOF;
  fclose(file);
  if (good) return data;
  free(data);
  return NULL;
}

static void reply_error(const char *what) {
  for (const char *c = what; *c; c++) putchar(*c == '\n' ? ' ' : *c);
  putchar('\n');
}

/* KIND SIZE... FORM: the form is the rest of the line, it may have spaces. */
static bool parse_case(char *line, worker_case *c) {
  *c = (worker_case){0};
  int used = 0;
  if (sscanf(line, "%15s %d%n", c->kind, &c->sizes, &used) != 2) return false;
  if (c->sizes < 0 || c->sizes > WORKER_SIZES) return false;
  line += used;
  for (int i = 0; i < c->sizes; i++) c->size[i] = strtoll(line, &line, 10);
  line += strspn(line, " ");
  snprintf(c->form, sizeof c->form, "%s", line);
  return true;
}

static void prepare(int slot, char *line, const worker_engine *engine) {
  worker_case c;
  last_calls[slot] = 0;
  const char *fault = parse_case(line, &c) ? engine->prepare(slot, &c, threads) : "malformed case";
  if (fault)
    reply_error(fault);
  else
    puts("ok");
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Seconds per call, of `calls` calls; negative on failure. */
static double time_calls(const worker_engine *engine, int64_t calls) {
  double start = perf_now();
  for (int64_t i = 0; i < calls; i++)
    if (!engine->run()) return -1;
  return (perf_now() - start) / (double)calls;
}

/* Replies how many samples there were, the shortest, and the median, in seconds per call. */
static void run(int slot, double seconds, const worker_engine *engine) {
  static double sample[MAX_SAMPLES];
  double last_call = last_calls[slot];
  if (last_call < long_call) last_call = time_calls(engine, 1);
  int64_t calls = 1;
  while (last_call >= 0 && last_call * (double)calls < batch_seconds && calls < 1 << 20) {
    calls *= 2;
    last_call = time_calls(engine, calls);
  }
  int count = 0;
  double start = perf_now();
  while (last_call >= 0 && count < MAX_SAMPLES) {
    last_call = sample[count++] = time_calls(engine, calls);
    if (perf_now() - start >= seconds) break;
  }
  last_calls[slot] = last_call;
  if (last_call < 0) {
    puts("a call failed");
    return;
  }
  qsort(sample, (size_t)count, sizeof *sample, compare_doubles);
  double median = (sample[(count - 1) / 2] + sample[count / 2]) / 2;
  printf("ok %d %.9g %.9g\n", count, sample[0], median);
}

static void write_result(const char *name, const worker_engine *engine) {
  char path[4096];
  size_t count;
  const float *data = engine->result(&count);
  snprintf(path, sizeof path, "%s/%s.f32", directory, name);
  FILE *file = fopen(path, "wb");
  bool good = file && fwrite(data, sizeof *data, count, file) == count;
  if (file && fclose(file)) good = false;
  puts(good ? "ok" : "the result could not be written");
}

/* Commands about one slot: its number comes first. */
static void answer_slot(const char *command, char *rest, const worker_engine *engine) {
  char *end;
  long slot = strtol(rest, &end, 10);
  if (end == rest || slot < 0 || slot >= WORKER_SLOTS) {
    puts("no such command, or no such slot");
    return;
  }
  rest = end + strspn(end, " ");
  engine->select((int)slot);
  if (!strcmp(command, "prepare"))
    prepare((int)slot, rest, engine);
  else if (!strcmp(command, "run"))
    run((int)slot, strtod(rest, NULL), engine);
  else if (!strcmp(command, "result"))
    write_result(rest, engine);
  else
    puts("no such command");
}

static void bandwidth(long long bytes, const worker_engine *engine) {
  if (bytes < 1)
    puts("bandwidth BYTES: at least 1");
  else
    printf("ok %.6g\n", engine->bandwidth ? engine->bandwidth(threads, bytes) : 0);
}

static void answer(char *line, const worker_engine *engine) {
  char *rest = line + strcspn(line, " ");
  if (*rest) *rest++ = 0;
  if (!strcmp(line, "version")) {
    printf("ok %s\n", engine->version());
  } else if (!strcmp(line, "forms")) {
    printf("ok %s\n", engine->forms(rest));
  } else if (!strcmp(line, "release")) {
    engine->release();
    puts("ok");
  } else if (!strcmp(line, "peak")) {
    printf("ok %.6g\n", engine->peak ? engine->peak(rest, threads) : 0);
  } else if (!strcmp(line, "bandwidth")) {
    bandwidth(atoll(rest), engine);
  } else {
    answer_slot(line, rest, engine);
  }
  fflush(stdout);
}

int worker_main(int argc, char **argv, const worker_engine *engine) {
  if (argc != 3 || (threads = atoi(argv[2])) < 1) {
    fprintf(stderr, "usage: %s DIRECTORY THREADS (started by compare.py)\n", argv[0]);
    return 2;
  }
  directory = argv[1];
  char line[LINE];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    answer(line, engine);
  }
  return 0;
}
