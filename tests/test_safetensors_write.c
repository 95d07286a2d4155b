/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Writing safetensors: the layout to the byte, what is refused, and that there is never half a file. */

#include "check.h"
#include "scratch.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void readable(const char *what) {
  check_context("%s", what);
  attn_file *file;
  CHECK_OK(scratch_open(&file));
  attn_file_close(file);
}

static const float numbers[6] = {1, -2, 3.5f, 0, -0.0f, 1e-40f};
static const unsigned char bytes3[3] = {1, 0, 1};
static const int64_t longs[2] = {INT64_MIN, 7};

static attn_tensor tensor(const char *name, attn_dtype dtype, int32_t rank, int64_t a, int64_t b,
                          const void *data) {
  return (attn_tensor){.name = name, .dtype = dtype, .rank = rank, .shape = {a, b}, .data = data};
}

/* The header must be, to the byte, what the reference implementation writes for these tensors. */
static void test_layout(void) {
  check_context("layout of a written file");
  attn_tensor tensors[] = {
      tensor("b", ATTN_U8, 1, 3, 0, bytes3),    tensor("z", ATTN_F32, 2, 2, 3, numbers),
      tensor("a", ATTN_F32, 0, 0, 0, numbers),  tensor("i", ATTN_I64, 1, 2, 0, longs),
      tensor("empty", ATTN_F32, 2, 0, 4, NULL),
  };
  static const char *const metadata[] = {"form", "x\"y"};
  static const char want[] =
      "{\"__metadata__\":{\"form\":\"x\\\"y\"},"
      "\"i\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]},"
      "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[20,20]},"
      "\"z\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[20,44]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[44,47]}}";
  if (!CHECK_OK(attn_file_write(scratch_path(), tensors, 5, metadata, 1))) return;
  unsigned char got[1024];
  FILE *raw = fopen(scratch_path(), "rb");
  size_t size = fread(got, 1, sizeof(got), raw);
  fclose(raw);
  uint64_t length;
  memcpy(&length, got, 8);
  CHECK_INT(length % 8, 0);
  CHECK_INT(length, (strlen(want) + 7) / 8 * 8);
  CHECK(memcmp(got + 8, want, strlen(want)) == 0);
  for (size_t i = 8 + strlen(want); i < 8 + length; i++) CHECK_INT(got[i], ' ');
  CHECK_INT(size, 8 + length + 47);
  attn_file *file;
  if (!CHECK_OK(scratch_open(&file))) return;
  CHECK(memcmp(attn_file_tensor(file, "z")->data, numbers, sizeof(numbers)) == 0);
  CHECK(memcmp(attn_file_tensor(file, "i")->data, longs, sizeof(longs)) == 0);
  CHECK(memcmp(attn_file_tensor(file, "b")->data, bytes3, 3) == 0);
  CHECK(strcmp(attn_file_metadata(file, "form"), "x\"y") == 0);
  attn_file_close(file);
  CHECK_OK(attn_file_write(scratch_path(), NULL, 0, NULL, 0));
  raw = fopen(scratch_path(), "rb");
  CHECK_INT(fread(got, 1, sizeof(got), raw), 16);
  fclose(raw);
  CHECK(memcmp(got, "\x08\0\0\0\0\0\0\0{}      ", 16) == 0);
  readable("a written file without tensors");
}

/* What replaces a private file is as private; a name may be as long as the system allows. */
static void test_names_and_modes(void) {
  char path[600];
  struct stat info;
  snprintf(path, sizeof(path), "%s/%0250d", scratch_folder(), 1);
  CHECK_OK(attn_file_write(path, NULL, 0, NULL, 0));
  CHECK(chmod(path, 0600) == 0);
  CHECK_OK(attn_file_write(path, NULL, 0, NULL, 0));
  CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
  unlink(path);
}

static int entries(void) {
  char command[128];
  snprintf(command, sizeof(command), "ls -A %s | wc -l", scratch_folder());
  FILE *pipe = popen(command, "r");
  int count = -1;
  if (!pipe || fscanf(pipe, "%d", &count) != 1) count = -1;
  if (pipe) pclose(pipe);
  return count;
}

/* Refused with nothing written: neither the target nor a temporary file. */
static void write_refused(const char *what, const char *target, const attn_tensor *tensors,
                          int64_t count, const char *const *metadata, int64_t metadata_count,
                          attn_status status, const char *message) {
  check_context("writing %s", what);
  int before = entries();
  CHECK_STATUS(attn_file_write(target, tensors, count, metadata, metadata_count), status);
  if (!CHECK(strstr(attn_last_error(), message) != NULL)) printf("  %s\n", attn_last_error());
  CHECK_INT(entries(), before);
}

static void test_write_arguments(void) {
  unlink(scratch_path());
  attn_tensor good = tensor("w", ATTN_F32, 1, 2, 0, numbers), bad = good, pair[2] = {good, good};
  const attn_status invalid = ATTN_INVALID_ARGUMENT;
  write_refused("duplicate names", scratch_path(), pair, 2, NULL, 0, invalid,
                "two tensors are named 'w'");
  bad.name = NULL;
  write_refused("no name", scratch_path(), &bad, 1, NULL, 0, invalid, "tensors[0].name is NULL");
  bad.name = "__metadata__";
  write_refused("a reserved name", scratch_path(), &bad, 1, NULL, 0, invalid, "reserved");
  bad.name = "a\xff";
  write_refused("a name that is not UTF-8", scratch_path(), &bad, 1, NULL, 0, invalid, "not UTF-8");
  bad = good;
  bad.rank = 9;
  write_refused("rank 9", scratch_path(), &bad, 1, NULL, 0, invalid,
                "rank is 9; allowed is 0 ... 8");
  bad.rank = -1;
  write_refused("rank -1", scratch_path(), &bad, 1, NULL, 0, invalid, "rank is -1");
  bad = good;
  bad.shape[0] = -2;
  write_refused("a negative extent", scratch_path(), &bad, 1, NULL, 0, invalid, "shape [-2]");
  bad = tensor("w", ATTN_F32, 2, INT64_MAX, 2, numbers);
  write_refused("too many elements", scratch_path(), &bad, 1, NULL, 0, invalid, "2^63 bytes");
  bad = good;
  bad.dtype = (attn_dtype)13;
  write_refused("no dtype", scratch_path(), &bad, 1, NULL, 0, invalid,
                "dtype is 13; allowed: ATTN_F32 (0) ... ATTN_BOOL (12)");
  bad = good;
  bad.data = NULL;
  write_refused("no data", scratch_path(), &bad, 1, NULL, 0, invalid, "data is NULL");
  static const char *const twice[] = {"k", "1", "k", "2"}, *const half[] = {"k", NULL};
  static const char *const latin[] = {"k", "\xff"};
  write_refused("metadata twice", scratch_path(), &good, 1, twice, 2, invalid, "'k'");
  write_refused("metadata without value", scratch_path(), &good, 1, half, 1, invalid, "has a NULL");
  write_refused("metadata not UTF-8", scratch_path(), &good, 1, latin, 1, invalid, "not UTF-8");
  write_refused("to NULL", NULL, &good, 1, NULL, 0, invalid, "path is NULL");
  write_refused("to an empty path", "", &good, 1, NULL, 0, invalid, "path is empty");
  write_refused("-1 tensors", scratch_path(), &good, -1, NULL, 0, invalid,
                "count is -1; it must be >= 0");
  write_refused("tensors at NULL", scratch_path(), NULL, 1, NULL, 0, invalid,
                "tensors is NULL; allowed only where count is 0, here 1");
  write_refused("metadata at NULL", scratch_path(), &good, 1, NULL, 1, invalid,
                "metadata is NULL; allowed only where metadata_count is 0, here 1");
  CHECK(access(scratch_path(), F_OK) != 0);
}

static void test_write_targets(void) {
  attn_tensor good = tensor("w", ATTN_F32, 1, 2, 0, numbers);
  char link_path[80], other[80], pipe_path[80];
  snprintf(other, sizeof(other), "%s/none/w", scratch_folder());
  snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", scratch_folder());
  snprintf(link_path, sizeof(link_path), "%s/link", scratch_folder());
  write_refused("into no folder", other, &good, 1, NULL, 0, ATTN_IO_ERROR,
                "No such file or directory");
  CHECK(strstr(attn_last_error(), other) != NULL);
  write_refused("onto a folder", scratch_folder(), &good, 1, NULL, 0, ATTN_IO_ERROR,
                "Is a directory");
  /* A pipe of the test's own stands for devices: a program that fails here and may write to /dev would
   * replace one of the machine's. */
  struct stat info;
  CHECK_INT(mkfifo(pipe_path, 0600), 0);
  write_refused("onto a pipe", pipe_path, &good, 1, NULL, 0, ATTN_IO_ERROR, "not a regular file");
  CHECK(lstat(pipe_path, &info) == 0 && S_ISFIFO(info.st_mode));
  CHECK_INT(symlink("pipe", link_path), 0);
  write_refused("onto a link to a pipe", link_path, &good, 1, NULL, 0, ATTN_IO_ERROR,
                "not a regular file");
  CHECK(lstat(pipe_path, &info) == 0 && S_ISFIFO(info.st_mode));
  CHECK_INT(unlink(link_path), 0);
  CHECK_INT(unlink(pipe_path), 0);
  CHECK_INT(symlink("no such file", link_path), 0);
  write_refused("onto a link to nothing", link_path, &good, 1, NULL, 0, ATTN_IO_ERROR,
                "No such file or directory");
  CHECK_INT(unlink(link_path), 0);
  check_context("writing through a link");
  CHECK_OK(attn_file_write(scratch_path(), &good, 1, NULL, 0));
  CHECK_INT(symlink(strrchr(scratch_path(), '/') + 1, link_path), 0);
  attn_tensor longer = tensor("w", ATTN_F32, 1, 3, 0, numbers);
  CHECK_OK(attn_file_write(link_path, &longer, 1, NULL, 0));
  CHECK(lstat(link_path, &info) == 0 && S_ISLNK(info.st_mode));
  attn_file *file;
  if (CHECK_OK(scratch_open(&file))) CHECK_INT(attn_file_tensor_at(file, 0)->count, 3);
  attn_file_close(file);
  CHECK_INT(unlink(link_path), 0);
}

/* A write that fails half way leaves the old file as it was. */
static void test_write_full(void) {
  attn_tensor good = tensor("w", ATTN_F32, 1, 2, 0, numbers);
  CHECK_OK(attn_file_write(scratch_path(), &good, 1, NULL, 0));
  float *many = check_floats(1 << 20);
  memset(many, 0, sizeof(float) << 20);
  attn_tensor big = tensor("w", ATTN_F32, 1, 1 << 20, 0, many);
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 65536;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  write_refused("more than fits", scratch_path(), &big, 1, NULL, 0, ATTN_IO_ERROR,
                "File too large");
  setrlimit(RLIMIT_FSIZE, &before);
  attn_file *file;
  if (CHECK_OK(scratch_open(&file))) CHECK_INT(attn_file_tensor_at(file, 0)->count, 2);
  attn_file_close(file);
  free(many);
}

/* Many writers to one path: whoever is last, the file is whole, and nothing else is left. */
static void *write_often(void *user) {
  int64_t count = *(int64_t *)user;
  static float data[64];
  attn_tensor t = tensor("w", ATTN_F32, 1, count, 0, data);
  for (int i = 0; i < 100; i++)
    if (attn_file_write(scratch_path(), &t, 1, NULL, 0) != ATTN_OK) return user;
  return NULL;
}

static void test_write_together(void) {
  check_context("4 threads writing one file");
  pthread_t threads[4];
  int64_t counts[4] = {1, 2, 3, 64};
  for (int i = 0; i < 4; i++)
    CHECK_INT(pthread_create(&threads[i], NULL, write_often, &counts[i]), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    CHECK(failed == NULL);
  }
  CHECK_INT(entries(), 1);
  readable("a file that 4 threads wrote");
}

int main(int argc, char **argv) {
  check_begin(&argc, argv);
  scratch_begin();
  test_layout();
  test_names_and_modes();
  test_write_arguments();
  test_write_targets();
  test_write_full();
  test_write_together();
  scratch_end();
  return check_done();
}
