/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* A context is a list of idle blocks. Its lock, held for a walk of that short list, is tried a number of times, never
 * waited for: a caller that does not get it allocates, and one that cannot give a block back frees it. So a
 * child forked while some thread held the lock still works. */

#include "context.h"

#include "status.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Beside the memory, not in it: that may be the system's own, where a leak checker does not look for what is linked to
 * it. The memory begins with a pointer to its block; scratch starts HEADER bytes behind. */
typedef struct block {
  struct block *next;
  void *memory;
  size_t bytes; /* of scratch */
} block;
enum { HEADER = ATTN_ALIGNMENT };

static void *scratch_of(const block *b) { return (char *)b->memory + HEADER; }

static block *block_of(void *scratch) {
  block *b;
  memcpy(&b, (char *)scratch - HEADER, sizeof(block *));
  return b;
}

struct attn_context {
  atomic_flag busy;
  block *idle;
};

static attn_context default_context = {ATOMIC_FLAG_INIT, NULL};

static bool try_lock(attn_context *c) {
  for (int i = 0; i < 100; i++) {
    if (!atomic_flag_test_and_set_explicit(&c->busy, memory_order_acquire)) return true;
  }
  return false;
}

static void unlock(attn_context *c) { atomic_flag_clear_explicit(&c->busy, memory_order_release); }

/* The smallest idle block that is large enough, taken off the list. */
static block *take(attn_context *c, size_t bytes) {
  block **best = NULL;
  for (block **at = &c->idle; *at; at = &(*at)->next) {
    if ((*at)->bytes >= bytes && (!best || (*at)->bytes < (*best)->bytes)) best = at;
  }
  if (!best) return NULL;
  block *found = *best;
  *best = found->next;
  return found;
}

static void give_back(block *b) {
  if (!b) return;
  attn_release(b->memory, b->bytes + HEADER);
  free(b);
}

static block *block_create(size_t bytes) {
  block *b = malloc(sizeof(*b));
  void *memory = b ? attn_allocate(bytes) : NULL;
  if (!memory) {
    free(b);
    return NULL;
  }
  *b = (block){.memory = memory, .bytes = bytes - HEADER};
  memcpy(memory, &b, sizeof(block *));
  return b;
}

/* Takes the largest idle block off the list: the nearest to what is missing, and not large enough. */
static block *take_largest(attn_context *c) {
  size_t most = 0;
  for (const block *b = c->idle; b; b = b->next) most = b->bytes > most ? b->bytes : most;
  return most ? take(c, most) : NULL;
}

/* Sizes in steps of an eighth, so that lengths that grow by one do not allocate every time. */
static size_t round_up(size_t bytes) {
  size_t step = ATTN_ALIGNMENT;
  while (step < bytes / 8) step *= 2;
  return (bytes + step - 1) / step * step;
}

void *attn_scratch_acquire(attn_context *context, size_t bytes) {
  attn_context *c = context ? context : &default_context;
  if (try_lock(c)) {
    block *found = take(c, bytes), *small = found ? NULL : take_largest(c);
    unlock(c);
    if (found) return scratch_of(found);
    give_back(small);
  }
  if (bytes > SIZE_MAX / 4) return NULL;
  const block *fresh = block_create(round_up(bytes + HEADER));
  return fresh ? scratch_of(fresh) : NULL;
}

void attn_scratch_release(attn_context *context, void *scratch) {
  attn_context *c = context ? context : &default_context;
  if (!scratch) return;
  block *b = block_of(scratch);
  if (!try_lock(c)) {
    give_back(b);
    return;
  }
  b->next = c->idle;
  c->idle = b;
  unlock(c);
}

attn_status attn_context_create(attn_context **context) {
  if (!context)
    return attn_fail(ATTN_INVALID_ARGUMENT, "context is NULL; it must point to a handle");
  attn_context *c = malloc(sizeof(*c));
  if (!c) return attn_fail(ATTN_OUT_OF_MEMORY, "no memory for a context");
  atomic_flag_clear(&c->busy);
  c->idle = NULL;
  *context = c;
  return ATTN_OK;
}

void attn_context_trim(attn_context *context) {
  attn_context *c = context ? context : &default_context;
  if (!try_lock(c)) return;
  for (block *b; (b = take_largest(c)) != NULL;) give_back(b);
  unlock(c);
}

void attn_context_destroy(attn_context *context) {
  if (!context) return;
  attn_context_trim(context);
  free(context);
}
