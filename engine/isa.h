/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Which kernel table the process uses: decided at the first need, by ATTN_ISA and ATTN_EXP or by the machine. */
#ifndef ATTN_ENGINE_ISA_H
#define ATTN_ENGINE_ISA_H

#include <attn/attn.h>

#include "simd/kernels.h"

/* The table in use, or a status that says what in the environment cannot be honoured. */
attn_status attn_kernels_current(const attn_kernels **kernels);

#endif
