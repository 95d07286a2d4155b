/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A folder for one test, with one safetensors file in it that the test writes as it likes. */
#ifndef ATTN_TESTS_SCRATCH_H
#define ATTN_TESTS_SCRATCH_H

#include <attn/safetensors.h>

/* Makes the folder in the current one; ends the program when it cannot. */
void scratch_begin(void);
/* Removes file and folder; a check fails when anything else was left in it. */
void scratch_end(void);

const char *scratch_folder(void);
const char *scratch_path(void); /* of the file */

void scratch_bytes(const void *bytes, size_t size);
/* A header with its true length, and `data` bytes that count up from 0. */
void scratch_file(const char *header, size_t header_size, size_t data);

/* Opens the file; *file is NULL when that fails. */
attn_status scratch_open(attn_file **file);

#endif
