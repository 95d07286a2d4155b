/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the engine knows of an open safetensors file beyond the public interface. */
#ifndef ATTN_ENGINE_SAFETENSORS_H
#define ATTN_ENGINE_SAFETENSORS_H

#include <attn/safetensors.h>

/* The name of the header entry that holds strings about the file instead of a tensor. */
#define ATTN_METADATA_KEY "__metadata__"

/* The path the file was opened by, for messages. Owned by the file. */
const char *attn_file_path(const attn_file *file);

/* The product of the extents, and that times the element size. False when an extent is negative or
 * a product does not fit. */
bool attn_shape_bytes(const int64_t *shape, int32_t rank, attn_dtype dtype, int64_t *count,
                      int64_t *bytes);

/* Writes "[2,3]" into `text` and returns it. */
#define ATTN_SHAPE_TEXT 192 /* ATTN_MAX_RANK numbers of up to 20 digits and their commas */
const char *attn_shape_text(const int64_t *shape, int32_t rank, char text[ATTN_SHAPE_TEXT]);

/* As other readers have it. */
#define ATTN_MAX_HEADER_BYTES 100000000

#endif
