/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Writing safetensors files: laid out as the reference implementation does (widest types first, then by
 * name), complete or not at all. */
#include "safetensors.h"

#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Order of the types in a file. Widest first keeps every tensor aligned to its elements. */
static const attn_dtype dtype_order[] = {ATTN_U64, ATTN_I64,  ATTN_F64, ATTN_F32, ATTN_U32,
                                         ATTN_I32, ATTN_BF16, ATTN_F16, ATTN_U16, ATTN_I16,
                                         ATTN_I8,  ATTN_U8,   ATTN_BOOL};

static int dtype_rank(attn_dtype dtype) {
  int i = 0;
  while (dtype_order[i] != dtype) i++;
  return i;
}

static int compare_place(const void *a, const void *b) {
  const attn_tensor *x = *(const attn_tensor *const *)a, *y = *(const attn_tensor *const *)b;
  if (x->dtype != y->dtype) return dtype_rank(x->dtype) - dtype_rank(y->dtype);
  return strcmp(x->name, y->name);
}

/* ---- the header ---------------------------------------------------------------------------- */

static attn_status check_tensor(const attn_tensor *tensor, int64_t i, int64_t *bytes) {
  if (tensor->name == NULL || strcmp(tensor->name, ATTN_METADATA_KEY) == 0)
    return attn_fail(ATTN_INVALID_ARGUMENT, "tensors[%lld].name is %s", (long long)i,
                     tensor->name == NULL ? "NULL" : "reserved: " ATTN_METADATA_KEY);
  if (attn_dtype_size(tensor->dtype) == 0)
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "tensor '%.80s': dtype is %d; allowed: ATTN_F32 (%d) ... ATTN_BOOL (%d)",
                     tensor->name, (int)tensor->dtype, ATTN_F32, ATTN_BOOL);
  if (tensor->rank < 0 || tensor->rank > ATTN_MAX_RANK)
    return attn_fail(ATTN_INVALID_ARGUMENT, "tensor '%.80s': rank is %d; allowed is 0 ... %d",
                     tensor->name, (int)tensor->rank, ATTN_MAX_RANK);
  int64_t count;
  char shape[ATTN_SHAPE_TEXT];
  if (!attn_shape_bytes(tensor->shape, tensor->rank, tensor->dtype, &count, bytes))
    return attn_fail(ATTN_INVALID_ARGUMENT,
                     "tensor '%.80s': shape %s has a negative extent or more than 2^63 bytes",
                     tensor->name, attn_shape_text(tensor->shape, tensor->rank, shape));
  if (tensor->data == NULL && *bytes > 0)
    return attn_fail(ATTN_INVALID_ARGUMENT, "tensor '%.80s': data is NULL", tensor->name);
  return ATTN_OK;
}

static attn_status no_memory(void) {
  return attn_fail(ATTN_OUT_OF_MEMORY, "out of memory for the header of a safetensors file");
}

/* Puts `value` (taken over; NULL when it could not be made) under a key that must be new. */
static attn_status add_entry(json_t *object, const char *what, const char *key, json_t *value) {
  if (json_object_get(object, key) != NULL) {
    json_decref(value);
    return attn_fail(ATTN_INVALID_ARGUMENT, "two %s are named '%.80s'", what, key);
  }
  if (value == NULL) return no_memory();
  if (json_object_set_new(object, key, value) == 0) return ATTN_OK;
  json_t *text = json_string(key); /* refuses what is not UTF-8 */
  bool utf8 = text != NULL;
  json_decref(text);
  return utf8 ? no_memory()
              : attn_fail(ATTN_INVALID_ARGUMENT, "the name '%.80s' of one of the %s is not UTF-8",
                          key, what);
}

static attn_status add_metadata(json_t *header, const char *const *metadata, int64_t count) {
  if (count == 0) return ATTN_OK;
  json_t *object = json_object();
  if (object == NULL || json_object_set_new(header, ATTN_METADATA_KEY, object) != 0)
    return no_memory();
  for (int64_t i = 0; i < count; i++) {
    const char *key = metadata[2 * i], *value = metadata[2 * i + 1];
    if (key == NULL || value == NULL)
      return attn_fail(ATTN_INVALID_ARGUMENT, "metadata pair %lld has a NULL", (long long)i);
    json_t *string = json_string(value);
    if (string == NULL)
      return attn_fail(ATTN_INVALID_ARGUMENT, "metadata '%.80s' is not UTF-8", key);
    attn_status status = add_entry(object, "metadata keys", key, string);
    if (status != ATTN_OK) return status;
  }
  return ATTN_OK;
}

static json_t *describe(const attn_tensor *tensor, int64_t begin, int64_t end) {
  json_t *shape = json_array();
  for (int32_t i = 0; shape != NULL && i < tensor->rank; i++)
    if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
      json_decref(shape);
      return NULL;
    }
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", attn_dtype_name(tensor->dtype), "shape", shape,
                   "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* Sorts `sorted` into file order and fills the header. */
static attn_status build_header(json_t *header, const attn_tensor **sorted, int64_t count,
                                const char *const *metadata, int64_t metadata_count) {
  int64_t bytes;
  for (int64_t i = 0; i < count; i++) {
    attn_status status = check_tensor(sorted[i], i, &bytes);
    if (status != ATTN_OK) return status;
  }
  qsort(sorted, (size_t)count, sizeof(*sorted), compare_place);
  attn_status status = add_metadata(header, metadata, metadata_count);
  int64_t begin = 0;
  for (int64_t i = 0; status == ATTN_OK && i < count; i++) {
    int64_t elements, end;
    attn_shape_bytes(sorted[i]->shape, sorted[i]->rank, sorted[i]->dtype, &elements, &bytes);
    if (__builtin_add_overflow(begin, bytes, &end))
      return attn_fail(ATTN_INVALID_ARGUMENT, "the tensors have more than 2^63 bytes together");
    status = add_entry(header, "tensors", sorted[i]->name, describe(sorted[i], begin, end));
    begin = end;
  }
  return status;
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool write_all(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size > 0) {
    ssize_t done = write(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    at += done;
    size -= (size_t)done;
  }
  return true;
}

static bool write_content(int fd, const char *header, const attn_tensor *const *sorted,
                          int64_t count) {
  size_t length = strlen(header), padding = (8 - length % 8) % 8;
  uint64_t total = length + padding;
  if (!write_all(fd, &total, sizeof(total)) || !write_all(fd, header, length) ||
      !write_all(fd, "       ", padding))
    return false;
  for (int64_t i = 0; i < count; i++) {
    int64_t elements, bytes;
    attn_shape_bytes(sorted[i]->shape, sorted[i]->rank, sorted[i]->dtype, &elements, &bytes);
    if (!write_all(fd, sorted[i]->data, (size_t)bytes)) return false;
  }
  return true;
}

/* Where to write: behind a symbolic link, so that the link stays. A device or pipe is refused, because
 * renaming onto it would replace it. NULL with errno set on failure. */
static char *resolve_target(const char *path) {
  struct stat info;
  if (lstat(path, &info) != 0) return errno == ENOENT ? strdup(path) : NULL;
  const bool link = S_ISLNK(info.st_mode);
  if (link && stat(path, &info) != 0) return NULL;
  if (S_ISREG(info.st_mode)) return link ? realpath(path, NULL) : strdup(path);
  errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  return NULL;
}

/* Creates a new file beside `target`, as readable as what it replaces; its name, no longer than others in
 * that folder may be, is left in `name` (room for strlen(target) + 48). */
static int open_temporary(const char *target, char *name) {
  const char *slash = strrchr(target, '/');
  const int folder = slash == NULL ? 0 : (int)(slash + 1 - target);
  struct stat info;
  const bool replaces = stat(target, &info) == 0;
  int fd = -1;
  for (int i = 0; fd < 0 && i < 1000; i++) {
    snprintf(name, strlen(target) + 48, "%.*s.attn-%ld-%d.tmp", folder, target, (long)getpid(), i);
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  /* Where the system does not let the mode be kept, the narrow one stays. */
  if (fd >= 0 && replaces && fchmod(fd, info.st_mode & 07777) != 0) errno = 0;
  return fd;
}

static attn_status write_file(const char *path, const char *header,
                              const attn_tensor *const *sorted, int64_t count) {
  char *target = resolve_target(path);
  char *name = target == NULL ? NULL : malloc(strlen(target) + 48);
  attn_status status = ATTN_OK;
  if (name == NULL) {
    status = attn_fail(ATTN_IO_ERROR, "cannot write %.200s: %s", path,
                       errno == EINVAL ? "it is not a regular file" : strerror(errno));
  } else {
    int fd = open_temporary(target, name);
    bool created = fd >= 0;
    bool written = created && write_content(fd, header, sorted, count);
    int error = errno;
    if (created && close(fd) != 0 && written) {
      written = false;
      error = errno;
    }
    if (written && rename(name, target) != 0) {
      written = false;
      error = errno;
    }
    if (created && !written) unlink(name);
    if (!written)
      status = attn_fail(ATTN_IO_ERROR, "cannot write %.200s: %s", path, strerror(error));
  }
  free(name);
  free(target);
  return status;
}

static attn_status check_array(const char *count_name, int64_t count, const char *name,
                               const void *array) {
  if (count < 0)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is %lld; it must be >= 0", count_name,
                     (long long)count);
  if (array == NULL && count > 0)
    return attn_fail(ATTN_INVALID_ARGUMENT, "%s is NULL; allowed only where %s is 0, here %lld",
                     name, count_name, (long long)count);
  return ATTN_OK;
}

attn_status attn_file_write(const char *path, const attn_tensor *tensors, int64_t count,
                            const char *const *metadata, int64_t metadata_count) {
  if (path == NULL || path[0] == '\0')
    return attn_fail(ATTN_INVALID_ARGUMENT, "path is %s", path == NULL ? "NULL" : "empty");
  attn_status status = check_array("count", count, "tensors", tensors);
  if (status == ATTN_OK) {
    status = check_array("metadata_count", metadata_count, "metadata", metadata);
  }
  if (status != ATTN_OK) return status;
  json_t *header = json_object();
  const attn_tensor **sorted = calloc((size_t)count + 1, sizeof(*sorted));
  if (header == NULL || sorted == NULL) {
    no_memory();
    status = ATTN_OUT_OF_MEMORY;
  } else {
    for (int64_t i = 0; i < count; i++) sorted[i] = &tensors[i];
    status = build_header(header, sorted, count, metadata, metadata_count);
  }
  if (status == ATTN_OK) {
    char *text = json_dumps(header, JSON_COMPACT);
    if (text == NULL)
      status = no_memory();
    else if (strlen(text) + 8 > ATTN_MAX_HEADER_BYTES)
      status = attn_fail(ATTN_INVALID_ARGUMENT, "the header has %zu bytes; readers allow %d",
                         strlen(text), ATTN_MAX_HEADER_BYTES);
    else
      status = write_file(path, text, sorted, count);
    free(text);
  }
  free(sorted);
  json_decref(header);
  return status;
}
