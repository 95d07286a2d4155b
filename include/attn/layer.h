/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/** @file
 * The whole self-attention layer: x -> y.
 *
 *      q = x Wq + bq,  k = x Wk + bk,  v = x Wv + bv        (per head: columns h*head_size ...)
 *      y = concat_h(attention(q_h, k_h, v_h)) Wo + bo       (Vaswani et al. 2017, section 3.2.2)
 *
 * It reproduces two Flax modules: a linen one with a fused qkv kernel (`Dense_0`, output `Dense_1`), and
 * an nnx one with `q_proj`, `k_proj`, `v_proj`, `out_proj`. The conventions of attn.h hold.
 */
#ifndef ATTN_LAYER_H
#define ATTN_LAYER_H

#include <attn/attn.h>
#include <attn/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Projection weights and everything derived from them; read-only once created, so any number of
 *  threads may run one layer at once. */
typedef struct attn_layer attn_layer;

/** Shape of a layer. Initialise with ::ATTN_LAYER_CONFIG_INIT. */
typedef struct attn_layer_config {
  size_t struct_size;
  int64_t d_model;       /**< features of x and y, 1 ... 2^20 */
  int64_t num_heads;     /**< query heads, >= 1 */
  bool has_num_kv_heads; /**< false: num_heads */
  int64_t num_kv_heads;  /**< divides num_heads */
  bool has_head_size;    /**< false: d_model / num_heads, which must then divide */
  int64_t head_size;     /**< 1 ... 1024 */
  bool causal;           /**< default true */
  bool has_scale;        /**< false: 1/sqrt(head_size) */
  float scale;           /**< -1e38 ... 1e38 */
} attn_layer_config;

#ifdef __cplusplus
static ATTN_INLINE_ attn_layer_config attn_layer_config_init_() {
  attn_layer_config c = attn_layer_config();
  c.struct_size = sizeof(c);
  c.causal = true;
  return c;
}
#define ATTN_LAYER_CONFIG_INIT attn_layer_config_init_()
#else
#define ATTN_LAYER_CONFIG_INIT {.struct_size = sizeof(attn_layer_config), .causal = true}
#endif

/** One weight matrix as an array in memory, element (in, out) at
 *  data[in * in_stride + out * out_stride]: (in,out) row-major has strides (out, 1), PyTorch's
 *  (out,in) has (1, in). Copied (packed) at creation. */
typedef struct attn_weight {
  const void *kernel; /**< NULL: absent */
  int64_t in_stride;
  int64_t out_stride;
  const void *bias; /**< `out` dense elements; NULL: no bias */
} attn_weight;

/** Weights of a layer: either `qkv`, or all of `q`, `k`, `v`; and `out`. With
 *  Nq = num_heads * head_size and Nkv = num_kv_heads * head_size. */
typedef struct attn_layer_weights {
  size_t struct_size;
  attn_weight qkv; /**< (d_model, Nq + 2 Nkv); columns are all of q, then all of k, then all of v */
  attn_weight q;   /**< (d_model, Nq) */
  attn_weight k;   /**< (d_model, Nkv) */
  attn_weight v;   /**< (d_model, Nkv) */
  attn_weight out; /**< (Nq, d_model) */
} attn_layer_weights;

#ifdef __cplusplus
ATTN_SIZED_(attn_layer_weights)
#define ATTN_LAYER_WEIGHTS_INIT attn_layer_weights_init_()
#else
#define ATTN_LAYER_WEIGHTS_INIT {.struct_size = sizeof(attn_layer_weights)}
#endif

/** Packs the weights for the instruction set in use now; the layer keeps that set.
 *  @return ATTN_INVALID_ARGUMENT, ATTN_UNSUPPORTED or ATTN_OUT_OF_MEMORY. */
ATTN_API attn_status attn_layer_create(const attn_layer_config *config,
                                       const attn_layer_weights *weights, attn_layer **layer);

/** Reads the weights from an open safetensors file. Which form it is, is told by the tensor names:
 *
 *  | form   | tensors                                                                          |
 *  |--------|----------------------------------------------------------------------------------|
 *  | linen  | `Dense_0/kernel` (D, Nq+2Nkv), `Dense_1/kernel` (Nq, D), `…/bias` optional         |
 *  | nnx    | `q_proj/kernel`, `k_proj/kernel`, `v_proj/kernel` (D, N), `out_proj/kernel` (Nq, D) |
 *  | Flax   | `query/kernel`, `key/kernel`, `value/kernel` (D, H, Dh), `out/kernel` (H, Dh, D), biases (H, Dh), (D) |
 *  | PyTorch| `q_proj.weight`, `k_proj.weight`, `v_proj.weight` (N, D), `out_proj.weight` or `o_proj.weight` (D, Nq) |
 *  | PyTorch fused | `in_proj_weight` (Nq+2Nkv, D), `in_proj_bias`, `out_proj.weight` (D, Nq)       |
 *
 *  `/` and `.` between the parts of a name are the same. `prefix` (may be NULL) is put before
 *  every name, as "layers/0/attn/". Other tensors with that prefix are surplus and refused, except
 *  that `allow_other` admits them. Names alone do not tell whether a model rotates q and k (RoPE):
 *  the layer does not, and refuses tensors that rotate or norm them even with `allow_other`. F64,
 *  F16 and BF16 are converted to float. The file may be closed afterwards. config->d_model may be 0: taken from the file; so may num_heads,
 *  where the kernels are 3-D, and then kv heads and head size come from the file too unless they are given.
 *  @return also ATTN_BAD_FILE, naming the tensor that is missing, surplus or misshapen. */
ATTN_API attn_status attn_layer_create_from_file(const attn_layer_config *config,
                                                 const attn_file *file, const char *prefix,
                                                 bool allow_other, attn_layer **layer);

/** Initialises as the modules do: LeCun normal kernels (normal truncated at two standard
 *  deviations, variance 1/fan_in; LeCun et al. 1998, "Efficient BackProp"), zero biases. A pure function of `seed` (Philox4x32-10),
 *  not JAX's stream. */
ATTN_API attn_status attn_layer_create_init(const attn_layer_config *config, uint64_t seed,
                                            attn_layer **layer);

ATTN_API void attn_layer_destroy(attn_layer *layer);

/** What the layer was created with, every optional value resolved; as much of it as
 *  config->struct_size has room for, so initialise it first. */
ATTN_API attn_status attn_layer_get_config(const attn_layer *layer, attn_layer_config *config);

/** One forward pass. Initialise with ::ATTN_LAYER_PARAMS_INIT. */
typedef struct attn_layer_params {
  size_t struct_size;
  int64_t batch;  /**< >= 0; default 1, so that (T, D) needs nothing */
  int64_t len;    /**< rows per sequence, >= 0 */
  const float *x; /**< (batch, len, d_model), features dense */
  int64_t x_batch_stride;
  int64_t x_row_stride;
  float *y; /**< (batch, len, d_model), features dense; may be exactly x */
  int64_t y_batch_stride;
  int64_t y_row_stride;
  bool has_strides;     /**< false: x and y are dense, the strides above are not read */
  attn_dropout dropout; /**< on the softmax weights; default: none */
  bool has_num_threads;
  int32_t num_threads;
  attn_cancel_fn cancel;
  void *cancel_user;
} attn_layer_params;

#ifdef __cplusplus
static ATTN_INLINE_ attn_layer_params attn_layer_params_init_() {
  attn_layer_params p = attn_layer_params();
  p.struct_size = sizeof(p);
  p.batch = 1;
  p.dropout.deterministic = true;
  return p;
}
#define ATTN_LAYER_PARAMS_INIT attn_layer_params_init_()
#else
#define ATTN_LAYER_PARAMS_INIT                                                                     \
  {                                                                                                \
    .struct_size = sizeof(attn_layer_params), .batch = 1, .dropout = {.deterministic = true }      \
  }
#endif

/** @return ATTN_INVALID_ARGUMENT, ATTN_UNSUPPORTED, ATTN_OUT_OF_MEMORY or ATTN_CANCELLED. */
ATTN_API attn_status attn_layer_forward(attn_context *context, const attn_layer *layer,
                                        const attn_layer_params *params);

#ifdef __cplusplus
}
#endif
#endif
