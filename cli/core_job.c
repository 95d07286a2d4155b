/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Loading attention problems: q, k and v of a case file. */
#include "job.h"

#include <stdio.h>
#include <string.h>

#define ALLOWED_O 8
#define ALLOWED_LSE 4

/* With lengths below 2^31 no product of a stride overflows, not even beside an extent of 0. */
#define MAX_HEADS 1048576
#define MAX_SIZE 1024

static const char *metadata(const job *j, const char *key) {
  const char *text = attn_file_metadata(j->files[0], key);
  return text == NULL ? "" : text;
}

static int lacking(const job *j, const char *what, const char *value, const char *allowed) {
  return fail(EXIT_UNSUPPORTED, "%s: metadata '%s' is '%s'; not supported: only %s is", j->path,
              what, value, allowed);
}

/* Refuses what this version lacks. */
static int check_features(const job *j) {
  static const char *const tensors[] = {"alibi_slopes", "sink"};
  static const char *const windows[] = {"window_left", "window_right"};
  const char *dtype = metadata(j, "dtype"), *softcap = metadata(j, "softcap");
  double number;
  if (strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0)
    return lacking(j, "dtype", dtype, "F32");
  for (int i = 0; i < 2; i++) {
    const char *window = metadata(j, windows[i]);
    if (parse_number(window, &number) && number >= 0)
      return lacking(j, windows[i], window, "-1, no window,");
  }
  if (parse_number(softcap, &number) && number != 0)
    return lacking(j, "softcap", softcap, "0, none,");
  for (int i = 0; i < 2; i++)
    if (attn_file_tensor(j->files[0], tensors[i]) != NULL)
      return fail(EXIT_UNSUPPORTED, "%s: tensor '%s' is given; not supported", j->path, tensors[i]);
  return 0;
}

/* What check_features() did not know must be well formed and off. */
static int check_options(const job *j) {
  int64_t window;
  double softcap;
  if (strcmp(metadata(j, "dtype"), "F32") != 0)
    return fail(EXIT_BAD_DATA, "%s: metadata 'dtype' is '%s'; allowed are F32, BF16 and F16",
                j->path, metadata(j, "dtype"));
  int code = job_int(j, "window_left", -1, INT64_MAX, &window);
  if (code == 0) code = job_int(j, "window_right", -1, INT64_MAX, &window);
  if (code == 0) code = job_number(j, "softcap", &softcap);
  return code;
}

/* A tensor of that type and that many extents, which `extents` names. */
static int find(const job *j, const char *name, attn_dtype dtype, int32_t rank, const char *extents,
                const attn_tensor **tensor) {
  const attn_tensor *t = *tensor = attn_file_tensor(j->files[0], name);
  if (t == NULL) return job_missing(j, name);
  if (t->dtype != dtype)
    return fail(EXIT_BAD_DATA, "%s: tensor '%s' has dtype %s; it must be %s", j->path, name,
                attn_dtype_name(t->dtype), attn_dtype_name(dtype));
  if (t->rank != rank)
    return fail(EXIT_BAD_DATA, "%s: tensor '%s' has rank %d; it must be %s", j->path, name,
                (int)t->rank, extents);
  for (int32_t i = 0; i < rank; i++)
    if (t->shape[i] > INT32_MAX)
      return fail(EXIT_BAD_DATA, "%s: tensor '%s' has an extent of %lld; allowed is up to %d",
                  j->path, name, (long long)t->shape[i], INT32_MAX);
  return 0;
}

/* A copy of an I32 tensor: a file need not have it aligned. NULL after saying why not. */
static const int32_t *copy_ints(job *j, const attn_tensor *tensor) {
  int32_t *copy = job_alloc(j, tensor->count, sizeof(*copy));
  if (copy != NULL) memcpy(copy, tensor->data, (size_t)tensor->count * sizeof(*copy));
  return copy;
}

/* What all layouts have in common. */
static int set_sizes(job *j) {
  attn_params *p = &j->params;
  int64_t causal;
  double scale;
  int code = job_int(j, "num_heads", 1, MAX_HEADS, &p->q_heads);
  if (code == 0) code = job_int(j, "num_kv_heads", 1, MAX_HEADS, &p->kv_heads);
  if (code == 0) code = job_int(j, "D", 1, MAX_SIZE, &p->head_size);
  if (code == 0) code = job_int(j, "Dv", 1, MAX_SIZE, &p->value_size);
  if (code == 0) code = job_int(j, "causal", 0, 1, &causal);
  if (code == 0) code = job_number(j, "scale", &scale);
  if (code != 0) return code;
  p->causal = causal != 0;
  p->has_scale = true;
  p->scale = (float)scale;
  return 0;
}

/* The view of a tensor (array, row, head, dim), where an array is a batch entry or a page; packed sequences have
 * one, and no extent for it. */
static int set_view(job *j, const attn_tensor *t, int64_t arrays, int64_t rows, int64_t heads,
                    int64_t size, attn_input *view) {
  const int64_t want[4] = {arrays, rows, heads, size};
  int code = job_expect_shape(j, t, t->rank, want + 4 - t->rank);
  if (code != 0) return code;
  const float *data;
  code = job_floats(j, t, &data);
  if (code != 0) return code;
  *view = (attn_input){.data = data,
                       .batch_stride = rows * heads * size,
                       .head_stride = size,
                       .row_stride = heads * size,
                       .dim_stride = 1};
  return 0;
}

static int set_views(job *j, const attn_tensor *const qkv[3], int64_t kv_arrays, int64_t kv_rows) {
  attn_params *p = &j->params;
  int code = set_view(j, qkv[0], p->batch, p->q_len, p->q_heads, p->head_size, &p->q);
  if (code == 0) code = set_view(j, qkv[1], kv_arrays, kv_rows, p->kv_heads, p->head_size, &p->k);
  if (code == 0) code = set_view(j, qkv[2], kv_arrays, kv_rows, p->kv_heads, p->value_size, &p->v);
  return code;
}

static int find_qkv(const job *j, const char *k, const char *v, int32_t rank, const char *extents,
                    const attn_tensor *qkv[3]) {
  int code = find(j, "q", ATTN_F32, rank, rank == 4 ? "(B,T,H,D)" : extents, &qkv[0]);
  if (code == 0) code = find(j, k, ATTN_F32, rank, extents, &qkv[1]);
  if (code == 0) code = find(j, v, ATTN_F32, rank, extents, &qkv[2]);
  return code;
}

/* ---- the layouts ---------------------------------------------------------------------------- */

static int load_dense(job *j) {
  attn_params *p = &j->params;
  const attn_tensor *qkv[3];
  int code = job_int(j, "B", 0, INT32_MAX, &p->batch);
  if (code == 0) code = job_int(j, "Tq", 0, INT32_MAX, &p->q_len);
  if (code == 0) code = job_int(j, "Tk", 0, INT32_MAX, &p->kv_len);
  if (code == 0) code = find_qkv(j, "k", "v", 4, "(B,T,H,D)", qkv);
  return code == 0 ? set_views(j, qkv, p->batch, p->kv_len) : code;
}

static int load_varlen(job *j) {
  attn_params *p = &j->params;
  const attn_tensor *qkv[3], *cu_q, *cu_k;
  int code = find_qkv(j, "k", "v", 3, "(T,H,D)", qkv);
  if (code == 0) code = find(j, "cu_seqlens_q", ATTN_I32, 1, "(sequences + 1)", &cu_q);
  if (code == 0) code = find(j, "cu_seqlens_k", ATTN_I32, 1, "(sequences + 1)", &cu_k);
  if (code != 0) return code;
  if (cu_q->shape[0] != cu_k->shape[0] || cu_q->shape[0] == 0)
    return fail(
        EXIT_BAD_DATA,
        "%s: tensors 'cu_seqlens_q' and 'cu_seqlens_k' have %lld and %lld entries; both must "
        "have one more than there are sequences",
        j->path, (long long)cu_q->shape[0], (long long)cu_k->shape[0]);
  p->batch = cu_q->shape[0] - 1;
  p->q_len = qkv[0]->shape[0];
  p->kv_len = qkv[1]->shape[0];
  p->lengths.cu_seqlens_q = copy_ints(j, cu_q);
  p->lengths.cu_seqlens_k = copy_ints(j, cu_k);
  if (p->lengths.cu_seqlens_q == NULL || p->lengths.cu_seqlens_k == NULL) return EXIT_BAD_DATA;
  return set_views(j, qkv, 1, p->kv_len);
}

/* In the words of the file; the library would name its own arguments. */
static int check_pages(const job *j) {
  const attn_params *p = &j->params;
  const attn_pages *g = &p->pages;
  for (int64_t n = 0; n < p->batch; n++) {
    const int32_t length = p->lengths.kv_lens[n];
    if (length > 0 && g->num_pages == 0)
      return fail(EXIT_BAD_DATA, "%s: seq_lens[%lld] is %d, but k_cache has no blocks", j->path,
                  (long long)n, (int)length);
    const long long slots = g->table_width * g->page_size;
    if (length < 0 || length > slots)
      return fail(
          EXIT_BAD_DATA,
          "%s: seq_lens[%lld] is %d; allowed is 0 to %lld, the %lld columns of block_table * "
          "block_size %lld",
          j->path, (long long)n, (int)length, slots, (long long)g->table_width,
          (long long)g->page_size);
    for (int64_t i = 0; i * g->page_size < length; i++) {
      const int32_t page = g->table[n * g->table_stride + i];
      if (page < 0 || page >= g->num_pages)
        return fail(EXIT_BAD_DATA, "%s: block_table[%lld][%lld] is %d; allowed is 0 to %lld",
                    j->path, (long long)n, (long long)i, (int)page, (long long)g->num_pages - 1);
    }
  }
  return 0;
}

static int load_paged(job *j) {
  attn_params *p = &j->params;
  attn_pages *g = &p->pages;
  const attn_tensor *qkv[3], *table, *lens;
  int code = job_int(j, "B", 0, INT32_MAX, &p->batch);
  if (code == 0) code = job_int(j, "Tq", 0, INT32_MAX, &p->q_len);
  if (code == 0) code = job_int(j, "block_size", 1, INT32_MAX, &g->page_size);
  if (code == 0) code = find_qkv(j, "k_cache", "v_cache", 4, "(blocks,block_size,H,D)", qkv);
  if (code == 0) code = find(j, "block_table", ATTN_I32, 2, "(B,blocks)", &table);
  if (code == 0) code = find(j, "seq_lens", ATTN_I32, 1, "(B)", &lens);
  if (code == 0) code = job_expect_shape(j, table, 2, (int64_t[2]){p->batch, table->shape[1]});
  if (code == 0) code = job_expect_shape(j, lens, 1, (int64_t[1]){p->batch});
  if (code != 0) return code;
  g->num_pages = qkv[1]->shape[0];
  g->table = copy_ints(j, table);
  g->table_stride = g->table_width = table->shape[1];
  p->lengths.kv_lens = copy_ints(j, lens);
  if (g->table == NULL || p->lengths.kv_lens == NULL) return EXIT_BAD_DATA;
  code = check_pages(j);
  for (int64_t n = 0; n < p->batch && code == 0; n++)
    if (p->lengths.kv_lens[n] > p->kv_len) p->kv_len = p->lengths.kv_lens[n];
  if (g->table_width == 0) g->table = NULL; /* nobody has keys */
  return code == 0 ? set_views(j, qkv, g->num_pages, g->page_size) : code;
}

static int load_layout(job *j) {
  const char *layout = metadata(j, "layout");
  if (strcmp(layout, "dense") == 0) return load_dense(j);
  if (strcmp(layout, "varlen") == 0) return load_varlen(j);
  if (strcmp(layout, "paged") == 0) return load_paged(j);
  return fail(EXIT_BAD_DATA, "%s: metadata 'layout' is '%s'; allowed are dense, varlen and paged",
              j->path, layout);
}

/* ---- outputs -------------------------------------------------------------------------------- */

static int set_outputs(job *j) {
  attn_params *p = &j->params;
  const bool packed = p->lengths.cu_seqlens_q != NULL;
  const int64_t batch = packed ? 1 : p->batch;
  const int64_t heads = p->q_heads, rows = p->q_len, size = p->value_size;
  const int64_t o_shape[4] = {batch, rows, heads, size}, lse_shape[3] = {batch, heads, rows};
  float *out = job_alloc(j, batch * rows * heads * size, sizeof(float));
  float *lse = job_alloc(j, batch * heads * rows, sizeof(float));
  if (out == NULL || lse == NULL) return EXIT_BAD_DATA;
  p->o = (attn_output){.data = out,
                       .batch_stride = rows * heads * size,
                       .head_stride = size,
                       .row_stride = heads * size,
                       .dim_stride = 1};
  p->lse = (attn_lse_output){
      .data = lse, .batch_stride = heads * rows, .head_stride = rows, .row_stride = 1};
  /* Packed results have no batch. */
  job_add_result(j, "o", out, packed ? 3 : 4, o_shape + packed);
  job_add_result(j, "lse", lse, packed ? 2 : 3, lse_shape + packed);
  return 0;
}

/* Sums, over the sequences, the keys that their queries see. */
static double all_pairs(const attn_params *p) {
  const attn_lengths *l = &p->lengths;
  double pairs = 0;
  if (l->cu_seqlens_q == NULL && l->kv_lens == NULL)
    return (double)p->batch * visible_pairs(p->q_len, p->kv_len, p->causal);
  for (int64_t n = 0; n < p->batch; n++) {
    const int64_t rows =
        l->cu_seqlens_q != NULL ? l->cu_seqlens_q[n + 1] - l->cu_seqlens_q[n] : p->q_len;
    const int64_t keys =
        l->cu_seqlens_k != NULL ? l->cu_seqlens_k[n + 1] - l->cu_seqlens_k[n] : l->kv_lens[n];
    pairs += visible_pairs(rows, keys, p->causal);
  }
  return pairs;
}

static void describe(job *j) {
  const attn_params *p = &j->params;
  const char *layout = metadata(j, "layout");
  char lengths[80];
  if (p->lengths.cu_seqlens_q != NULL)
    snprintf(lengths, sizeof(lengths), "packed sequences %lld, queries %lld, keys %lld",
             (long long)p->batch, (long long)p->q_len, (long long)p->kv_len);
  else
    snprintf(lengths, sizeof(lengths), "B %lld, Tq %lld, Tk %s%lld", (long long)p->batch,
             (long long)p->q_len, layout[0] == 'p' ? "up to " : "", (long long)p->kv_len);
  snprintf(j->shape, sizeof(j->shape),
           "%s, heads %lld, kv heads %lld, head size %lld, value size %lld, %s", lengths,
           (long long)p->q_heads, (long long)p->kv_heads, (long long)p->head_size,
           (long long)p->value_size, p->causal ? "causal" : "not causal");
  j->flops = 2.0 * (double)(p->head_size + p->value_size) * (double)p->q_heads * all_pairs(p);
}

/* Offsets are to be checked before anything is told of them; the size itself is of no use here. */
static int check_problem(const job *j) {
  size_t bytes;
  const attn_status status = attn_workspace_size(&j->params, &bytes);
  return status == ATTN_OK ? 0 : fail_data(status, j->path);
}

int job_load_core_case(job *j, const options *o) {
  int code = check_features(j);
  if (code != 0) return code;
  j->params = (attn_params)ATTN_PARAMS_INIT;
  j->params.has_num_threads = o->has_threads;
  j->params.num_threads = o->threads;
  code = check_options(j);
  if (code == 0) code = set_sizes(j);
  if (code == 0) code = load_layout(j);
  if (code == 0) code = check_problem(j);
  if (code == 0) code = set_outputs(j);
  if (code != 0) return code;
  describe(j);
  code = job_add_check(j, 0, "o_f64", "tol_unit", false, ALLOWED_O);
  return code == 0 ? job_add_check(j, 1, "lse_f64", "lse_tol_unit", true, ALLOWED_LSE) : code;
}
