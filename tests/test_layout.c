/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Strides of every kind give the bits of the compact arrays. `--far` alone: rows 2^30 bytes
 * apart, so that element offsets pass 2^31. */

#include "exact.h"
#include "random.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t seed = 5001;

/* Order of the four axes in memory, outermost first, by letter: b, h, t (row), d; an upper-case letter
 * runs backwards. */
typedef struct layout {
  const char *order;
  int64_t gap;    /* unused elements after the innermost axis */
  int64_t offset; /* elements before the first */
} layout;

typedef struct strides {
  int64_t b, h, t, d, first, total;
} strides;

static strides strides_of(const layout *l, int64_t b, int64_t h, int64_t t, int64_t d) {
  strides s = {.first = l->offset};
  int64_t step = 1;
  for (int i = 3; i >= 0; i--) {
    char axis = l->order[i];
    bool backwards = axis < 'a';
    int64_t extent, *to;
    switch (axis) {
    case 'b':
    case 'B': extent = b, to = &s.b; break;
    case 'h':
    case 'H': extent = h, to = &s.h; break;
    case 't':
    case 'T': extent = t, to = &s.t; break;
    default: extent = d, to = &s.d; break;
    }
    *to = backwards ? -step : step;
    if (backwards) s.first += (extent - 1) * step;
    step = step * extent + (i == 3 ? l->gap : 0);
  }
  s.total = l->offset + step;
  return s;
}

/* A NaN-filled array that holds `dense` by that layout. */
static float *spread(const float *dense, const layout *l, int64_t B, int64_t H, int64_t T,
                     int64_t D, attn_input *view) {
  strides s = strides_of(l, B, H, T, D);
  float *out = check_floats((size_t)s.total);
  for (int64_t i = 0; i < s.total; i++) out[i] = NAN;
  for (int64_t b = 0; b < B; b++)
    for (int64_t h = 0; h < H; h++)
      for (int64_t t = 0; t < T; t++)
        for (int64_t d = 0; d < D; d++)
          out[s.first + b * s.b + h * s.h + t * s.t + d * s.d] =
              dense[((b * H + h) * T + t) * D + d];
  *view = (attn_input){out + s.first, s.b, s.h, s.t, s.d};
  return out;
}

/* Runs p with all arrays by these layouts; the gaps of the output must stay untouched. */
static void run_as(problem *p, const bits *want, const layout *q, const layout *k, const layout *v,
                   const layout *o) {
  shape s = p->shape;
  attn_params a = p->params;
  float *qs = spread(p->q, q, s.batch, s.q_heads, s.q_len, s.head_size, &a.q);
  float *ks = spread(p->k, k, s.batch, s.kv_heads, s.kv_len, s.head_size, &a.k);
  float *vs = spread(p->v, v, s.batch, s.kv_heads, s.kv_len, s.value_size, &a.v);
  strides os = strides_of(o, s.batch, s.q_heads, s.q_len, s.value_size);
  float *out = check_floats((size_t)os.total);
  canary_fill(out, (size_t)os.total);
  a.o = (attn_output){out + os.first, os.b, os.h, os.t, os.d};
  /* lse rows interleaved by head, backwards */
  float *lse = check_floats(p->lse_count);
  canary_fill(lse, p->lse_count);
  a.lse = (attn_lse_output){lse + p->lse_count - 1, -s.q_len * s.q_heads, -1, -s.q_heads};
  check_context("q %s, k %s, v %s, o %s", q->order, k->order, v->order, o->order);
  CHECK_OK(attn_forward(NULL, &a));

  float *got = check_floats(p->o_count), *got_lse = check_floats(p->lse_count);
  size_t written = 0;
  for (int64_t b = 0, n = 0; b < s.batch; b++)
    for (int64_t h = 0; h < s.q_heads; h++)
      for (int64_t t = 0; t < s.q_len; t++) {
        got_lse[(b * s.q_heads + h) * s.q_len + t] =
            a.lse.data[b * a.lse.batch_stride + h * a.lse.head_stride + t * a.lse.row_stride];
        for (int64_t d = 0; d < s.value_size; d++, n++)
          got[n] = out[os.first + b * os.b + h * os.h + t * os.t + d * os.d];
      }
  for (int64_t i = 0; i < os.total; i++) written += float_bits(out[i]) != CANARY_BITS;
  CHECK_BITS(got, want->o, p->o_count);
  CHECK_BITS(got_lse, want->lse, p->lse_count);
  CHECK_INT(written, p->o_count);
  free(qs);
  free(ks);
  free(vs);
  free(out);
  free(lse);
  free(got);
  free(got_lse);
}

static void all_orders(void) {
  static const layout layouts[] = {{"bhtd", 0, 0}, {"bthd", 0, 1}, {"bhdt", 0, 0}, {"bhtd", 5, 3},
                                   {"BHTD", 0, 0}, {"dthb", 0, 0}, {"bThd", 2, 0}, {"tdbh", 1, 7},
                                   {"bhTd", 0, 2}, {"hbtD", 0, 0}};
  enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };
  static const shape shapes[] = {{2, 4, 2, 21, 30, 12, 9},
                                 {1, 2, 2, 6, 6, 8, 8},
                                 {1, 3, 1, 1, 600, 16, 20},
                                 {2, 2, 1, 70, 70, 33, 31}};
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    problem p = problem_random(shapes[i], seed);
    bits want = bits_of(&p, 1);
    problem_check(&p);
    p.params.num_threads = 2;
    for (int n = 0; n < LAYOUTS; n += check_brief() ? 3 : 1) {
      run_as(&p, &want, &layouts[n], &layouts[n], &layouts[n], &layouts[n]);
      run_as(&p, &want, &layouts[n], &layouts[(n + 3) % LAYOUTS], &layouts[(n + 5) % LAYOUTS],
             &layouts[(n + 7) % LAYOUTS]);
    }
    bits_free(&want);
    problem_free(&p);
  }
}

/* Elements of a row as far apart as those of an interleaved key, 16, but rows that are not side by side: the batch is
 * innermost. For one tile of queries, which reads K where it lies, and for decode. */
static void apart_as_interleaved(void) {
  static const layout batch_inside = {"htdb", 0, 0}, plain = {"bhtd", 0, 0};
  static const shape shapes[] = {
      {16, 1, 1, 20, 45, 12, 9}, {16, 1, 1, 7, 70, 20, 8}, {16, 2, 2, 2, 37, 33, 8}};
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    problem p = problem_random(shapes[i], seed + 1);
    bits want = bits_of(&p, 1);
    problem_check(&p);
    run_as(&p, &want, &plain, &batch_inside, &plain, &plain);
    run_as(&p, &want, &batch_inside, &batch_inside, &batch_inside, &batch_inside);
    bits_free(&want);
    problem_free(&p);
  }
}

/* Views into one (row, 3, head, dim) buffer. */
static void fused_qkv(void) {
  enum { T = 5, H = 2, D = 8, ROW = 3 * H * D };
  problem p = problem_new((shape){1, H, H, T, T, D, D});
  problem_fill(&p, 97, 1);
  bits want = bits_of(&p, 1);
  float fused[T * ROW];
  for (int64_t t = 0; t < T; t++)
    for (int64_t h = 0; h < H; h++)
      for (int64_t d = 0; d < D; d++) {
        int64_t from = (h * T + t) * D + d, to = t * ROW + h * D + d;
        fused[to] = p.q[from];
        fused[to + H * D] = p.k[from];
        fused[to + 2 * H * D] = p.v[from];
      }
  check_context("slices of a fused qkv buffer");
  p.params.q = (attn_input){fused, 0, D, ROW, 1};
  p.params.k = (attn_input){fused + H * D, 0, D, ROW, 1};
  p.params.v = (attn_input){fused + 2 * H * D, 0, D, ROW, 1};
  problem_run(&p);
  CHECK_SAME(&p, &want);
  bits_free(&want);
  problem_free(&p);
}

/* Stride 0: one key sequence for the whole batch, one kv head for all. */
static void expanded(void) {
  shape s = {3, 4, 2, 4, 8, 12, 12};
  problem p = problem_random(s, 100);
  size_t one = (size_t)(s.kv_heads * s.kv_len * s.head_size), head = one / 2;
  for (int axis = 0; axis < 2; axis++) {
    size_t size = axis == 0 ? one : head; /* the part that repeats */
    for (size_t at = size; at < p.k_count; at += size) {
      memcpy(p.k + at, p.k, size * sizeof(float));
      memcpy(p.v + at, p.v, size * sizeof(float));
    }
    check_context("%s stride 0", axis == 0 ? "batch" : "batch and head");
    attn_params before = p.params;
    bits want = bits_of(&p, 1);
    problem_check(&p);
    p.params.k.batch_stride = p.params.v.batch_stride = 0;
    if (axis == 1) p.params.k.head_stride = p.params.v.head_stride = 0;
    problem_run(&p);
    CHECK_SAME(&p, &want);
    p.params = before;
    bits_free(&want);
  }
  check_context("row and dim stride 0");
  p.params.k.row_stride = p.params.k.dim_stride = 0;
  p.params.q.dim_stride = 0;
  problem_run(&p);
  problem_check(&p);
  problem_free(&p);
}

/* Every array one float past a 64-byte boundary, and all other misalignments. */
static void misaligned(void) {
  problem p = problem_new((shape){1, 1, 1, 9, 9, 16, 16});
  problem_fill(&p, 78, 1);
  bits want = bits_of(&p, 1);
  problem_check(&p);
  enum { ROOM = 9 * 16 + 32 };
  float *a = aligned_alloc(64, 5 * 64 * ((ROOM * sizeof(float) + 63) / 64));
  CHECK(a != NULL);
  for (int64_t off = 0; a && off < 16; off++) {
    float *part[4];
    for (int i = 0; i < 4; i++) part[i] = a + i * 192 + (off + i * (off % 3)) % 16;
    memcpy(part[0], p.q, p.q_count * sizeof(float));
    memcpy(part[1], p.k, p.k_count * sizeof(float));
    memcpy(part[2], p.v, p.v_count * sizeof(float));
    check_context("arrays %lld floats past a 64-byte boundary", (long long)off);
    p.params.q.data = part[0];
    p.params.k.data = part[1];
    p.params.v.data = part[2];
    p.params.o.data = part[3];
    CHECK_OK(attn_forward(NULL, &p.params));
    CHECK_BITS(part[3], want.o, p.o_count);
  }
  free(a);
  bits_free(&want);
  problem_free(&p);
}

/* o is exactly q. */
static void in_place(shape s) {
  problem p = problem_random(s, seed);
  bits want = bits_of(&p, 1);
  float *q = copy_floats(p.q, p.q_count);
  p.params.o = dense_output(p.q, s.q_heads, s.q_len, s.head_size);
  p.params.num_threads = 8;
  for (int i = 0; i < (check_brief() ? 3 : 20); i++) {
    check_context(SHAPE_FORMAT " in place, run %d", SHAPE_VALUES(s), i);
    memcpy(p.q, q, p.q_count * sizeof(float));
    CHECK_OK(attn_forward(NULL, &p.params));
    CHECK_BITS(p.q, want.o, p.o_count);
    CHECK_BITS(p.lse, want.lse, p.lse_count);
  }
  free(q);
  bits_free(&want);
  problem_free(&p);
}

/* Address space for `rows` rows of 2^28 floats; only the touched pages exist. */
static float *far_array(int64_t rows) {
  void *map = mmap(NULL, (size_t)rows << 30, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) check_skip("no %lld GiB of address space", (long long)rows);
  return map;
}

static void far_rows(void) {
  enum { T = 9, D = 8 };
  const int64_t row = INT64_C(1) << 28;
  problem p = problem_new((shape){1, 1, 1, T, T, D, D});
  problem_fill(&p, 97, 1);
  bits want = bits_of(&p, 1);
  float *a[4];
  for (int i = 0; i < 4; i++) a[i] = far_array(T);
  for (int64_t t = 0; t < T; t++) {
    memcpy(a[0] + t * row, p.q + t * D, D * sizeof(float));
    memcpy(a[1] + t * row, p.k + t * D, D * sizeof(float));
    memcpy(a[2] + t * row, p.v + t * D, D * sizeof(float));
  }
  check_context("rows 2^28 elements apart");
  p.params.q = (attn_input){a[0], 0, 0, row, 1};
  p.params.k = (attn_input){a[1], 0, 0, row, 1};
  p.params.v = (attn_input){a[2], 0, 0, row, 1};
  p.params.o = (attn_output){a[3], 0, 0, row, 1};
  CHECK_OK(attn_forward(NULL, &p.params));
  for (int64_t t = 0; t < T; t++) CHECK_BITS(a[3] + t * row, want.o + t * D, D);
  /* The same backwards. */
  for (int i = 0; i < 3; i++) {
    for (int64_t t = 0; t < T / 2; t++) {
      float *x = a[i] + t * row, *y = a[i] + (T - 1 - t) * row, keep[D];
      memcpy(keep, x, sizeof(keep));
      memcpy(x, y, sizeof(keep));
      memcpy(y, keep, sizeof(keep));
    }
  }
  p.params.q = (attn_input){a[0] + (T - 1) * row, 0, 0, -row, 1};
  p.params.k = (attn_input){a[1] + (T - 1) * row, 0, 0, -row, 1};
  p.params.v = (attn_input){a[2] + (T - 1) * row, 0, 0, -row, 1};
  CHECK_OK(attn_forward(NULL, &p.params));
  for (int64_t t = 0; t < T; t++) CHECK_BITS(a[3] + t * row, want.o + t * D, D);
  for (int i = 0; i < 4; i++) munmap(a[i], (size_t)T << 30);
  bits_free(&want);
  problem_free(&p);
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  if (argc == 2 && strcmp(argv[1], "--far") == 0) {
    far_rows();
    return check_done();
  }
  all_orders();
  apart_as_interleaved();
  fused_qkv();
  expanded();
  misaligned();
  in_place((shape){1, 4, 4, 300, 300, 64, 64});
  in_place((shape){2, 6, 2, 9, 900, 16, 16});
  in_place((shape){1, 8, 1, 1, 3000, 32, 32});
  return check_done();
}
