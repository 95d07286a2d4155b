/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/* What the vectors of x86-64 of any width have in common. V_MM(name) is an intrinsic of the set's own width. */
#ifndef ATTN_SIMD_ISA_X86_H
#define ATTN_SIMD_ISA_X86_H

/* Four rows become four columns within every 128 bits. */
V_INLINE void v_quads(v_f32 column[4], const v_f32 row[4]) {
  const v_f32 low01 = V_MM(unpacklo_ps)(row[0], row[1]), high01 = V_MM(unpackhi_ps)(row[0], row[1]);
  const v_f32 low23 = V_MM(unpacklo_ps)(row[2], row[3]), high23 = V_MM(unpackhi_ps)(row[2], row[3]);
  column[0] = V_MM(shuffle_ps)(low01, low23, 0x44);
  column[1] = V_MM(shuffle_ps)(low01, low23, 0xee);
  column[2] = V_MM(shuffle_ps)(high01, high23, 0x44);
  column[3] = V_MM(shuffle_ps)(high01, high23, 0xee);
}

#endif
