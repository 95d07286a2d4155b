/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "scratch.h"

#include "check.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "scratch.XXXXXX";
static char path[64];

_Noreturn static void give_up(const char *name) {
  printf("cannot write %s: %s\n", name, strerror(errno));
  exit(1);
}

void scratch_begin(void) {
  if (!mkdtemp(folder)) give_up(folder);
  snprintf(path, sizeof(path), "%s/w.safetensors", folder);
}

void scratch_end(void) {
  check_context("clean-up");
  unlink(path);
  CHECK_INT(rmdir(folder), 0);
}

const char *scratch_folder(void) { return folder; }
const char *scratch_path(void) { return path; }

void scratch_bytes(const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) give_up(path);
}

void scratch_file(const char *header, size_t header_size, size_t data) {
  unsigned char *bytes = check_alloc(8 + header_size + data);
  uint64_t length = header_size;
  memcpy(bytes, &length, 8);
  memcpy(bytes + 8, header, header_size);
  for (size_t i = 0; i < data; i++) bytes[8 + header_size + i] = (unsigned char)i;
  scratch_bytes(bytes, 8 + header_size + data);
  free(bytes);
}

attn_status scratch_open(attn_file **file) {
  *file = NULL;
  return attn_file_open(path, file);
}
