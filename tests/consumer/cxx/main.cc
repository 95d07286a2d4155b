// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The attn authors

// One value under one key is the result.

#include <attn/attn.h>
#include <cstdio>

int main() {
  const float one = 1, value = 7;
  float out = 0;
  attn_params p = ATTN_PARAMS_INIT;
  p.batch = p.q_heads = p.kv_heads = p.q_len = p.kv_len = p.head_size = p.value_size = 1;
  p.q = p.k = attn_input{&one, 1, 1, 1, 1};
  p.v = attn_input{&value, 1, 1, 1, 1};
  p.o = attn_output{&out, 1, 1, 1, 1};
  if (attn_forward(nullptr, &p) != ATTN_OK) return std::puts(attn_last_error()), 1;
  std::printf("C++ alone: %g\n", static_cast<double>(out));
  return out == value ? 0 : 1;
}
