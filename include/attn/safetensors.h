/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/** @file
 * safetensors files, read and written: 8-byte little-endian header length, a JSON header, raw
 * little-endian data (format: huggingface/safetensors, README "Format").
 * The conventions of attn.h hold. Opening checks everything once: header length against file size, JSON types,
 * duplicate names (also within one entry), shapes with checked multiplication, dtypes, byte ranges,
 * overlap and holes. What opens is sound.
 */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include <attn/attn.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTN_MAX_RANK 8

/** A dense row-major tensor inside an open file. */
typedef struct attn_tensor {
  const char *name; /**< owned by the file */
  attn_dtype dtype;
  int32_t rank;                 /**< 0 (a scalar) ... ATTN_MAX_RANK */
  int64_t shape[ATTN_MAX_RANK]; /**< extents >= 0 */
  int64_t count;                /**< product of the extents */
  const void *data;             /**< owned by the file; aligned only as the file has it */
} attn_tensor;

/** An open file; may be read by many threads at once. */
typedef struct attn_file attn_file;

/** The data is mapped, not copied: a file must not be cut short or changed in place while it is open.
 *  @return ATTN_IO_ERROR, ATTN_BAD_FILE or ATTN_OUT_OF_MEMORY. */
ATTN_API attn_status attn_file_open(const char *path, attn_file **file);
ATTN_API void attn_file_close(attn_file *file);

/** Value of a `__metadata__` key, NULL when absent. Owned by the file. */
ATTN_API const char *attn_file_metadata(const attn_file *file, const char *key);

ATTN_API int64_t attn_file_tensor_count(const attn_file *file);
/** The i-th tensor in the order of the data; NULL out of range. Owned by the file. */
ATTN_API const attn_tensor *attn_file_tensor_at(const attn_file *file, int64_t i);
/** By name; NULL when absent. */
ATTN_API const attn_tensor *attn_file_tensor(const attn_file *file, const char *name);

/** Converts F32, F64, F16 or BF16 elements to float, exactly where float can hold them and else
 *  rounded to nearest even. `out` holds tensor->count elements.
 *  @return ATTN_UNSUPPORTED for other dtypes. */
ATTN_API attn_status attn_tensor_to_f32(const attn_tensor *tensor, float *out);

/** Writes a file of `count` tensors (`name`, `dtype`, `rank`, `shape`, `data` are read) and optional metadata
 *  (`metadata_count` pairs key, value). It is written under a temporary name beside `path` and
 *  renamed when complete: a reader never sees half a file.
 *  @return ATTN_INVALID_ARGUMENT, ATTN_IO_ERROR or ATTN_OUT_OF_MEMORY. */
ATTN_API attn_status attn_file_write(const char *path, const attn_tensor *tensors, int64_t count,
                                     const char *const *metadata, int64_t metadata_count);

#ifdef __cplusplus
}
#endif
#endif
