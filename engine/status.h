/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* How every part of the engine reports a failure. */
#ifndef ATTN_ENGINE_STATUS_H
#define ATTN_ENGINE_STATUS_H

#include <attn/attn.h>

/* Sets this thread's message and returns `status`, so that a failing function ends with
 * `return attn_fail(...)`. The message names the thing, its value and what is allowed. */
attn_status attn_fail(attn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails for `name`, memory of the caller's that is NULL or, by `name`_size, too small. `function` is the public one that
 * tells how many `units` there must be. */
attn_status attn_fail_memory(const char *name, const void *memory, size_t size, size_t needed,
                             const char *units, const char *function);

#endif
