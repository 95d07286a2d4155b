/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* attn itself, as a worker. */
#include <attn/attn.h>
#include <attn/layer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/linear.h"
#include "perf/machine.h"
#include "perf/peers/worker.h"

enum { MAX_INPUTS = 5, LINE = 64 }; /* LINE: bytes that workspaces are aligned to */

typedef struct prepared {
  float *input[MAX_INPUTS];
  float *output;
  size_t output_count;
  void *workspace;          /* of a projection */
  int32_t *lengths, *table; /* of decode */
  attn_layer *layer;
  attn_linear linear;
  attn_params attention;
  attn_layer_params forward;
  int64_t rows, depth, columns;
  int32_t threads;
  int set; /* in `sets`; -1 is the machine's own */
  attn_status (*run)(void);
} prepared;

static prepared slots[WORKER_SLOTS], *now = slots;

static const char *const sets[] = {"avx512", "avx2", "neon"};
enum { SETS = sizeof sets / sizeof *sets };

static void release_one(void) {
  for (int i = 0; i < MAX_INPUTS; i++) free(now->input[i]);
  free(now->output);
  free(now->workspace);
  free(now->lengths);
  free(now->table);
  attn_layer_destroy(now->layer);
  attn_linear_free(&now->linear);
  *now = (prepared){.set = -1};
}

static void release(void) {
  for (int i = 0; i < WORKER_SLOTS; i++) {
    now = &slots[i];
    release_one();
  }
}

static const char *version(void) {
  static char text[128];
  const char *isa = attn_isa_name();
  snprintf(text, sizeof text, "%s (%s)", attn_version(), isa ? isa : "none");
  return text;
}

/* The forms of the selected instruction set come first; one more for each narrower set, whose name comes
 * before the form's. */
static const char *forms(const char *kind) {
  static char text[256];
  const char *own = attn_isa_name(), *first = kind, *more = "";
  if (!strcmp(kind, "attention")) {
    first = "(B,H,T,D)";
    more = "\t(B,T,H,D)";
  } else if (!strcmp(kind, "paged")) {
    first = "pages";
    more = "\tpages, keys in rows\tcontiguous";
  } else if (strcmp(kind, "layer") && strcmp(kind, "linear")) {
    first = "cache";
    more = "\tcache, keys in rows";
  }
  snprintf(text, sizeof text, "%s%s", first, more);
  bool narrower = false;
  for (int i = 0; i < SETS && own; i++) {
    size_t length = strlen(text);
    if (narrower && attn_isa_supported(sets[i]))
      snprintf(text + length, sizeof text - length, "\t%s %s", sets[i], first);
    if (!strcmp(own, sets[i])) narrower = true;
  }
  return text;
}

/* The set of the slot, for calls from here on. */
static bool select_set(void) {
  return attn_select(now->set < 0 ? NULL : sets[now->set], NULL) == ATTN_OK;
}

static void select_slot(int slot) {
  now = &slots[slot];
  select_set(); /* what was prepared on a set, the machine has */
}

static attn_status run_attention(void) { return attn_forward(NULL, &now->attention); }
static attn_status run_layer(void) { return attn_layer_forward(NULL, now->layer, &now->forward); }
static attn_status run_linear(void) {
  return attn_linear_run(&now->linear, now->input[0], now->depth, now->rows, now->output,
                         now->columns, now->threads, now->workspace, NULL, NULL);
}

static bool read_input(int i, const char *name, int64_t count) {
  now->input[i] = worker_read(name, count);
  return now->input[i];
}

static bool make_output(int64_t count) {
  now->output_count = (size_t)count;
  now->output = calloc((size_t)count + 1, sizeof(float));
  return now->output;
}

static const char *const no_input = "an input is missing, has another size, or memory is short";

/* (B,H,T,D) as the file has it, to (B,T,H,D). */
static bool swap_heads(float **array, int64_t batch, int64_t heads, int64_t len, int64_t d) {
  float *swapped = malloc((size_t)(batch * heads * len * d) * sizeof *swapped);
  if (!swapped) return false;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t t = 0; t < len; t++)
        memcpy(swapped + ((b * len + t) * heads + h) * d, *array + ((b * heads + h) * len + t) * d,
               (size_t)d * sizeof *swapped);
  free(*array);
  *array = swapped;
  return true;
}

static attn_input view(const float *data, int64_t heads, int64_t len, int64_t d,
                       bool heads_inside) {
  return heads_inside ? (attn_input){data, heads * len * d, d, heads * d, 1}
                      : (attn_input){data, heads * len * d, len * d, d, 1};
}

/* Sizes: batch, heads, kv heads, length, head size. */
static const char *prepare_attention(const worker_case *c) {
  int64_t b = c->size[0], h = c->size[1], kv = c->size[2], t = c->size[3], d = c->size[4];
  if (!read_input(0, "q", b * h * t * d) || !read_input(1, "k", b * kv * t * d) ||
      !read_input(2, "v", b * kv * t * d) || !make_output(b * h * t * d))
    return no_input;
  bool inside = strstr(c->form, "(B,T,H,D)");
  for (int i = 0; inside && i < 3; i++)
    if (!swap_heads(&now->input[i], b, i ? kv : h, t, d)) return no_input;
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = b, p.q_heads = h, p.kv_heads = kv, p.q_len = p.kv_len = t;
  p.head_size = p.value_size = d;
  p.q = view(now->input[0], h, t, d, inside);
  p.k = view(now->input[1], kv, t, d, inside);
  p.v = view(now->input[2], kv, t, d, inside);
  attn_input o = view(now->output, h, t, d, inside);
  p.o = (attn_output){now->output, o.batch_stride, o.head_stride, o.row_stride, 1};
  p.has_num_threads = true;
  p.num_threads = now->threads;
  now->attention = p;
  now->run = run_attention;
  return NULL;
}

/* k or v, (B,Hkv,S,D), in pages as an attn_cache would hold it. */
static bool move_to_cache(float **array, const attn_params *p, bool interleaved) {
  const attn_pages *pages = &p->pages;
  int64_t d = p->head_size, heads = p->kv_heads, keys = p->kv_len, size = pages->page_size;
  float *moved = perf_allocate((size_t)(p->batch * heads * keys * d) * sizeof(float));
  if (!moved) return false;
  for (int64_t i = 0; i < p->batch * heads * keys; i++) {
    int64_t n = i / keys / heads, head = i / keys % heads, key = i % keys, slot = key % size;
    int64_t page = pages->table[n * pages->table_stride + key / size];
    float *to = moved + (page * heads + head) * size * d;
    for (int64_t j = 0; j < d; j++)
      to[interleaved ? slot / 16 * 16 * d + j * 16 + slot % 16 : slot * d + j] =
          (*array)[i * d + j];
  }
  free(*array);
  *array = moved;
  return true;
}

/* The pages of all sequences, in the order of a shuffled deck (Fisher and Yates), the same every time. */
static bool make_table(attn_params *p, int64_t size) {
  int64_t width = p->kv_len / size, count = p->batch * width;
  now->table = malloc(sizeof *now->table * (size_t)count);
  if (!now->table) return false;
  uint32_t state = 2026;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u; /* Numerical Recipes */
    int64_t other = (int64_t)(state >> 16) % (i + 1);
    if (other < i) now->table[i] = now->table[other];
    now->table[other] = (int32_t)i;
  }
  p->pages = (attn_pages){now->table, width, width, size, count};
  return true;
}

/* Sizes: batch, heads, kv heads, keys, head size; then the least keys of a ragged batch, or the size of
 * pages. One query row per sequence. */
static const char *prepare_cached(const worker_case *c) {
  int64_t b = c->size[0], h = c->size[1], kv = c->size[2], s = c->size[3], d = c->size[4];
  bool ragged = !strcmp(c->kind, "ragged"), paged = strstr(c->form, "pages");
  int64_t page = paged ? c->size[5] : s; /* a cache without pages has one for each sequence */
  bool interleaved = !strstr(c->form, "rows");
  if (!read_input(0, "q", b * h * d) || !read_input(1, "k", b * kv * s * d) ||
      !read_input(2, "v", b * kv * s * d) || !make_output(b * h * d))
    return no_input;
  if (s % page || page % 16) return "keys must fill their pages, and these be multiples of 16";
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = b, p.q_heads = h, p.kv_heads = kv, p.q_len = 1, p.kv_len = s;
  p.head_size = p.value_size = d;
  if (!make_table(&p, page) || !move_to_cache(&now->input[1], &p, interleaved) ||
      !move_to_cache(&now->input[2], &p, false))
    return no_input;
  if (interleaved) p.key_layout = ATTN_KEYS_INTERLEAVED;
  p.q = view(now->input[0], h, 1, d, false);
  p.k = view(now->input[1], kv, page, d, false);
  p.v = view(now->input[2], kv, page, d, false);
  p.o = (attn_output){now->output, h * d, d, d, 1};
  now->lengths = malloc(sizeof *now->lengths * (size_t)b);
  if (!now->lengths) return no_input;
  for (int64_t n = 0; n < b; n++) /* as workloads.py has it */
    now->lengths[n] =
        (int32_t)(ragged ? c->size[5] + n * (s - c->size[5]) / (b > 1 ? b - 1 : 1) : s);
  if (ragged) p.lengths.kv_lens = now->lengths;
  p.has_num_threads = true;
  p.num_threads = now->threads;
  now->attention = p;
  now->run = run_attention;
  return NULL;
}

/* Sizes: batch, length, d_model, heads. */
static const char *prepare_layer(const worker_case *c) {
  int64_t b = c->size[0], t = c->size[1], d = c->size[2];
  if (!read_input(0, "x", b * t * d) || !read_input(1, "w_qkv", 3 * d * d) ||
      !read_input(2, "b_qkv", 3 * d) || !read_input(3, "w_out", d * d) ||
      !read_input(4, "b_out", d) || !make_output(b * t * d))
    return no_input;
  attn_layer_config config = ATTN_LAYER_CONFIG_INIT;
  config.d_model = d;
  config.num_heads = c->size[3];
  attn_layer_weights weights = ATTN_LAYER_WEIGHTS_INIT;
  weights.qkv = (attn_weight){now->input[1], 3 * d, 1, now->input[2]};
  weights.out = (attn_weight){now->input[3], d, 1, now->input[4]};
  if (attn_layer_create(&config, &weights, &now->layer) != ATTN_OK) return attn_last_error();
  attn_layer_params p = ATTN_LAYER_PARAMS_INIT;
  p.batch = b, p.len = t, p.x = now->input[0], p.y = now->output;
  p.has_num_threads = true;
  p.num_threads = now->threads;
  now->forward = p;
  now->run = run_layer;
  return NULL;
}

/* Sizes: rows, inputs, outputs. The projection as the layer runs it. */
static const char *prepare_linear(const worker_case *c) {
  now->rows = c->size[0], now->depth = c->size[1], now->columns = c->size[2];
  if (!read_input(0, "x", now->rows * now->depth) ||
      !read_input(1, "w", now->depth * now->columns) || !read_input(2, "b", now->columns) ||
      !make_output(now->rows * now->columns))
    return no_input;
  const attn_kernels *kernels = attn_kernels_find(attn_isa_name(), false);
  attn_weight weight = {now->input[1], now->columns, 1, now->input[2]};
  if (attn_linear_init(&now->linear, kernels, now->depth, now->columns) != ATTN_OK ||
      attn_linear_pack(&now->linear, &weight, 0, now->columns) != ATTN_OK)
    return attn_last_error();
  size_t bytes = attn_linear_workspace(&now->linear, now->rows, now->threads);
  now->workspace = aligned_alloc(LINE, (bytes / LINE + 1) * LINE);
  if (!now->workspace) return no_input;
  now->run = run_linear;
  return NULL;
}

static const char *prepare(int slot, const worker_case *c, int threads) {
  now = &slots[slot];
  release_one();
  now->threads = threads;
  for (int i = 0; i < SETS; i++)
    if (!strncmp(c->form, sets[i], strlen(sets[i]))) now->set = i;
  if (!select_set()) return attn_last_error();
  if (!strcmp(c->kind, "attention")) return prepare_attention(c);
  if (!strcmp(c->kind, "layer")) return prepare_layer(c);
  if (!strcmp(c->kind, "linear")) return prepare_linear(c);
  return prepare_cached(c);
}

static bool run(void) {
  if (now->run && now->run() == ATTN_OK) return true;
  fprintf(stderr, "attn: %s\n", now->run ? attn_last_error() : "nothing is prepared");
  return false;
}

/* Attention's is always given as (B,T,H,D) or (B,H,T,D), as the form says: compare.py knows. */
static const float *result(size_t *count) {
  *count = now->output_count;
  return now->output;
}

static double peak(const char *isa, int threads) {
  if (attn_select(isa, NULL) != ATTN_OK) return 0;
  double gflops = perf_peak_gflops(threads);
  select_set();
  return gflops;
}

int main(int argc, char **argv) {
  release();
  static const worker_engine engine = {version, forms,  prepare, select_slot,       release,
                                       run,     result, peak,    perf_bandwidth_gbs};
  return worker_main(argc, argv, &engine);
}
