/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* The merge tree over chunks of keys (docs/numerics.md), walked from left to right: a stack of states that wait for
 * their right sibling. Part of attention.c. */
#ifndef ATTN_SIMD_TREE_H
#define ATTN_SIMD_TREE_H

#include "body.h"

enum { MAX_LEVELS = 24 /* 2^31 keys in chunks of 512, and one more */ };

typedef struct tree {
  float *states;  /* the stack, then the state in work */
  int64_t floats; /* of a state */
  int64_t depth;
  struct {
    int32_t index; /* of a subtree among those of its level */
    int32_t level; /* 0: a leaf */
  } node[MAX_LEVELS];
} tree;

/* left <- left merged with right; `how` is the kernel's own. */
typedef void (*merge_fn)(const void *how, float *left, float *right);

static float *tree_state(const tree *t, int64_t i) { return t->states + i * t->floats; }

/* The state in work becomes leaf number i; it merges with its left siblings as far as they are complete. A right
 * child whose left sibling is absent takes its parent's place. */
static void tree_push(tree *t, int64_t i, merge_fn merge, const void *how) {
  int32_t index = (int32_t)i, level = 0;
  for (; index & 1; index >>= 1, level++) {
    const int64_t left = t->depth - 1;
    if (left < 0 || t->node[left].level != level || t->node[left].index != index - 1) continue;
    merge(how, tree_state(t, left), tree_state(t, t->depth));
    t->depth--;
  }
  t->node[t->depth].index = index;
  t->node[t->depth].level = level;
  t->depth++;
}

/* What is left merges from the right: an absent right sibling is the identity. NULL when there was no leaf. */
static float *tree_finish(tree *t, merge_fn merge, const void *how) {
  for (; t->depth > 1; t->depth--) {
    merge(how, tree_state(t, t->depth - 2), tree_state(t, t->depth - 1));
  }
  return t->depth ? t->states : NULL;
}

/* States on the stack at most, for that many leaves in a row: one per level of the tree. */
static int64_t tree_levels(int64_t leaves) {
  int64_t levels = 1;
  while (leaves > 1) {
    leaves = (leaves + 1) / 2;
    levels++;
  }
  return levels;
}

#endif
