/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* oneDNN's matmul, weights reordered once to the format that it likes best, bias fused: as a worker. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/peers/worker.h"

enum { MEMORIES = 4 }; /* source, weights, bias, destination */
static const int argument[MEMORIES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST};

typedef struct prepared {
  float *data[MEMORIES]; /* weights: as they were read */
  dnnl_memory_t memory[MEMORIES];
  dnnl_primitive_desc_t description;
  dnnl_primitive_t matmul;
  size_t count;
} prepared;

static prepared slots[WORKER_SLOTS], *now = slots;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void release_one(void) {
  if (now->matmul) dnnl_primitive_destroy(now->matmul);
  if (now->description) dnnl_primitive_desc_destroy(now->description);
  for (int i = 0; i < MEMORIES; i++) {
    if (now->memory[i]) dnnl_memory_destroy(now->memory[i]);
    free(now->data[i]);
  }
  *now = (prepared){0};
}

static void release(void) {
  for (int i = 0; i < WORKER_SLOTS; i++) {
    now = &slots[i];
    release_one();
  }
}

static const char *version(void) {
  static char text[64];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

static const char *forms(const char *kind) {
  return strcmp(kind, "linear") ? "" : "matmul, prepacked";
}

/* Versions 2 and 3 describe memory and primitives differently. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t const_layout;

/* NULL on failure. */
static layout describe(int64_t rows, int64_t columns, dnnl_format_tag_t tag) {
  const dnnl_dims_t dims = {rows, columns};
  layout l = NULL;
  bool good = dnnl_memory_desc_create_with_tag(&l, 2, dims, dnnl_f32, tag) == dnnl_success;
  return good ? l : NULL;
}

static void forget(layout l) {
  if (l) dnnl_memory_desc_destroy(l);
}

static bool describe_matmul(const layout l[MEMORIES]) {
  return dnnl_matmul_primitive_desc_create(&now->description, engine, l[0], l[1], l[2], l[3],
                                           NULL) == dnnl_success;
}
#else
typedef dnnl_memory_desc_t *layout;
typedef const dnnl_memory_desc_t *const_layout;

static layout describe(int64_t rows, int64_t columns, dnnl_format_tag_t tag) {
  const dnnl_dims_t dims = {rows, columns};
  layout l = malloc(sizeof *l);
  if (l && dnnl_memory_desc_init_by_tag(l, 2, dims, dnnl_f32, tag) == dnnl_success) return l;
  free(l);
  return NULL;
}

static void forget(layout l) { free(l); }

static bool describe_matmul(const layout l[MEMORIES]) {
  dnnl_matmul_desc_t matmul;
  return dnnl_matmul_desc_init(&matmul, l[0], l[1], l[2], l[3]) == dnnl_success &&
         dnnl_primitive_desc_create(&now->description, &matmul, NULL, engine, NULL) == dnnl_success;
}
#endif

static bool execute(dnnl_primitive_t primitive, int count, const dnnl_exec_arg_t *arguments) {
  return dnnl_primitive_execute(primitive, stream, count, arguments) == dnnl_success &&
         dnnl_stream_wait(stream) == dnnl_success;
}

/* Weights as they were read, to the format that the matmul wants. */
static bool pack(const_layout plain, const_layout packed) {
  dnnl_memory_t from = NULL;
  dnnl_primitive_desc_t description = NULL;
  dnnl_primitive_t reorder = NULL;
  bool good =
      dnnl_memory_create(&from, plain, engine, now->data[1]) == dnnl_success &&
      dnnl_memory_create(&now->memory[1], packed, engine, DNNL_MEMORY_ALLOCATE) == dnnl_success &&
      dnnl_reorder_primitive_desc_create(&description, plain, engine, packed, engine, NULL) ==
          dnnl_success &&
      dnnl_primitive_create(&reorder, description) == dnnl_success;
  if (good) {
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, now->memory[1]}};
    good = execute(reorder, 2, arguments);
  }
  if (reorder) dnnl_primitive_destroy(reorder);
  if (description) dnnl_primitive_desc_destroy(description);
  if (from) dnnl_memory_destroy(from);
  return good;
}

static bool make_matmul(const layout l[MEMORIES], layout plain_weights) {
  if (!describe_matmul(l)) return false;
  const_layout packed = dnnl_primitive_desc_query_md(now->description, dnnl_query_weights_md, 0);
  if (!packed || !pack(plain_weights, packed)) return false;
  for (int i = 0; i < MEMORIES; i++)
    if (i != 1 && dnnl_memory_create(&now->memory[i], l[i], engine, now->data[i]) != dnnl_success)
      return false;
  return dnnl_primitive_create(&now->matmul, now->description) == dnnl_success;
}

/* Sizes: rows, inputs, outputs. */
static const char *prepare(int slot, const worker_case *c, int threads) {
  (void)threads; /* OMP_NUM_THREADS says it */
  now = &slots[slot];
  release_one();
  int64_t rows = c->size[0], depth = c->size[1], columns = c->size[2];
  now->count = (size_t)(rows * columns);
  now->data[0] = worker_read("x", rows * depth);
  now->data[1] = worker_read("w", depth * columns);
  now->data[2] = worker_read("b", columns);
  now->data[3] = malloc(now->count * sizeof(float) + 1);
  if (!now->data[0] || !now->data[1] || !now->data[2] || !now->data[3])
    return "an input is missing, has another size, or memory is short";
  layout plain_weights = describe(depth, columns, dnnl_ab);
  layout l[MEMORIES] = {describe(rows, depth, dnnl_ab),
                        describe(depth, columns, dnnl_format_tag_any),
                        describe(1, columns, dnnl_ab), describe(rows, columns, dnnl_ab)};
  bool good = plain_weights && l[0] && l[1] && l[2] && l[3] && make_matmul(l, plain_weights);
  for (int i = 0; i < MEMORIES; i++) forget(l[i]);
  forget(plain_weights);
  return good ? NULL : "the matmul primitive could not be made";
}

static bool run(void) {
  dnnl_exec_arg_t arguments[MEMORIES];
  for (int i = 0; i < MEMORIES; i++) arguments[i] = (dnnl_exec_arg_t){argument[i], now->memory[i]};
  return now->matmul && execute(now->matmul, MEMORIES, arguments);
}

static void select_slot(int slot) { now = &slots[slot]; }

static const float *result(size_t *count) {
  *count = now->count;
  return now->data[3];
}

int main(int argc, char **argv) {
  static const worker_engine callbacks = {version, forms,  prepare, select_slot, release,
                                          run,     result, NULL,    NULL};
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
      dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success) {
    fprintf(stderr, "oneDNN has no engine for this processor\n");
    return 1;
  }
  return worker_main(argc, argv, &callbacks);
}
