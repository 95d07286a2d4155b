/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading safetensors: files that must be refused, each with a status and a message that names the fault;
 * files that must not be; and conversions, bit by bit. */

#include "check.h"
#include "scratch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Refused, with one line that holds `message`, and nothing opened. */
static void refused(const char *what, const char *message) {
  check_context("%s", what);
  attn_file *file;
  CHECK_STATUS(scratch_open(&file), ATTN_BAD_FILE);
  CHECK(file == NULL);
  if (!CHECK(strstr(attn_last_error(), message) != NULL))
    printf("  message: %s\n  wanted:  %s\n", attn_last_error(), message);
  CHECK(strstr(attn_last_error(), scratch_path()) != NULL);
  CHECK(strchr(attn_last_error(), '\n') == NULL);
  attn_file_close(file);
}

static void accepted(const char *what) {
  check_context("%s", what);
  attn_file *file;
  CHECK_OK(scratch_open(&file));
  attn_file_close(file);
}

typedef struct header_case {
  const char *header;
  size_t data;
  const char *message; /* NULL: accepted */
} header_case;

#define W(fields) "{\"w\":{" fields "}}"
#define SHAPED(dtype, shape, offsets)                                                              \
  W("\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets)

static const header_case header_cases[] = {
    /* JSON of the wrong kind */
    {"[]", 0, "must begin with '{'"},
    {"\"x\"", 0, "must begin with '{'"},
    {"", 0, "must begin with '{'"},
    {" {}", 0, "must begin with '{'"},
    {"{", 0, "not valid JSON"},
    {"{}x", 0, "not valid JSON"},
    {"{\"w\":[]}", 0, "'w' is not described by an object"},
    {"{\"w\":null}", 0, "'w' is not described by an object"},
    {W(""), 0, "'w': dtype is missing"},
    {W("\"shape\":[],\"data_offsets\":[0,4]"), 4, "dtype is missing"},
    {W("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, "shape is missing"},
    {W("\"dtype\":\"F32\",\"shape\":[]"), 4, "data_offsets is missing"},
    {W("\"dtype\":7,\"shape\":[],\"data_offsets\":[0,4]"), 4, "dtype is not a string"},
    {SHAPED("F99", "[1]", "[0,4]"), 4, "dtype is 'F99'"},
    {SHAPED("f32", "[1]", "[0,4]"), 4, "dtype is 'f32'"},
    {SHAPED("F32", "1", "[0,4]"), 4, "shape is not an array"},
    {SHAPED("F32", "[1]", "[8,0]"), 8, "data_offsets are [8,0]"},
    {SHAPED("F32", "[1]", "[0]"), 4, "must be two integers"},
    {SHAPED("F32", "[1]", "[0,4,8]"), 8, "must be two integers"},
    {SHAPED("F32", "[1]", "[-8,8]"), 8, "data_offsets are [-8,8]"},
    {SHAPED("F32", "[1]", "[0,4.0]"), 4, "must be two integers"},
    {SHAPED("F32", "[1]", "\"04\""), 4, "must be two integers"},
    {SHAPED("F32", "[1]", "[0,99999999999999999999]"), 4, "not valid JSON"},
    {W("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"strides\":[1]"), 4,
     "field 'strides'"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ 'a' is not a string"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "__metadata__ 'a' is not a string"},
    {"{\"a\xff\":1}", 0, "not valid JSON"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "not valid JSON"},
    {"{\"__metadata__\":{\"a\":\"b\\u0000c\"}}", 0, "not valid JSON"},
    /* duplicate names */
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "key \"w\" twice"},
    {W("\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 4,
     "key \"dtype\" twice"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "key \"k\" twice"},
    {"{\"a long name with a \\\"quote\\\" in it\":1,\"a long name with a \\\"quote\\\" in it\":2}",
     0, "key \"a long name with a \\\"quote\\\" in it\" twice"},
    /* extents */
    {SHAPED("F32", "[-1,-16]", "[0,64]"), 64, "shape[0] is not an integer >= 0"},
    {SHAPED("F32", "[1.5]", "[0,4]"), 4, "shape[0] is not an integer >= 0"},
    {SHAPED("F32", "[\"4\"]", "[0,16]"), 16, "shape[0] is not an integer >= 0"},
    {SHAPED("F32", "[1e3]", "[0,4000]"), 4000, "shape[0] is not an integer >= 0"},
    {SHAPED("F32", "[1,true]", "[0,4]"), 4, "shape[1] is not an integer >= 0"},
    {SHAPED("F32", "[4294967296,4294967296]", "[0,0]"), 0, "more elements than 63 bits"},
    {SHAPED("F32", "[4611686018427387904]", "[0,0]"), 0, "more elements than 63 bits"},
    {SHAPED("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "9 extents; at most 8"},
    {SHAPED("F32", "[1,1,1,1,1,1,1,1]", "[0,4]"), 4, NULL},
    {SHAPED("F32", "[0,4]", "[0,0]"), 0, NULL},
    {SHAPED("F32", "[]", "[0,4]"), 4, NULL},
    /* byte range against shape */
    {SHAPED("F32", "[4,4]", "[0,60]"), 60, "bytes of F32 [4,4]: 64; data_offsets give it 60"},
    {SHAPED("F32", "[4,4]", "[0,64]"), 64, NULL},
    {SHAPED("F32", "[4,4]", "[0,68]"), 68, "bytes of F32 [4,4]: 64; data_offsets give it 68"},
    {SHAPED("BF16", "[3]", "[0,6]"), 6, NULL},
    {SHAPED("BF16", "[3]", "[0,12]"), 12, "bytes of BF16 [3]: 6; data_offsets give it 12"},
    /* coverage */
    {SHAPED("F32", "[1]", "[0,4]"), 8, "bytes of no tensor at the end of the file: 4"},
    {SHAPED("F32", "[1]", "[4,8]"), 8, "bytes of no tensor before the data of tensor 'w': 4"},
    {SHAPED("F32", "[2]", "[0,8]"), 4, "must ascend within the 4 bytes"},
    {"{}", 1, "bytes of no tensor at the end of the file: 1"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
     12, "data of tensor 'b' overlaps that of 'a'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "overlaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, "bytes of no tensor before the data of tensor 'b': 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
     8, "overlaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     4, NULL},
    {"{}", 0, NULL},
    {"{\"__metadata__\":{}}   ", 0, NULL},
};

static void test_headers(void) {
  for (size_t i = 0; i < sizeof(header_cases) / sizeof(header_cases[0]); i++) {
    const header_case *c = &header_cases[i];
    scratch_file(c->header, strlen(c->header), c->data);
    if (c->message)
      refused(c->header, c->message);
    else
      accepted(c->header);
  }
}

static void test_depth(void) {
  enum { DEPTH = 100000 };
  static const char *const openings[] = {"[", "{\"a\":"};
  for (size_t k = 0; k < 2; k++) {
    size_t unit = strlen(openings[k]), size = 5 + unit * DEPTH;
    char *header = check_alloc(size + 1);
    memcpy(header, "{\"w\":", 5);
    for (size_t i = 0; i < DEPTH; i++) memcpy(header + 5 + i * unit, openings[k], unit);
    scratch_file(header, size, 0);
    refused(k == 0 ? "100000 arrays deep" : "100000 objects deep", "not valid JSON");
    free(header);
  }
}

static void test_nul_in_header(void) {
  static const char header[] =
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}\0\0";
  scratch_file(header, sizeof(header) - 1, 4);
  refused("NUL bytes behind the header", "not valid JSON");
}

/* ---- sizes --------------------------------------------------------------------------------- */

static const char two[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}";

static void cut_to(size_t size, const char *what, const char *message) {
  scratch_file(two, strlen(two), 16);
  CHECK_INT(truncate(scratch_path(), (off_t)size), 0);
  refused(what, message);
}

static void test_truncated(void) {
  size_t header = 8 + strlen(two);
  cut_to(header + 15, "cut by a byte", "within the 15 bytes");
  cut_to(header + 8, "cut by half", "within the 8 bytes");
  cut_to(header, "cut behind the header", "within the 0 bytes");
  cut_to(header - 1, "cut inside the header", "header length");
  cut_to(8, "cut behind the length", "header length");
  cut_to(7, "cut inside the length", "bytes of the file: 7;");
  cut_to(0, "empty", "bytes of the file: 0;");
  scratch_file(two, strlen(two), 16);
  accepted("whole");
  static const uint64_t lengths[] = {UINT64_MAX, INT64_MAX, 1ull << 32, 100000001, 200};
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    unsigned char bytes[200] = {0};
    memcpy(bytes, &lengths[i], 8);
    scratch_bytes(bytes, sizeof(bytes));
    refused("header length beyond the file", "header length");
  }
  /* A sparse file that holds what its length says, but more than the format allows. */
  uint64_t most = 100000001;
  scratch_bytes(&most, 8);
  CHECK_INT(truncate(scratch_path(), 100000009), 0);
  refused("header length above the limit", "at most 100000000");
}

static void io_error(const char *name, const char *message) {
  attn_file *file = NULL;
  check_context("open %s", name);
  CHECK_STATUS(attn_file_open(name, &file), ATTN_IO_ERROR);
  CHECK(file == NULL);
  if (!CHECK(strstr(attn_last_error(), message) != NULL)) printf("  %s\n", attn_last_error());
}

static void test_not_files(void) {
  char fifo[80];
  snprintf(fifo, sizeof(fifo), "%s/fifo", scratch_folder());
  CHECK_INT(mkfifo(fifo, 0600), 0);
  io_error(scratch_folder(), "a directory");
  io_error(fifo, "not a regular file"); /* without waiting for a writer */
  io_error("/dev/zero", "not a regular file");
  io_error("no such file", "No such file or directory");
  io_error("", "No such file or directory");
  CHECK_INT(unlink(fifo), 0);
  attn_file *file = NULL;
  check_context("NULL arguments");
  CHECK_STATUS(attn_file_open(NULL, &file), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_file_open(scratch_path(), NULL), ATTN_INVALID_ARGUMENT);
  CHECK(attn_file_metadata(NULL, "a") == NULL);
  CHECK(attn_file_tensor(NULL, "a") == NULL);
  CHECK(attn_file_tensor_at(NULL, 0) == NULL);
  CHECK_INT(attn_file_tensor_count(NULL), 0);
  attn_file_close(NULL);
}

/* ---- looking and converting ------------------------------------------------------------------ */

static void test_looking(void) {
  check_context("looking");
  static const char header[] = "{\"z\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                               "\"__metadata__\":{\"form\":\"x\",\"\xc3\xa9\":\"\xe2\x82\xac\"},"
                               "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
  scratch_file(header, strlen(header), 11);
  attn_file *file;
  if (!CHECK_OK(scratch_open(&file))) return;
  CHECK_INT(attn_file_tensor_count(file), 2);
  const attn_tensor *z = attn_file_tensor_at(file, 0), *a = attn_file_tensor_at(file, 1);
  CHECK(strcmp(z->name, "z") == 0 && strcmp(a->name, "a") == 0);
  CHECK(z == attn_file_tensor(file, "z") && a == attn_file_tensor(file, "a"));
  CHECK(attn_file_tensor_at(file, 2) == NULL && attn_file_tensor_at(file, -1) == NULL);
  CHECK(attn_file_tensor(file, "b") == NULL && attn_file_tensor(file, "__metadata__") == NULL);
  CHECK(attn_file_tensor(file, "") == NULL && attn_file_tensor(file, NULL) == NULL);
  CHECK_INT(z->dtype, ATTN_F32);
  CHECK_INT(z->rank, 2);
  CHECK_INT(z->shape[0], 2);
  CHECK_INT(z->shape[1], 1);
  CHECK_INT(z->count, 2);
  CHECK_INT(((const unsigned char *)a->data)[2], 10);
  CHECK(strcmp(attn_file_metadata(file, "form"), "x") == 0);
  CHECK(strcmp(attn_file_metadata(file, "\xc3\xa9"), "\xe2\x82\xac") == 0);
  CHECK(attn_file_metadata(file, "other") == NULL && attn_file_metadata(file, NULL) == NULL);
  float out[3];
  CHECK_STATUS(attn_tensor_to_f32(a, out), ATTN_UNSUPPORTED);
  CHECK(strstr(attn_last_error(), "U8") != NULL);
  CHECK_STATUS(attn_tensor_to_f32(z, NULL), ATTN_INVALID_ARGUMENT);
  CHECK_STATUS(attn_tensor_to_f32(NULL, out), ATTN_INVALID_ARGUMENT);
  attn_file_close(file);
  CHECK_INT(attn_dtype_size(ATTN_BOOL), 1);
  CHECK(attn_dtype_size((attn_dtype)13) == 0 && attn_dtype_size((attn_dtype)99) == 0);
  CHECK(attn_dtype_name((attn_dtype)13) == NULL && attn_dtype_name((attn_dtype)-1) == NULL);
}

static void convert(attn_dtype dtype, const void *data, int64_t count, float *out) {
  attn_tensor t = {
      .name = "t", .dtype = dtype, .rank = 1, .shape = {count}, .count = count, .data = data};
  CHECK_OK(attn_tensor_to_f32(&t, out));
}

static void test_bf16(void) {
  check_context("bf16");
  static const unsigned char bytes[] = {0x80, 0x3f, 0x61, 0x7f, 0x80, 0xbf,
                                        0x01, 0x00, 0xc0, 0x7f, 0x80, 0xff};
  static const uint32_t bits[] = {0x3f800000, 0x7f610000, 0xbf800000,
                                  0x00010000, 0x7fc00000, 0xff800000};
  float out[6];
  convert(ATTN_BF16, bytes, 6, out);
  for (int i = 0; i < 6; i++) CHECK_INT(float_bits(out[i]), bits[i]);
  for (uint32_t i = 0; i < 65536; i++) {
    uint16_t half = (uint16_t)i;
    convert(ATTN_BF16, &half, 1, out);
    CHECK_INT(float_bits(out[0]), i << 16);
  }
}

/* Every half, by the definition of the format. */
static void test_f16(void) {
  check_context("f16");
  for (uint32_t i = 0; i < 65536; i++) {
    uint16_t half = (uint16_t)i;
    float out;
    convert(ATTN_F16, &half, 1, &out);
    int exponent = (int)(i >> 10 & 31);
    double fraction = (double)(i & 1023) / 1024, sign = i >> 15 ? -1 : 1;
    if (exponent == 31 && fraction != 0) {
      CHECK(isnan(out));
      continue;
    }
    double want = exponent == 31  ? INFINITY
                  : exponent == 0 ? ldexp(fraction, -14)
                                  : ldexp(1 + fraction, exponent - 15);
    CHECK_INT(float_bits(out), float_bits((float)(sign * want)));
  }
}

static void test_f64(void) {
  check_context("f64");
  static const struct {
    double in;
    uint32_t bits;
  } cases[] = {
      {1.0, 0x3f800000},
      {-0.0, 0x80000000},
      {1.0 + 0x1p-24, 0x3f800000},           /* halfway: to even, down */
      {1.0 + 0x3p-24, 0x3f800002},           /* halfway: to even, up */
      {1.0 + 0x1p-24 + 0x1p-52, 0x3f800001}, /* just above halfway */
      {0x1p-149, 0x00000001},
      {0x1p-150, 0x00000000},
      {0x1.8p-150, 0x00000001},
      {0x1.fffffefp127, 0x7f7fffff},
      {0x1.ffffffp127, 0x7f800000},
      {-1e300, 0xff800000},
      {INFINITY, 0x7f800000},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    float out;
    convert(ATTN_F64, &cases[i].in, 1, &out);
    CHECK_INT(float_bits(out), cases[i].bits);
  }
  double nan = NAN;
  float out;
  convert(ATTN_F64, &nan, 1, &out);
  CHECK(isnan(out));
}

/* Data at an odd address, as a header of odd length leaves it. */
static void test_misaligned(void) {
  static const attn_dtype types[] = {ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16};
  static const char *const shapes[] = {"[0,24]", "[0,12]", "[0,6]", "[0,6]"};
  for (int t = 0; t < 4; t++)
    for (size_t shift = 0; shift < 8; shift++) {
      check_context("%s shifted by %zu", attn_dtype_name(types[t]), shift);
      char header[160];
      snprintf(header, sizeof(header),
               "{\"w\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":%s}}%*s",
               attn_dtype_name(types[t]), shapes[t], (int)shift, "");
      size_t bytes = 3 * attn_dtype_size(types[t]);
      scratch_file(header, strlen(header), bytes);
      attn_file *file;
      if (!CHECK_OK(scratch_open(&file))) continue;
      unsigned char aligned[24];
      for (size_t i = 0; i < sizeof(aligned); i++) aligned[i] = (unsigned char)i;
      double storage[3];
      memcpy(storage, aligned, sizeof(storage));
      float got[3], want[3];
      CHECK_OK(attn_tensor_to_f32(attn_file_tensor(file, "w"), got));
      convert(types[t], storage, 3, want);
      CHECK_BITS(got, want, 3);
      attn_file_close(file);
    }
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  scratch_begin();
  test_headers();
  test_depth();
  test_nul_in_header();
  test_truncated();
  test_not_files();
  test_looking();
  test_bf16();
  test_f16();
  test_f64();
  test_misaligned();
  scratch_end();
  return check_done();
}
