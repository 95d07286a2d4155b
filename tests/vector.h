/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#ifndef ATTN_TESTS_VECTOR_H
#define ATTN_TESTS_VECTOR_H

/* All checks of the wrappers that this program was compiled for. */
void vector_checks(void);

#endif
