/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Reading safetensors files. A file comes from anywhere, so nothing in it is believed: every field is
 * checked against the file's size before a pointer is made of it, and opening succeeds only when
 * everything holds. The data stays in the file and is mapped. */
#include "safetensors.h"

#include "simd/kernels.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

#define LENGTH_BYTES 8
/* The format's own limit; keeps a hostile length from making the parser eat all memory. */

struct attn_file {
  char *path;
  unsigned char *map;
  size_t size;
  json_t *header; /* owns the names and the metadata */
  int64_t count;
  attn_tensor *tensors;        /* in the order of the data */
  const attn_tensor **by_name; /* sorted by strcmp */
};

/* ---- element types ------------------------------------------------------------------------- */

static const struct {
  const char *name;
  size_t size;
} dtypes[] = {
    [ATTN_F64] = {"F64", 8},   [ATTN_F32] = {"F32", 4}, [ATTN_F16] = {"F16", 2},
    [ATTN_BF16] = {"BF16", 2}, [ATTN_I64] = {"I64", 8}, [ATTN_I32] = {"I32", 4},
    [ATTN_I16] = {"I16", 2},   [ATTN_I8] = {"I8", 1},   [ATTN_U64] = {"U64", 8},
    [ATTN_U32] = {"U32", 4},   [ATTN_U16] = {"U16", 2}, [ATTN_U8] = {"U8", 1},
    [ATTN_BOOL] = {"BOOL", 1},
};
#define DTYPE_END ((int)(sizeof(dtypes) / sizeof(dtypes[0])))

const char *attn_dtype_name(attn_dtype dtype) {
  return (int)dtype >= 0 && (int)dtype < DTYPE_END ? dtypes[dtype].name : NULL;
}

size_t attn_dtype_size(attn_dtype dtype) {
  return (int)dtype >= 0 && (int)dtype < DTYPE_END ? dtypes[dtype].size : 0;
}

bool attn_shape_bytes(const int64_t *shape, int32_t rank, attn_dtype dtype, int64_t *count,
                      int64_t *bytes) {
  *count = 1;
  for (int32_t i = 0; i < rank; i++)
    if (shape[i] < 0 || __builtin_mul_overflow(*count, shape[i], count)) return false;
  return !__builtin_mul_overflow(*count, (int64_t)attn_dtype_size(dtype), bytes);
}

const char *attn_shape_text(const int64_t *shape, int32_t rank, char text[ATTN_SHAPE_TEXT]) {
  size_t used = 0;
  text[used++] = '[';
  for (int32_t i = 0; i < rank; i++)
    used += (size_t)snprintf(text + used, ATTN_SHAPE_TEXT - used, "%s%lld", i == 0 ? "" : ",",
                             (long long)shape[i]);
  text[used++] = ']';
  text[used] = '\0';
  return text;
}

/* ---- checking the header ------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static attn_status bad_file(const attn_file *file,
                                                                  const char *format, ...) {
  char text[320];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return attn_fail(ATTN_BAD_FILE, "%.180s: %s", file->path, text);
}

/* jansson names a duplicate key only when it is short. The position it gives is just behind the key's
 * closing quote. */
static attn_status duplicate_key(const attn_file *file, const char *text, size_t end) {
  size_t begin = end < 2 ? 0 : end - 2;
  while (begin > 0 && (text[begin] != '"' || text[begin - 1] == '\\')) begin--;
  return bad_file(file, "the header has the key %.*s twice",
                  (int)(end - begin < 100 ? end - begin : 100), text + begin);
}

static attn_status parse_header(attn_file *file, const char *text, size_t length) {
  if (length == 0 || text[0] != '{')
    return bad_file(file, "the header is not a JSON object: it must begin with '{'");
  json_error_t error;
  file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  if (file->header != NULL) return ATTN_OK;
  switch (json_error_code(&error)) {
  case json_error_out_of_memory:
    return attn_fail(ATTN_OUT_OF_MEMORY, "out of memory for the header of %.180s (%zu bytes)",
                     file->path, length);
  case json_error_duplicate_key:
    if (error.position > 0 && (size_t)error.position <= length)
      return duplicate_key(file, text, (size_t)error.position);
    break;
  default: break;
  }
  return bad_file(file, "the header is not valid JSON: %s (byte %d of the header)", error.text,
                  error.position);
}

static attn_status check_metadata(const attn_file *file, json_t *metadata) {
  if (!json_is_object(metadata))
    return bad_file(file, ATTN_METADATA_KEY " is not an object; its values must be strings");
  const char *key;
  json_t *value;
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return bad_file(file, ATTN_METADATA_KEY " '%.80s' is not a string; only strings are allowed",
                      key);
  }
  return ATTN_OK;
}

static attn_status read_dtype(const attn_file *file, const json_t *value, attn_tensor *tensor) {
  if (!json_is_string(value))
    return bad_file(file, "tensor '%.80s': dtype is %s; it must be a string", tensor->name,
                    value == NULL ? "missing" : "not a string");
  const char *name = json_string_value(value);
  for (int i = 0; i < DTYPE_END; i++)
    if (strcmp(dtypes[i].name, name) == 0) {
      tensor->dtype = (attn_dtype)i;
      return ATTN_OK;
    }
  return bad_file(file,
                  "tensor '%.80s': dtype is '%.20s'; known are F64, F32, F16, BF16, I64, I32, I16, "
                  "I8, U64, U32, U16, U8, BOOL",
                  tensor->name, name);
}

static attn_status read_shape(const attn_file *file, const json_t *value, attn_tensor *tensor) {
  if (!json_is_array(value))
    return bad_file(file, "tensor '%.80s': shape is %s; it must be an array", tensor->name,
                    value == NULL ? "missing" : "not an array");
  size_t rank = json_array_size(value);
  if (rank > ATTN_MAX_RANK)
    return bad_file(file, "tensor '%.80s': shape has %zu extents; at most %d are allowed",
                    tensor->name, rank, ATTN_MAX_RANK);
  tensor->rank = (int32_t)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *extent = json_array_get(value, i);
    if (!json_is_integer(extent) || json_integer_value(extent) < 0)
      return bad_file(file, "tensor '%.80s': shape[%zu] is not an integer >= 0", tensor->name, i);
    tensor->shape[i] = json_integer_value(extent);
  }
  return ATTN_OK;
}

/* Sets count and data when the byte range lies in the data section and is what the shape says. */
static attn_status read_range(const attn_file *file, const json_t *value, size_t data_begin,
                              attn_tensor *tensor) {
  if (!json_is_array(value) || json_array_size(value) != 2 ||
      !json_is_integer(json_array_get(value, 0)) || !json_is_integer(json_array_get(value, 1)))
    return bad_file(file, "tensor '%.80s': data_offsets is %s; it must be two integers",
                    tensor->name, value == NULL ? "missing" : "something else");
  int64_t begin = json_integer_value(json_array_get(value, 0));
  int64_t end = json_integer_value(json_array_get(value, 1));
  int64_t data_bytes = (int64_t)(file->size - data_begin);
  if (begin < 0 || end < begin || end > data_bytes)
    return bad_file(
        file,
        "tensor '%.80s': data_offsets are [%lld,%lld]; they must ascend within the %lld "
        "bytes of data",
        tensor->name, (long long)begin, (long long)end, (long long)data_bytes);
  int64_t bytes;
  char shape[ATTN_SHAPE_TEXT];
  attn_shape_text(tensor->shape, tensor->rank, shape);
  if (!attn_shape_bytes(tensor->shape, tensor->rank, tensor->dtype, &tensor->count, &bytes))
    return bad_file(file, "tensor '%.80s': shape %s has more elements than 63 bits count",
                    tensor->name, shape);
  if (bytes != end - begin)
    return bad_file(file, "tensor '%.80s': bytes of %s %s: %lld; data_offsets give it %lld",
                    tensor->name, attn_dtype_name(tensor->dtype), shape, (long long)bytes,
                    (long long)(end - begin));
  tensor->data = file->map + data_begin + begin;
  return ATTN_OK;
}

static attn_status read_tensor(const attn_file *file, json_t *entry, size_t data_begin,
                               attn_tensor *tensor) {
  if (!json_is_object(entry))
    return bad_file(file, "tensor '%.80s' is not described by an object", tensor->name);
  const char *key;
  json_t *value;
  json_object_foreach(entry, key, value) {
    /* A field that this reader does not know may change what the bytes mean. */
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      return bad_file(file,
                      "tensor '%.80s' has a field '%.80s'; only dtype, shape and data_offsets are "
                      "allowed",
                      tensor->name, key);
  }
  attn_status status = read_dtype(file, json_object_get(entry, "dtype"), tensor);
  if (status == ATTN_OK) status = read_shape(file, json_object_get(entry, "shape"), tensor);
  if (status == ATTN_OK)
    status = read_range(file, json_object_get(entry, "data_offsets"), data_begin, tensor);
  return status;
}

static int64_t tensor_bytes(const attn_tensor *tensor) {
  return tensor->count * (int64_t)attn_dtype_size(tensor->dtype);
}

/* Empty tensors sort before the one that begins where they lie. */
static int compare_data(const void *a, const void *b) {
  const attn_tensor *x = a, *y = b;
  if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
  if (tensor_bytes(x) != tensor_bytes(y)) return tensor_bytes(x) < tensor_bytes(y) ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int compare_name(const void *a, const void *b) {
  const attn_tensor *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

/* The tensors, sorted by data, must lie end to end and fill the data section. */
static attn_status check_coverage(const attn_file *file, size_t data_begin) {
  const unsigned char *reached = file->map + data_begin;
  const char *previous = NULL;
  for (int64_t i = 0; i < file->count; i++) {
    const attn_tensor *tensor = &file->tensors[i];
    const unsigned char *begin = tensor->data;
    if (begin < reached)
      return bad_file(file, "the data of tensor '%.80s' overlaps that of '%.80s'", tensor->name,
                      previous);
    if (begin > reached)
      return bad_file(file, "bytes of no tensor before the data of tensor '%.80s': %lld",
                      tensor->name, (long long)(begin - reached));
    reached = begin + tensor_bytes(tensor);
    previous = tensor->name;
  }
  if (reached != file->map + file->size)
    return bad_file(file, "bytes of no tensor at the end of the file: %lld",
                    (long long)(file->map + file->size - reached));
  return ATTN_OK;
}

static attn_status read_tensors(attn_file *file, size_t data_begin) {
  size_t entries = json_object_size(file->header);
  file->tensors = calloc(entries + 1, sizeof(*file->tensors));
  file->by_name = calloc(entries + 1, sizeof(*file->by_name));
  if (file->tensors == NULL || file->by_name == NULL)
    return attn_fail(ATTN_OUT_OF_MEMORY, "out of memory for the %zu tensors of %.180s", entries,
                     file->path);
  const char *key;
  json_t *entry;
  json_object_foreach(file->header, key, entry) {
    attn_status status;
    if (strcmp(key, ATTN_METADATA_KEY) == 0) {
      status = check_metadata(file, entry);
    } else {
      attn_tensor *tensor = &file->tensors[file->count++];
      tensor->name = key;
      status = read_tensor(file, entry, data_begin, tensor);
    }
    if (status != ATTN_OK) return status;
  }
  qsort(file->tensors, (size_t)file->count, sizeof(*file->tensors), compare_data);
  for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
  qsort(file->by_name, (size_t)file->count, sizeof(*file->by_name), compare_name);
  return check_coverage(file, data_begin);
}

/* ---- opening ------------------------------------------------------------------------------- */

static attn_status map_file(attn_file *file) {
  /* O_NONBLOCK: a pipe without a writer must not hang the caller. */
  int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return attn_fail(ATTN_IO_ERROR, "cannot open '%.200s': %s", file->path, strerror(errno));
  struct stat info;
  attn_status status = ATTN_OK;
  if (fstat(fd, &info) != 0) {
    status = attn_fail(ATTN_IO_ERROR, "cannot stat %.200s: %s", file->path, strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = attn_fail(ATTN_IO_ERROR, "cannot open '%.200s': it is %s, not a regular file",
                       file->path, S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
  } else if (info.st_size < LENGTH_BYTES) {
    status = bad_file(file,
                      "bytes of the file: %lld; a safetensors file begins with %d of header length",
                      (long long)info.st_size, LENGTH_BYTES);
  } else {
    file->size = (size_t)info.st_size;
    void *map = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
      status = attn_fail(ATTN_IO_ERROR, "cannot map %.200s: %s", file->path, strerror(errno));
    else
      file->map = map;
  }
  close(fd);
  return status;
}

static attn_status read_file(attn_file *file) {
  attn_status status = map_file(file);
  if (status != ATTN_OK || file->map == NULL) return status; /* both or neither */
  uint64_t length;
  memcpy(&length, file->map, sizeof(length));
  if (length > ATTN_MAX_HEADER_BYTES || length > file->size - LENGTH_BYTES)
    return bad_file(file,
                    "the header length is %llu; the file has %zu bytes after it, and at most "
                    "%d are allowed",
                    (unsigned long long)length, file->size - LENGTH_BYTES, ATTN_MAX_HEADER_BYTES);
  status = parse_header(file, (const char *)file->map + LENGTH_BYTES, (size_t)length);
  if (status != ATTN_OK) return status;
  return read_tensors(file, LENGTH_BYTES + (size_t)length);
}

attn_status attn_file_open(const char *path, attn_file **file) {
  if (path == NULL || file == NULL)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; it must point to %s",
                     path == NULL ? "path" : "file", path == NULL ? "a file's name" : "a handle");
  attn_file *opened = calloc(1, sizeof(*opened));
  if (opened != NULL) opened->path = strdup(path);
  if (opened == NULL || opened->path == NULL) {
    free(opened);
    return attn_fail(ATTN_OUT_OF_MEMORY, "out of memory to open %.200s", path);
  }
  attn_status status = read_file(opened);
  if (status == ATTN_OK)
    *file = opened;
  else
    attn_file_close(opened);
  return status;
}

void attn_file_close(attn_file *file) {
  if (file == NULL) return;
  free(file->by_name);
  free(file->tensors);
  json_decref(file->header);
  if (file->map != NULL) munmap(file->map, file->size);
  free(file->path);
  free(file);
}

/* ---- looking ------------------------------------------------------------------------------- */

const char *attn_file_path(const attn_file *file) { return file->path; }

const char *attn_file_metadata(const attn_file *file, const char *key) {
  if (file == NULL || key == NULL) return NULL;
  return json_string_value(json_object_get(json_object_get(file->header, ATTN_METADATA_KEY), key));
}

int64_t attn_file_tensor_count(const attn_file *file) { return file == NULL ? 0 : file->count; }

const attn_tensor *attn_file_tensor_at(const attn_file *file, int64_t i) {
  return file != NULL && i >= 0 && i < file->count ? &file->tensors[i] : NULL;
}

const attn_tensor *attn_file_tensor(const attn_file *file, const char *name) {
  if (file == NULL || name == NULL) return NULL;
  const attn_tensor wanted = {.name = name}, *key = &wanted;
  const attn_tensor **found =
      bsearch(&key, file->by_name, (size_t)file->count, sizeof(*file->by_name), compare_name);
  return found == NULL ? NULL : *found;
}

/* ---- conversion ---------------------------------------------------------------------------- */

/* IEEE 754 binary16 to the bits of the float of the same value; every one has one. */
static uint32_t f16_to_f32_bits(uint16_t half) {
  uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = (half >> 10) & 31,
           fraction = half & 1023;
  if (exponent == 31) return sign | 0x7f800000u | fraction << 13;
  if (exponent == 0) {
    if (fraction == 0) return sign;
    /* Subnormal, fraction * 2^-24: shift the leading one up to the place of the hidden bit. */
    uint32_t shift = (uint32_t)__builtin_clz(fraction) - 21;
    fraction = (fraction << shift) & 1023;
    exponent = 1 - shift;
  }
  return sign | ((exponent + 127 - 15) << 23) | fraction << 13;
}

/* Elements are read by memcpy because the file may have them at any address. */
static void f16_to_f32(const unsigned char *in, int64_t count, float *out) {
  for (int64_t i = 0; i < count; i++) {
    uint16_t half;
    memcpy(&half, in + i * 2, sizeof(half));
    uint32_t bits = f16_to_f32_bits(half);
    memcpy(&out[i], &bits, sizeof(bits));
  }
}

static void bf16_to_f32(const unsigned char *in, int64_t count, float *out) {
  for (int64_t i = 0; i < count; i++) {
    uint16_t half;
    memcpy(&half, in + i * 2, sizeof(half));
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&out[i], &bits, sizeof(bits));
  }
}

static void f64_to_f32(const unsigned char *in, int64_t count, float *out) {
  attn_fpmode mode = attn_fpmode_enter(); /* the caller may round or flush otherwise */
  for (int64_t i = 0; i < count; i++) {
    double value;
    memcpy(&value, in + i * 8, sizeof(value));
    out[i] = (float)value;
  }
  attn_fpmode_leave(mode);
}

attn_status attn_tensor_to_f32(const attn_tensor *tensor, float *out) {
  if (tensor == NULL || (out == NULL && tensor->count > 0))
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; it must point to %s",
                     tensor == NULL ? "tensor" : "out", tensor == NULL ? "a tensor" : "the array");
  switch (tensor->dtype) {
  case ATTN_F32:
    if (tensor->count > 0) memcpy(out, tensor->data, (size_t)tensor->count * sizeof(float));
    break;
  case ATTN_F16: f16_to_f32(tensor->data, tensor->count, out); break;
  case ATTN_BF16: bf16_to_f32(tensor->data, tensor->count, out); break;
  case ATTN_F64: f64_to_f32(tensor->data, tensor->count, out); break;
  default: {
    const char *dtype = attn_dtype_name(tensor->dtype);
    return attn_fail(ATTN_UNSUPPORTED,
                     "tensor '%.80s' has dtype %s; F64, F32, F16 and BF16 convert to float",
                     tensor->name, dtype == NULL ? "unknown" : dtype);
  }
  }
  return ATTN_OK;
}
