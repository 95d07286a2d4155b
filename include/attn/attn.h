/* SPDX-License-Identifier: Apache-2.0
 * Copyright 2026 The attn authors */

/** @file
 * Attention: q, k, v -> o, one direct call.
 *
 * Conventions that hold for every function here:
 *
 *  - A function that can fail returns an ::attn_status; anything but ::ATTN_OK leaves every output
 *    untouched (::ATTN_CANCELLED excepted) and puts one line naming the thing, its value and what is allowed into
 *    attn_last_error() of the calling thread.
 *  - Every function may be called from any number of threads at once, unless it says otherwise.
 *  - The library never prints, aborts, exits, or changes the process's OpenMP or floating-point settings.
 *  - A field `x` beside a `has_x` is read only when `has_x` is true; without it the default holds.
 *  - Strides are in elements, not bytes, and 64 bits wide. Lengths and counts are at most 2^31 - 1.
 *  - Structs that begin with `struct_size` grow at their end only, by fields without which everything is
 *    as before. An older, shorter struct is read as far as it goes; a newer, longer one is
 *    refused when a byte that this version does not know is not 0. Initialise them with their _INIT macro.
 */
#ifndef ATTN_ATTN_H
#define ATTN_ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

#ifdef __cplusplus
/* The _INIT macros of C++, which had no designated initialisers before 2020, and warns of fields that they leave out, are
 * static functions: files of one program may be compiled with structs of different versions. */
#if __cplusplus >= 201402L
#define ATTN_INLINE_ constexpr
#else
#define ATTN_INLINE_ inline
#endif
/* attn_x_init_() of a struct of which all but the size is 0. */
#define ATTN_SIZED_(type)                                                                          \
  static ATTN_INLINE_ type type##_init_() {                                                        \
    type s = type();                                                                               \
    s.struct_size = sizeof(s);                                                                     \
    return s;                                                                                      \
  }

extern "C" {
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0

/** "major.minor.patch" of the library that is running (the macros tell what was compiled against). */
ATTN_API const char *attn_version(void);

/* ---- status -------------------------------------------------------------------------------- */

/** Values are pinned: they never change meaning between versions. */
typedef enum attn_status {
  ATTN_OK = 0,
  ATTN_INVALID_ARGUMENT = 1, /**< an argument is outside what its documentation allows */
  ATTN_UNSUPPORTED = 2,      /**< well formed, but this machine or this version cannot do it */
  ATTN_OUT_OF_MEMORY = 3,
  ATTN_IO_ERROR = 4, /**< the operating system refused a file operation */
  ATTN_BAD_FILE = 5, /**< a file was read and its content is malformed or does not fit */
  ATTN_CANCELLED = 6 /**< the cancellation callback said so; outputs are undefined */
} attn_status;

/** Short name of a status ("invalid argument"); "unknown status" for other values. Never NULL. */
ATTN_API const char *attn_status_string(attn_status status);

/** The line that explains this thread's latest failure; "" when there was none.
 *  Valid until this thread's next failing attn call; successful calls leave it alone. */
ATTN_API const char *attn_last_error(void);

/* ---- element types ------------------------------------------------------------------------- */

/** Values are pinned. Attention and layers take arrays of ::ATTN_F32 in this version; the others are
 *  what files may hold (safetensors.h). */
typedef enum attn_dtype {
  ATTN_F32 = 0,
  ATTN_F64 = 1,
  ATTN_F16 = 2,
  ATTN_BF16 = 3,
  ATTN_I64 = 4,
  ATTN_I32 = 5,
  ATTN_I16 = 6,
  ATTN_I8 = 7,
  ATTN_U64 = 8,
  ATTN_U32 = 9,
  ATTN_U16 = 10,
  ATTN_U8 = 11,
  ATTN_BOOL = 12
} attn_dtype;

/** "F32" and so on, as in safetensors files; NULL for other values. */
ATTN_API const char *attn_dtype_name(attn_dtype dtype);
/** Bytes per element; 0 for other values. */
ATTN_API size_t attn_dtype_size(attn_dtype dtype);

/* ---- instruction set and exp provider ------------------------------------------------------ */

/** Instruction set in use: "generic", "avx2", "avx512" or "neon". NULL when the environment variable
 *  ATTN_ISA or ATTN_EXP forces something this machine cannot do (attn_last_error() says what).
 *
 *  Chosen once per process, at the first need: the widest set for which CPUID, OSXSAVE and XCR0
 *  (on Arm: HWCAP) agree, or what ATTN_ISA names. All sets but "generic", which has no fused
 *  multiply-add, give the same bits. */
ATTN_API const char *attn_isa_name(void);

/** "inline" (SLEEF's exp2 evaluated in the kernel) or "sleef" (calls into libsleef). Same bits. */
ATTN_API const char *attn_exp_name(void);

/** Version of the SLEEF headers this library was compiled with, as "3.5.1". */
ATTN_API const char *attn_sleef_version(void);

/** The i-th instruction set compiled into this library, NULL past the end. */
ATTN_API const char *attn_isa_compiled(int i);

/** Whether this machine can run the named set; false for unknown names. */
ATTN_API bool attn_isa_supported(const char *isa);

/** How an instruction set cuts its work; tells speed, not results. */
typedef struct attn_tile_sizes {
  int32_t vector;     /**< floats in a vector */
  int32_t rows;       /**< keys, or rows of x, in a register tile */
  int32_t lanes;      /**< queries, or columns of a weight, in a register tile */
  int32_t task_lanes; /**< most queries of one task */
} attn_tile_sizes;

/** False, and nothing written, for names that are not compiled in. */
ATTN_API bool attn_isa_tile_sizes(const char *isa, attn_tile_sizes *sizes);

/** Forces the instruction set and exp provider for calls and layers that begin after it returns,
 *  process-wide; NULL for either means what the environment, or else the machine, chooses.
 *  Calls already running, and layers and plans already created, keep what they began with.
 *  @return ATTN_UNSUPPORTED (nothing changed) when this machine or this build lacks it, also a set of another
 *          processor ("neon" on x86-64); ATTN_INVALID_ARGUMENT when a name, given or from the environment, is none that
 *          any processor or build has. */
ATTN_API attn_status attn_select(const char *isa, const char *exp);

/* ---- context ------------------------------------------------------------------------------- */

/** Owns workspaces and keeps them between calls. Any number of threads may use one at once.
 *  Wherever a context is taken, NULL means one process-wide default context. */
typedef struct attn_context attn_context;

ATTN_API attn_status attn_context_create(attn_context **context);

/** No call may be using the context. NULL is fine. */
ATTN_API void attn_context_destroy(attn_context *context);

/** Gives the memory of idle workspaces back to the system; those in use at the moment stay. */
ATTN_API void attn_context_trim(attn_context *context);

/** Threads a call uses when none are asked for: the least of the CPUs the calling thread may run on,
 *  the process's CPU quota (cgroup v2) rounded up, and OMP_NUM_THREADS. At least 1. */
ATTN_API int32_t attn_default_threads(void);

/* ---- attention ----------------------------------------------------------------------------- */

/** Read-only 4-D array (batch, head, row, dim) of float. Strides in elements; any value is fine, also 0 and
 *  negative. So (B,T,H,D), (B,H,T,D) and slices of a fused qkv buffer need no copy. */
typedef struct attn_input {
  const void *data; /**< aligned for its elements, which is not checked */
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
  int64_t dim_stride;
} attn_input;

/** Writable 4-D array (batch, head, row, dim) of float. No two elements may share an address; of the ways
 *  to break that, only a stride of 0 is detected. */
typedef struct attn_output {
  void *data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
  int64_t dim_stride;
} attn_output;

/** Writable 3-D array (batch, head, row) of float. */
typedef struct attn_lse_output {
  float *data; /**< NULL: not wanted */
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
} attn_lse_output;

/** Recorded keep-mask (batch, query head, query row of the sequence, key) of bytes: nonzero keeps the weight.
 *  Entries of keys that a query does not see are not read. Any strides. */
typedef struct attn_keep_mask {
  const uint8_t *data; /**< NULL: the generator draws the mask */
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
  int64_t key_stride;
} attn_keep_mask;

/** Dropout on the softmax weights (Srivastava et al. 2014, "inverted" form): after softmax a kept weight
 *  becomes w / (1 - rate), a dropped one 0; weights are not normalised again and the LSE does not
 *  notice. The mask is a pure function of (seed, offset, batch, query head, absolute query
 *  position i + kv_len - q_len, key), drawn by Philox4x32-10 (Salmon et al., SC'11). */
typedef struct attn_dropout {
  /** 0 <= rate <= 1; 0 is no dropout, 1 gives zeros. Checked also where `deterministic` makes no use of it, so that a
   *  wrong one shows in the first call, not in the first that drops. */
  double rate;
  bool deterministic;  /**< true: no dropout, as if the rate were 0. Default true */
  uint64_t seed;       /**< all 64 bits count */
  uint64_t offset;     /**< another mask for every value, as one would number steps and layers */
  attn_keep_mask keep; /**< overrides the generator */
} attn_dropout;

/** Asked between tasks, from any of the call's threads, in their own floating-point mode; true stops
 *  the call. A task is some 1000 queries of a head at most (2300 with AVX-512), and all keys that they see. */
typedef bool (*attn_cancel_fn)(void *user);

/** Which rows and keys each sequence of a batch has, where they differ. An array that is NULL says nothing.
 *  All entries are checked before anything is read or written, and must not change until the call
 *  returns or the plan is destroyed.
 *
 *  A sequence has room for rows of q, o and lse, and for keys: q_len rows and kv_len keys (also with pages: kv_len is
 *  then the most keys of any), or what cu_seqlens_* give it. In that room lie its rows and keys, and only they
 *  are touched. Positions are counted from the sequence's first key, so that causality, chunks and dropout
 *  know nothing of where a sequence lies.
 *
 *  This struct and ::attn_pages never grow: what is new becomes a field of ::attn_params. Elsewhere q_lens is called
 *  seqused_q, kv_lens seqused_k or cache_seqlens (which there may include the padding), and left_padding leftpad_k. */
typedef struct attn_lengths {
  /** batch + 1 offsets, 0 = first <= ... <= last = q_len: the rows of all sequences lie one behind the other
   *  in q, o and lse, sequence n has rows [n] ... [n+1]-1, and their batch strides are not used. */
  const int32_t *cu_seqlens_q;
  /** The same for k and v, up to kv_len. Not together with pages. */
  const int32_t *cu_seqlens_k;
  const int32_t *q_lens; /**< batch entries: only that many rows, from the start of the room */
  /** batch entries: only that many keys, without the padding, and with those that kv_starts says are gone. */
  const int32_t *kv_lens;
  /** batch entries: so many slots at the start of the room hold no key and do not count. */
  const int32_t *left_padding;
  /** batch entries, at most kv_lens: so many keys at the start are no longer there, as in a ring that has gone round.
   *  They count in every position, but nobody sees them. */
  const int32_t *kv_starts;
} attn_lengths;

/** Keys and values in pages (Kwon et al. 2023, "PagedAttention"; `table` is elsewhere called block table): k and v are
 *  arrays (page, kv_head, slot, dim), keys perhaps interleaved (::attn_key_layout), with the stride from page to page
 *  in `batch_stride`. Slot s of sequence n lies in page table[n * table_stride + s / page_size % table_width], at
 *  s % page_size: a table that is too short for the length is a ring, and holds the last keys where kv_starts says that the others are gone. */
typedef struct attn_pages {
  const int32_t *table; /**< NULL: no pages. Entries that no key needs are not looked at */
  int64_t table_stride; /**< from sequence to sequence; 0 is fine */
  int64_t table_width;  /**< entries of a sequence, >= 1 */
  int64_t page_size;    /**< slots, >= 1 */
  int64_t num_pages;    /**< in k and v */
} attn_pages;

/** How the keys of a page lie; v always lies in rows. The enumeration's values are pinned. */
typedef enum attn_key_layout {
  ATTN_KEYS_IN_ROWS = 0,
  /** 16 keys side by side: element (slot, dim) of a head of a page lies at
   *
   *      slot / 16 * 16 * head_size + dim * 16 + slot % 16.
   *
   *  Queries of few rows, as in decode, then compute with keys as they come instead of transposing them: a
   *  cache's own layout (cache.h). Slots of a group of 16 that hold no key are loaded together with those that
   *  do, so nobody may write to them meanwhile; no result depends on what is in them. */
  ATTN_KEYS_INTERLEAVED = 1
} attn_key_layout;

/** One attention problem. Initialise with ::ATTN_PARAMS_INIT, then set what differs.
 *
 *      o[i] = sum_j w_ij v[j],   w_ij = exp(s_ij - lse_i),   s_ij = scale * (q[i] . k[j]),
 *      lse_i = log(sum_j exp(s_ij))        (Vaswani et al. 2017, eq. 1; online: Milakov &
 *                                           Gimelshein 2018; tiled: Dao et al. 2022)
 *
 *  summed over the keys that query i sees: all of them, or with `causal` those with
 *  j <= i + kv_len - q_len (bottom-right alignment, for every pair of lengths): the last query sees the last key.
 *  With `lengths` that holds for each sequence by itself: i and j count from its own first row and first key behind
 *  the padding, q_len is its number of rows (q_lens, or what cu_seqlens_q gives it), and kv_len that of
 *  its keys (kv_lens, or what cu_seqlens_k gives it, without the padding), with those that kv_starts says are gone.
 *  A query that sees no key gets o = 0 and lse = -inf. Keys not seen change no bit of a row, whatever they hold.
 *  Query head h reads kv head h / (q_heads / kv_heads).
 *
 *  NaN and Inf in visible data follow IEEE 754 and touch only the rows that see them;
 *  every NaN is stored as 0x7fc00000. */
typedef struct attn_params {
  size_t struct_size; /**< sizeof(attn_params), set by the initialiser */

  int64_t
      batch; /**< >= 0, and 0, as initialised, is nothing to do; batch * q_heads * q_len is at most 2^40 */
  int64_t q_heads;    /**< >= 1, a multiple of kv_heads */
  int64_t kv_heads;   /**< >= 1 */
  int64_t q_len;      /**< query rows per sequence, >= 0; with cu_seqlens_q, of all together */
  int64_t kv_len;     /**< keys per sequence, >= 0; with cu_seqlens_k, of all together */
  int64_t head_size;  /**< of q and k, 1 ... 1024 */
  int64_t value_size; /**< of v and o, 1 ... 1024; need not equal head_size */

  attn_input q; /**< (batch, q_heads, q_len, head_size) */
  attn_input k; /**< (batch, kv_heads, kv_len, head_size) */
  attn_input v; /**< (batch, kv_heads, kv_len, value_size) */
  /** (batch, q_heads, q_len, value_size). May be exactly q (same pointer and strides, value_size ==
   *  head_size); any other overlap with q, k or v is the caller's error and not detected. */
  attn_output o;
  attn_lse_output lse; /**< (batch, q_heads, q_len), optional */

  bool causal;    /**< default true */
  bool has_scale; /**< false: scale is 1/sqrt(head_size) */
  float scale;    /**< -1e38 ... 1e38, also 0 and negative */

  attn_dropout dropout; /**< default: none */

  bool has_num_threads; /**< false: attn_default_threads(), fewer where the work is small */
  int32_t num_threads;  /**< 1 ... 1024, the most threads to use */

  /** Scratch memory of at least attn_workspace_size() bytes, any alignment; not shared with a
   *  call that runs at the same time. NULL: taken from the context. */
  void *workspace;
  size_t workspace_size;

  attn_cancel_fn cancel; /**< optional */
  void *cancel_user;

  attn_lengths lengths; /**< default: every sequence has q_len rows and kv_len keys */
  attn_pages pages;     /**< default: none */

  /** Default ::ATTN_KEYS_IN_ROWS. Keys are interleaved in pages only, of a multiple of 16 slots, as every view of a cache has
   *  them, one without pages too; the row and
   *  dim strides of k are then not used. */
  attn_key_layout key_layout;
  int32_t reserved; /**< 0. For later versions: no field of theirs lies in what is padding today */
} attn_params;

#ifdef __cplusplus
static ATTN_INLINE_ attn_params attn_params_init_() {
  attn_params p = attn_params();
  p.struct_size = sizeof(p);
  p.causal = true;
  p.dropout.deterministic = true;
  return p;
}
#define ATTN_PARAMS_INIT attn_params_init_()
#else
#define ATTN_PARAMS_INIT                                                                           \
  {                                                                                                \
    .struct_size = sizeof(attn_params), .causal = true, .dropout = {.deterministic = true }        \
  }
#endif

/** Runs one attention problem, on OpenMP threads where that pays. Inside an active OpenMP parallel
 *  region, and in a child process forked after the library was loaded, it runs on the calling
 *  thread alone.
 *  The bits of a row do not depend on threads, batch, or how the queries are split into calls.
 *  @return ATTN_INVALID_ARGUMENT, ATTN_UNSUPPORTED, ATTN_OUT_OF_MEMORY or ATTN_CANCELLED. */
ATTN_API attn_status attn_forward(attn_context *context, const attn_params *params);

/** Bytes of workspace with which attn_forward() allocates nothing, for the instruction set in use now
 *  and this `num_threads`, wherever it is called. Of the arrays only lengths and page tables are looked at, and other lengths, also
 *  shorter ones, may need more: ask again when they change.
 *  @return also ATTN_OUT_OF_MEMORY: a ragged batch is cut in scratch memory of the default context. */
ATTN_API attn_status attn_workspace_size(const attn_params *params, size_t *bytes);

/* ---- the same, run by the caller's own threads ---------------------------------------------- */

/** One problem cut into tasks. attn_forward() is a plan whose tasks OpenMP runs.
 *
 *  A run is every task exactly once, in any order, by any number of threads at once, also more or fewer than the plan
 *  was cut for: the bits are the same, only the load is less even. Each of them needs a workspace of its own. When the
 *  last task has returned, the outputs are complete and the plan may be run again (with o in the
 *  place of q it would read its own output).
 *
 *  Tasks of a run may share intermediate results, and the last one to end joins them. So a task that runs twice in one
 *  run, or a next run that begins before the last task has returned, leaves the outputs undefined, also those
 *  of later runs, as does a run that was given up; until attn_plan_reset(), after which a run is as the first. */
typedef struct attn_plan attn_plan;

/** The plan copies `params`, not the arrays, which must stay until the last task has run.
 *  `num_threads` tells for how many runners to cut, not how many may run it; `workspace` and `cancel` are not used. */
ATTN_API attn_status attn_plan_create(const attn_params *params, attn_plan **plan);
/** NULL is fine. */
ATTN_API void attn_plan_destroy(attn_plan *plan);
/** Forgets a run that was given up, or in which a task ran twice. No task may be running. */
ATTN_API void attn_plan_reset(attn_plan *plan);

/** How many tasks there are: 0 when there is nothing to do. */
ATTN_API int64_t attn_plan_task_count(const attn_plan *plan);

/** Estimated cost of task i in fused multiply-adds, 0 out of range. Tasks are numbered so that `num_threads` runners
 *  that take them in this order end at about the same time: the last ones are cheap. */
ATTN_API double attn_plan_task_cost(const attn_plan *plan, int64_t i);

/** Bytes of scratch memory, of any alignment, that each runner needs. */
ATTN_API size_t attn_plan_workspace_size(const attn_plan *plan);

/** Runs task i, on the calling thread.
 *  @return ATTN_INVALID_ARGUMENT when i is out of range, or the workspace is NULL or smaller than
 *          attn_plan_workspace_size() says; the task has then not run, and may still be. */
ATTN_API attn_status attn_plan_run_task(attn_plan *plan, int64_t i, void *workspace,
                                        size_t workspace_size);

#ifdef __cplusplus
}
#endif
#endif
