/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "isa.h"

#include "status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

/* The only global state of the library that decides anything. Several threads may come to the
 * same decision at once; they store the same pointer. */
static _Atomic(const attn_kernels *) current;

typedef enum sets { KNOWN, COMPILED, SUPPORTED } sets;

static const char *isa_list(char *text, size_t size, sets which) {
  const char *(*const name)(int) = which == KNOWN ? attn_kernels_known : attn_kernels_name;
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; name(i); i++) {
    if (which == SUPPORTED && !attn_isa_supported(name(i))) continue;
    const int n = snprintf(text + used, size - used, "%s%s", used ? ", " : "", name(i));
    if (n < 0 || (size_t)n >= size - used) break;
    used += (size_t)n;
  }
  return text;
}

/* Why a set that is not compiled in cannot be had. `from` names where `isa` comes from. */
static attn_status refuse(const char *isa, const char *from) {
  char list[128];
  for (int i = 0; attn_kernels_known(i); i++) {
    if (strcmp(attn_kernels_known(i), isa) != 0) continue;
    return attn_fail(ATTN_UNSUPPORTED, "%s: this build has no '%.80s'; it has: %s", from, isa,
                     isa_list(list, sizeof(list), COMPILED));
  }
  return attn_fail(ATTN_INVALID_ARGUMENT, "%s: unknown instruction set '%.80s'; allowed: %s", from,
                   isa, isa_list(list, sizeof(list), KNOWN));
}

/* `isa` and `exp` may be NULL; `isa_from` and `exp_from` name where they come from. */
static attn_status choose(const char *isa, const char *isa_from, const char *exp,
                          const char *exp_from, const attn_kernels **kernels) {
  char list[128];
  bool sleef = false;
  if (exp) {
    sleef = strcmp(exp, "sleef") == 0;
    if (!sleef && strcmp(exp, "inline") != 0) {
      return attn_fail(ATTN_INVALID_ARGUMENT,
                       "%s: unknown exponential '%.80s'; allowed: inline, sleef", exp_from, exp);
    }
  }
  if (!isa) {
    *kernels = attn_kernels_best(sleef);
    return ATTN_OK;
  }
  const attn_kernels *found = attn_kernels_find(isa, sleef);
  if (!found) return refuse(isa, isa_from);
  if (!attn_kernels_supported(found)) {
    return attn_fail(ATTN_UNSUPPORTED, "%s: this machine cannot run '%.80s'; it can run: %s",
                     isa_from, isa, isa_list(list, sizeof(list), SUPPORTED));
  }
  *kernels = found;
  return ATTN_OK;
}

/* A variable that is set to nothing is as one that is not set. */
static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && value[0] ? value : NULL;
}

static attn_status choose_by_environment(const attn_kernels **kernels) {
  return choose(environment("ATTN_ISA"), "ATTN_ISA", environment("ATTN_EXP"), "ATTN_EXP", kernels);
}

attn_status attn_kernels_current(const attn_kernels **kernels) {
  *kernels = atomic_load_explicit(&current, memory_order_acquire);
  if (*kernels) return ATTN_OK;
  const attn_status status = choose_by_environment(kernels);
  if (status) return status;
  const attn_kernels *none = NULL;
  if (!atomic_compare_exchange_strong(&current, &none, *kernels)) *kernels = none;
  return ATTN_OK;
}

attn_status attn_select(const char *isa, const char *exp) {
  const attn_kernels *kernels;
  const attn_status status =
      choose(isa ? isa : environment("ATTN_ISA"), isa ? "isa" : "ATTN_ISA",
             exp ? exp : environment("ATTN_EXP"), exp ? "exp" : "ATTN_EXP", &kernels);
  if (status) return status;
  atomic_store_explicit(&current, kernels, memory_order_release);
  return ATTN_OK;
}

const char *attn_isa_name(void) {
  const attn_kernels *kernels;
  return attn_kernels_current(&kernels) ? NULL : kernels->isa;
}

const char *attn_exp_name(void) {
  const attn_kernels *kernels;
  return attn_kernels_current(&kernels) ? NULL : kernels->exp;
}

const char *attn_isa_compiled(int i) { return attn_kernels_name(i); }

bool attn_isa_supported(const char *isa) {
  const attn_kernels *kernels = isa ? attn_kernels_find(isa, false) : NULL;
  return kernels && attn_kernels_supported(kernels);
}

bool attn_isa_tile_sizes(const char *isa, attn_tile_sizes *sizes) {
  const attn_kernels *k = isa ? attn_kernels_find(isa, false) : NULL;
  if (!k || !sizes) return false;
  *sizes = (attn_tile_sizes){k->vector, k->rows, k->lanes, k->max_lanes};
  return true;
}

#define ATTN_TEXT_(x) #x
#define ATTN_TEXT(x) ATTN_TEXT_(x)

const char *attn_sleef_version(void) {
  return ATTN_TEXT(SLEEF_VERSION_MAJOR) "." ATTN_TEXT(SLEEF_VERSION_MINOR) "." ATTN_TEXT(
      SLEEF_VERSION_PATCHLEVEL);
}
