/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A long-lived process that compare.py asks, line by line on its standard input, to prepare a case,
 * time some calls of it, and write the result. Timing is done here, so that the pipe costs nothing. */
#ifndef ATTN_PEERS_WORKER_H
#define ATTN_PEERS_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forms of one case that are kept prepared side by side, so that their rounds can alternate. */
enum { WORKER_SLOTS = 8, WORKER_SIZES = 8 };

typedef struct worker_case {
  char kind[16];              /* attention, layer, linear, or one of CACHED in workloads.py */
  char form[128];             /* one of those that `forms` lists for the kind */
  int64_t size[WORKER_SIZES]; /* by kind, as compare.py's workloads.py has them */
  int sizes;
} worker_case;

typedef struct worker_engine {
  const char *(*version)(void);
  /* Forms of the kind, separated by tabs; "" when there are none. */
  const char *(*forms)(const char *kind);
  /* Reads the inputs into slot `slot`, after letting go of what it held. NULL, or what is wrong. */
  const char *(*prepare)(int slot, const worker_case *, int threads);
  void (*select)(int slot); /* the one that `run` and `result` are about from here on */
  void (*release)(void);    /* empties all slots */
  bool (*run)(void);        /* one call; false on failure */
  const float *(*result)(size_t *count);
  /* GFLOP/s of multiply-adds in registers on that instruction set, 0 where it cannot run; may be NULL. */
  double (*peak)(const char *isa, int threads);
  /* GB/s of reading so many bytes from memory; may be NULL. */
  double (*bandwidth)(int threads, int64_t bytes);
} worker_engine;

/* argv: directory of the inputs and outputs, number of threads. Returns the exit status. */
int worker_main(int argc, char **argv, const worker_engine *engine);

/* Reads NAME.f32 of the directory, which must hold exactly `count` floats. NULL when it does not, or
 * when there is no memory; the caller frees. */
float *worker_read(const char *name, int64_t count);

#endif
