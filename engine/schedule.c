/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

#include "schedule.h"

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Enough tasks that the last ones to end leave no runner idle for long; so many times finer where that costs little: pieces
 * of decode cost nothing but a short state each. */
enum { TASKS_PER_RUNNER = 8, FINER = 2 };

/* ---- making ---- */

/* Whether the last pieces of all groups come behind all others: if there is but one group, and where the diagonal makes
 * them a good deal smaller. Not in a ragged batch, where they may still be larger than all there is of a shorter
 * sequence. */
static bool last_pieces_apart(const attn_problem *problem, const attn_sequence *q,
                              const attn_cut *c) {
  if (c->groups == 1) return true;
  const int64_t keys = c->piece_chunks * ATTN_KEY_CHUNK;
  return !problem->ragged && problem->params.causal && q->q_len >= 2 * keys &&
         q->q_len <= q->kv_len;
}

/* Cuts each kv head of a sequence into about `wanted` tasks. */
static void cut_sequence(const attn_problem *problem, const attn_sequence *q, double wanted,
                         attn_cut *c) {
  const int64_t tile = problem->kernels->lanes;
  c->lanes = q->q_len * problem->group;
  c->chunks = divide_up(q->kv_len, ATTN_KEY_CHUNK);
  c->pieces = 1;
  c->last_apart = false;
  c->piece_begin = 0;
  c->piece_chunks = c->chunks;
  c->groups = 0;
  if (c->lanes == 0) return;

  /* Tiles of one task share the packing of keys, half as many much of it, and a few each block of keys: that is given up
   * only for want of tasks. */
  const int64_t tiles = divide_up(c->lanes, tile);
  int64_t per_task = problem->kernels->max_lanes / tile;
  if ((double)divide_up(tiles, per_task) < (double)FINER * wanted) per_task /= 2;
  while (per_task > 1 && (double)divide_up(tiles, per_task) < wanted) per_task /= 2;
  per_task = divide_up(tiles, divide_up(tiles, per_task)); /* evenly */
  c->lanes_per_task = per_task * tile < c->lanes ? per_task * tile : c->lanes;
  c->groups = divide_up(c->lanes, c->lanes_per_task);

  /* Pieces of keys only where there are still too few, and then at least so many. */
  const int64_t begin = q->kv_begin / ATTN_KEY_CHUNK, chunks = c->chunks - begin;
  if ((double)c->groups >= wanted || chunks < 2) return;
  const double least = (c->groups == 1 ? FINER : 1) * wanted / (double)c->groups;
  int64_t piece = 1;
  while ((double)divide_up(chunks, 2 * piece) >= least) piece *= 2;
  const int64_t first = begin / piece; /* pieces lie at multiples of their size */
  const int64_t pieces = divide_up(c->chunks, piece) - first, cut = (first + 1) * piece;
  if (pieces == 1) return;
  /* Two of which one is short bring little, and cost a state of every tile. */
  const int64_t left = cut - begin, right = c->chunks - cut;
  if (c->groups > 1 && pieces == 2 && (4 * left < right || 4 * right < left)) return;
  c->piece_chunks = piece;
  c->piece_begin = first;
  c->pieces = pieces;
  c->last_apart = last_pieces_apart(problem, q, c);
}

/* Numbers the tasks of a cut, and what they share, behind those before it. */
static void number(const attn_problem *problem, attn_schedule *s, attn_cut *c) {
  c->rows = c->sequences * problem->params.kv_heads * c->groups;
  c->first_task = s->tasks;
  c->first_row = s->rows;
  c->first_state = s->states;
  s->tasks += c->rows * c->pieces;
  if (c->pieces == 1) return;
  s->rows += c->rows;
  s->states += c->rows * c->pieces * c->lanes_per_task;
}

/* Whether a comes before b: a total order, so that there is one schedule. */
static bool costlier(const attn_cut *a, const attn_cut *b) {
  return a->cost != b->cost ? a->cost > b->cost : a->sequence < b->sequence;
}

/* The cut at the root sinks until those below it are costlier. */
static void sink(attn_cut *cuts, int64_t root, int64_t count) {
  for (int64_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && costlier(&cuts[child], &cuts[child + 1])) child++;
    if (!costlier(&cuts[root], &cuts[child])) return;
    const attn_cut cut = cuts[root];
    cuts[root] = cuts[child];
    cuts[child] = cut;
  }
}

/* Costliest first, in place: qsort() may allocate. */
static void sort_cuts(attn_cut *cuts, int64_t count) {
  for (int64_t root = count / 2; root-- > 0;) sink(cuts, root, count);
  for (int64_t last = count - 1; last > 0; last--) {
    const attn_cut least = cuts[0];
    cuts[0] = cuts[last];
    cuts[last] = least;
    sink(cuts, 0, last);
  }
}

static void make_ragged(const attn_problem *problem, double wanted, attn_schedule *s) {
  const attn_params *p = &problem->params;
  const double total = problem->cost;
  for (int64_t n = 0; n < p->batch; n++) {
    const attn_sequence q = attn_problem_sequence(problem, n);
    const double cost = attn_sequence_cost(problem, &q);
    attn_cut *c = &s->cuts[s->count];
    *c = (attn_cut){.sequence = n, .sequences = 1};
    cut_sequence(problem, &q, total > 0 ? wanted * cost / total : 0, c);
    if (c->groups == 0) continue;
    c->cost = cost / (double)(c->groups * c->pieces);
    s->count++;
  }
  sort_cuts(s->cuts, s->count);
  for (int64_t i = 0; i < s->count; i++) number(problem, s, &s->cuts[i]);
}

int64_t attn_schedule_room(const attn_problem *problem) {
  return problem->ragged ? problem->params.batch : 0;
}

void attn_schedule_make(const attn_problem *problem, attn_cut *cuts, attn_schedule *s) {
  const attn_params *p = &problem->params;
  const attn_fpmode mode = attn_fpmode_enter(); /* a caller may have unmasked exceptions */
  const double wanted = p->num_threads > 1 ? (double)TASKS_PER_RUNNER * p->num_threads : 1;
  *s = (attn_schedule){.cuts = problem->ragged ? cuts : NULL};
  if (problem->ragged) {
    make_ragged(problem, wanted, s);
  } else if (p->batch > 0) {
    const attn_sequence q = attn_problem_sequence(problem, 0);
    s->alike = (attn_cut){.sequences = p->batch};
    cut_sequence(problem, &q, wanted / ((double)p->batch * (double)p->kv_heads), &s->alike);
    s->count = s->alike.groups > 0;
    number(problem, s, &s->alike);
  }
  attn_fpmode_leave(mode);
}

/* ---- asking ---- */

const attn_cut *attn_schedule_cut(const attn_schedule *s, int64_t i) {
  return s->cuts ? &s->cuts[i] : &s->alike;
}

/* The last cut that begins at or before task i. */
static const attn_cut *cut_of(const attn_schedule *s, int64_t i) {
  int64_t low = 0, high = s->count;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (attn_schedule_cut(s, middle)->first_task <= i) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return attn_schedule_cut(s, low);
}

/* A head of the cut, and a group of its lanes. */
typedef struct place {
  int64_t head, group;
} place;

/* The i-th to be computed: in waves of `together` heads, of which the last one takes the rest. */
static place place_of(const attn_cut *c, int64_t heads, int64_t together, int64_t i) {
  const int64_t waves = heads / together > 1 ? heads / together : 1;
  int64_t wave = i / (together * c->groups);
  if (wave > waves - 1) wave = waves - 1;
  const int64_t first = wave * together, wide = wave < waves - 1 ? together : heads - first;
  i -= first * c->groups;
  return (place){first + i % wide, c->groups - 1 - i / wide};
}

/* The i-th lane group among last pieces. Groups a piece of keys apart have about as many keys of the piece that the diagonal
 * cuts short. So they take turns, those with most first: row by row of columns that each begin where a piece ends, from
 * the last piece down. (A group is a tile here, and a piece has more keys.) */
static int64_t last_group(const attn_problem *problem, const attn_cut *c, int64_t i) {
  const int64_t n = c->groups;
  if (n == 1) return 0;
  const int64_t keys = c->piece_chunks * ATTN_KEY_CHUNK;
  const int64_t kv_len = attn_problem_sequence(problem, c->sequence).kv_len;
  const int64_t most = keys * problem->group / c->lanes_per_task; /* groups of a column */
  const int64_t columns = divide_up(n, most), last_column = n - (columns - 1) * most;
  int64_t row = i / columns, column = i % columns;
  if (row >= last_column) { /* the others go on */
    row = (i - last_column) / (columns - 1);
    column = (i - last_column) % (columns - 1);
  }
  /* The first groups end inside the last piece; they go on where the last column ends. */
  const int64_t inside = divide_up(kv_len % keys * problem->group, c->lanes_per_task);
  return n - 1 - (column * most + row + (inside < n ? inside : 0)) % n;
}

/* The piece of a share's lane group in some turn. The last one is the group's last, which the diagonal or the last key
 * cuts short; first come those behind it, which are empty. */
static int64_t piece_of(const attn_problem *problem, const attn_share *share, int64_t turn) {
  const attn_cut *c = share->cut;
  const attn_sequence q = attn_problem_sequence(problem, share->n);
  const int64_t row = (share->lane + share->lanes - 1) / problem->group;
  const int64_t key = attn_last_key(row, q.diagonal, q.kv_len);
  const int64_t last = key / ATTN_KEY_CHUNK / c->piece_chunks - c->piece_begin;
  return c->piece_begin + (last < 0 ? turn : (last + 1 + turn) % c->pieces);
}

attn_share attn_schedule_share(const attn_schedule *s, const attn_problem *problem, int64_t i) {
  const attn_cut *c = cut_of(s, i);
  const int64_t heads = c->sequences * problem->params.kv_heads;
  attn_share share = {.cut = c};
  i -= c->first_task;
  /* Groups take turns, or their pieces come one after the other. */
  const int64_t row_at = c->last_apart ? i % c->rows : i / c->pieces;
  const int64_t turn = c->last_apart ? i / c->rows : i % c->pieces;
  place at = place_of(c, heads, problem->params.num_threads, row_at);
  if (c->last_apart && turn == c->pieces - 1) {
    at = (place){row_at % heads, last_group(problem, c, row_at / heads)};
  }
  const int64_t row = at.head * c->groups + at.group;
  share.n = c->sequence + at.head / problem->params.kv_heads;
  share.kv_head = at.head % problem->params.kv_heads;
  /* What is missing of whole groups is missing in the first one, whose queries see fewest keys. */
  const int64_t end = c->lanes - (c->groups - 1 - at.group) * c->lanes_per_task;
  share.lane = end > c->lanes_per_task ? end - c->lanes_per_task : 0;
  share.lanes = end - share.lane;
  share.piece = c->pieces > 1 ? piece_of(problem, &share, turn) : c->piece_begin;
  share.chunk_begin = share.piece * c->piece_chunks;
  share.chunk_end = share.chunk_begin + c->piece_chunks;
  if (share.chunk_end > c->chunks) share.chunk_end = c->chunks;
  share.row = c->first_row + row;
  share.state = c->first_state + row * c->pieces * c->lanes_per_task;
  return share;
}

double attn_schedule_cost(const attn_schedule *s, const attn_problem *problem, int64_t i) {
  const attn_params *p = &problem->params;
  const attn_share share = attn_schedule_share(s, problem, i);
  const attn_sequence q = attn_problem_sequence(problem, share.n);
  /* Keys seen by the middle row of the group. */
  const int64_t row = (share.lane + share.lanes / 2) / problem->group;
  int64_t begin = share.chunk_begin * ATTN_KEY_CHUNK;
  int64_t end = attn_last_key(row, q.diagonal, q.kv_len) + 1;
  if (begin < q.kv_begin) begin = q.kv_begin;
  if (end > share.chunk_end * ATTN_KEY_CHUNK) end = share.chunk_end * ATTN_KEY_CHUNK;
  if (end <= begin) return 0.0;
  return (double)share.lanes * (double)(end - begin) * (double)(p->head_size + p->value_size);
}
