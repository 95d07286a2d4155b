/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* Two sequences from a key/value cache: prompts of unequal length in one call, then one token a step.
 *   cc decode.c $(pkg-config --cflags --libs attn) -o decode */
#include <attn/cache.h>
#include <stdio.h>

enum { N = 2, T = 5, HQ = 4, HKV = 2, D = 8, STEPS = 3 };
/* As a model computes them for the tokens of a step; here all scores are equal, and v counts. */
static float q[N][T][HQ][D], k[N][T][HKV][D], v[N][T][HKV][D], o[N][T][HQ][D];

/* Row t of o[n] for the new tokens t < lens[n] of each sequence. */
static attn_status step(attn_cache *cache, const int32_t *lens, int64_t most) {
  for (int n = 0; n < N; n++) {
    const float seen = (float)attn_cache_length(cache, n);
    for (int t = 0; t < most; t++) v[n][t][0][0] = seen + (float)t;
  }
  attn_cache_rows r = ATTN_CACHE_ROWS_INIT;
  r.batch = N, r.kv_len = most, r.kv_lens = lens; /* sequences 0 ... N-1 */
  r.k = (attn_input){k, T * HKV * D, D, HKV * D, 1};
  r.v = (attn_input){v, T * HKV * D, D, HKV * D, 1};
  attn_status status = attn_cache_append(cache, &r);
  if (status) return status;

  attn_params p = ATTN_PARAMS_INIT;
  p.q_heads = HQ, p.q_len = most, p.lengths.q_lens = lens;
  p.q = (attn_input){q, T * HQ * D, D, HQ * D, 1};
  p.o = (attn_output){o, T * HQ * D, D, HQ * D, 1};
  status = attn_cache_view(cache, N, NULL, NULL, 0, &p); /* k, v and all about them */
  return status ? status : attn_forward(NULL, &p);
}

int main(void) {
  attn_cache_config c = ATTN_CACHE_CONFIG_INIT;
  c.kv_heads = HKV, c.head_size = D, c.max_sequences = N;
  c.has_pages = true, c.page_size = 16, c.num_pages = 8;
  attn_cache *cache;
  int32_t lens[N] = {5, 2}; /* the prompts */
  if (attn_cache_create(&c, &cache) || step(cache, lens, T))
    return fprintf(stderr, "%s\n", attn_last_error()), 1;
  lens[0] = lens[1] = 1;
  for (int i = 0; i < STEPS; i++) {
    if (step(cache, lens, 1)) return fprintf(stderr, "%s\n", attn_last_error()), 1;
    printf("%g %g\n", (double)o[0][0][0][0], (double)o[1][0][0][0]); /* means of 0 ... length-1 */
  }
  attn_cache_destroy(cache);
  return 0;
}
