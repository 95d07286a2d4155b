/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Scratch memory that is kept between calls. */
#ifndef ATTN_ENGINE_CONTEXT_H
#define ATTN_ENGINE_CONTEXT_H

#include "memory.h"

#include <attn/attn.h>

/* `bytes` of scratch memory on a 64-byte boundary, contents undefined; NULL when there is none.
 * To be released to the same context (NULL: the default one). */
void *attn_scratch_acquire(attn_context *context, size_t bytes);
void attn_scratch_release(attn_context *context, void *scratch);

#endif
