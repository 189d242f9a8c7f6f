/* The attest kernel interface: the one header a plug-in needs (C99, plus DLPack's dlpack.h).
 *
 * A plug-in is a shared library that exports one function, attest_kernel(), returning a table of
 * function pointers. attest loads it in a worker process of its own, so it may crash without harm.
 *
 *   attest check ./libmine.so            checks it
 *   attest check './libmine.so?tile=16'  the same, with a create option
 *   attest check ./libmine.so:flash      the same, with the variant "flash"
 *
 * See impl/abi/example/ for the smallest honest plug-in.
 */
#ifndef ATTEST_KERNEL_H_
#define ATTEST_KERNEL_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTEST_ABI_VERSION 1u

#if defined(__GNUC__)
#define ATTEST_EXPORT __attribute__((visibility("default")))
#else
#define ATTEST_EXPORT
#endif

typedef enum attest_status {
  ATTEST_OK = 0,
  ATTEST_UNSUPPORTED = 1,      /* this call is outside what the kernel offers; say why in message */
  ATTEST_INVALID_ARGUMENT = 2, /* the call itself is malformed */
  ATTEST_FAILED = 3            /* the kernel tried and could not */
} attest_status;

/* What a tensor of a call is. Append-only. In brackets: shape; f = the call's floating type, which is
 * that of OUT (with ATTEST_OPTION_FP8 q, k, v and past k and v are 8-bit, their scales 1 where not).
 * A kernel that meets a role it does not know must return ATTEST_UNSUPPORTED. */
typedef enum attest_role {
  ATTEST_ROLE_Q = 1,    /* f [batch, q_heads, q_len, head_dim]; of packed sequences see below */
  ATTEST_ROLE_K = 2,    /* f [batch, kv_heads, kv_len, head_dim] */
  ATTEST_ROLE_V = 3,    /* f [batch, kv_heads, kv_len, value_dim] */
  ATTEST_ROLE_MASK = 4, /* u8 0/1, rank 2 to 4, broadcast from the right to
                                    [batch, q_heads, q_len, kv_len]; extents full or 1 */
  ATTEST_ROLE_BIAS = 5, /* f (or f32, by feature bias_f32), the same shapes; added to the
                                    scaled scores; -inf hides */
  ATTEST_ROLE_KEY_LENGTHS = 6, /* i64 [batch]: keys at or beyond it are hidden */
  ATTEST_ROLE_QUERY_LENGTHS =
      7, /* i64 [batch]: rows at or beyond it are padding (padded_query_rows) */
  /* Packed sequences ("thd"): both are given, i64 [batch + 1], from 0. Then q and out are
   * [sum of query lengths, q_heads, dim], k and v [sum of key lengths, kv_heads, dim], lse
   * [q_heads, sum of query lengths]; item b has the rows cu[b] to cu[b + 1]. Such calls have no mask,
   * bias, documents, block mask or dropout, and ask for no weights or scores. */
  ATTEST_ROLE_CU_KEY_LENGTHS = 8,
  ATTEST_ROLE_CU_QUERY_LENGTHS = 9,
  ATTEST_ROLE_DIAGONAL_OFFSET = 10, /* i64 [batch]: row i stands at key i + offset */
  ATTEST_ROLE_DOCUMENT_IDS = 11,    /* i64 [batch, q_len]: a row sees keys of its own number only */
  ATTEST_ROLE_PREFIX_LENGTHS = 12,  /* i64 [batch]: causality does not hide keys before it; of calls
                                        that are not causal it says nothing */
  ATTEST_ROLE_BLOCK_MASK = 13,      /* u8 0/1 [1 or batch, 1 or q_heads, ceil(q_len / BLOCK_Q),
                                        ceil(kv_len / BLOCK_K)]: 0 hides the tile */
  ATTEST_ROLE_SINKS = 14,        /* f32 (f64 in f64 calls) [q_heads]: one more score in each row's
                                        softmax, whose value is 0 */
  ATTEST_ROLE_ALIBI_SLOPES = 15, /* f32 (f64) [q_heads]: adds -slope * |i + offset - j| */
  ATTEST_ROLE_DROPOUT_MASK = 16, /* u8 0/1 [batch, q_heads, q_len, kv_len]: 1 keeps the weight,
                                        times 1 / (1 - DROPOUT), 0 drops it, after the softmax */
  ATTEST_ROLE_PAST_K = 17,     /* f [batch, kv_heads, past, head_dim]: keys before those of K, which
                                        then holds the others; kv_len is the sum. past may be 0 */
  ATTEST_ROLE_PAST_V = 18,     /* f [batch, kv_heads, past, value_dim] */
  ATTEST_ROLE_PAGE_TABLE = 19, /* i64 [batch, pages of an item]: then K is [pages, kv_heads,
                                        page_size, head_dim], V likewise, and key j of an item lies in
                                        page table[j / page_size], slot j % page_size. KEY_LENGTHS is
                                        always given, and kv_len is the largest of them, or more
                                        where a mask, bias or weights have more keys; entries
                                        behind an item's length are -1 */
  ATTEST_ROLE_Q_SCALE = 20,    /* f32 [1], of 8-bit q: its values are scale * (8-bit value) */
  ATTEST_ROLE_K_SCALE = 21,
  ATTEST_ROLE_V_SCALE = 22,
  ATTEST_ROLE_KEY_DOCUMENT_IDS = 23, /* i64 [batch, kv_len] */
  ATTEST_ROLE_RING_START = 24, /* i64 [batch]: key j lies in slot (start + j) % kv_len of K and V */
  /* outputs: written by the kernel, every element, never read */
  ATTEST_ROLE_OUT = 64,     /* f [batch, q_heads, q_len, value_dim] */
  ATTEST_ROLE_LSE = 65,     /* f32 (f64 in f64 calls) [batch, q_heads, q_len]: log of the sum
                               of exp of the visible scores, in the contract's base */
  ATTEST_ROLE_WEIGHTS = 66, /* f [batch, q_heads, q_len, kv_len]: softmax probabilities */
  ATTEST_ROLE_SCORES = 67,  /* f [batch, q_heads, q_len, kv_len], see ATTEST_OPTION_SCORES */
  ATTEST_ROLE_PRESENT_K =
      68, /* f [batch, kv_heads, kv_len, head_dim]: past and new keys together, or the new ones alone where no past is given */
  ATTEST_ROLE_PRESENT_V = 69, /* f [batch, kv_heads, kv_len, value_dim] */
  /* gradients, of backward calls alone; see "The backward pass" below */
  ATTEST_ROLE_DOUT = 96,   /* f, shaped as OUT: an input */
  ATTEST_ROLE_DQ = 97,     /* f, shaped as Q: outputs, these three */
  ATTEST_ROLE_DK = 98,     /* f, shaped as K */
  ATTEST_ROLE_DV = 99,     /* f, shaped as V */
  ATTEST_ROLE_DBIAS = 100, /* as BIAS, which is there and whose gradient "backward" offers: dbias */
  ATTEST_ROLE_DSINK = 101  /* as SINKS, likewise: dsink */
} attest_role;

/* A forward call's outputs are the roles from ATTEST_ROLE_OUT up to 95; a kernel reads the others. */

/* The backward pass
 *
 * It gives the gradients of L = sum of dout * out by q, k and v. A backward call follows a forward
 * call of the same instance and carries the same tensors and options; OUT and LSE (where the contract
 * has one) are now inputs and hold what that forward wrote. DOUT is an input, DQ, DK and DV are
 * outputs, all three always there. attest gives them all in one go: forward, then backward.
 *
 * Every element of DQ, DK and DV is written. A key gathers over the query heads of its kv head; a
 * key that no row sees gets exactly 0 in DK and DV, whatever it holds, and a row that sees no key
 * (or a sink alone), with empty_row zero, gets 0 in DQ and adds nothing. Rows past their query length
 * add nothing: DOUT is 0 there, whatever OUT and LSE hold; of their DQ nothing is said.
 * DBIAS gathers over every extent that broadcasts; a hidden pair adds nothing to it. An element that
 * belongs to padding alone is written, and of it nothing is said. DSINK gathers over batch and rows.
 * All are packed where OUT, Q, K and V are. Calls of paged, ring or past keys and of 8-bit inputs have
 * no backward, nor are there gradients of weights, scores or lse.
 * The contract's key "backward" lists the features that backward calls carry; without it there are
 * none. Its other promises (numerics, poison_safe, bits_invariant, ...) hold for both passes; what
 * multiplies k, q and dout on its way into dq, dk and dv is rounded as weights are (probability). */

typedef enum attest_option_id {
  ATTEST_OPTION_SCALE = 1,       /* f: multiplies q.k; always given */
  ATTEST_OPTION_CAUSAL = 2,      /* i: 1 = hide keys after the diagonal (contract: causal_offset) */
  ATTEST_OPTION_WINDOW_LEFT = 3, /* i: keys before the diagonal; absent = open (window_counts) */
  ATTEST_OPTION_WINDOW_RIGHT = 4, /* i: keys after the diagonal; absent = open */
  ATTEST_OPTION_SOFTCAP = 5,      /* f: s becomes softcap * tanh(s / softcap) (softcap_order) */
  ATTEST_OPTION_DROPOUT = 6,      /* f: the probability, with ATTEST_ROLE_DROPOUT_MASK */
  ATTEST_OPTION_BLOCK_Q = 7,      /* i: rows and keys of a tile of ATTEST_ROLE_BLOCK_MASK */
  ATTEST_OPTION_BLOCK_K = 8,
  ATTEST_OPTION_SCORES = 9, /* i: the scores output holds 0 scale * q.k, 1 that after the softcap,
                               2 after softcap, bias, ALiBi and hiding, 3 the weights */
  ATTEST_OPTION_FP8 = 10    /* i: q, k, v, past k and v are 8-bit unsigned, 1 = e4m3, 2 = e5m2 */
} attest_option_id;

/* One scalar option of a call. An unknown id must be answered ATTEST_UNSUPPORTED. */
typedef struct attest_option {
  int32_t id;
  int32_t is_float; /* 1: read value.f, 0: read value.i */
  union {
    int64_t i;
    double f;
  } value;
} attest_option;

/* One tensor of a call. Strides are in elements and always set; data is 16-byte aligned unless the
 * contract's min_alignment says less. DLPack types: f16 = {kDLFloat,16}, bf16 = {kDLBfloat,16}. */
typedef struct attest_argument {
  int32_t role;
  const DLTensor* tensor;
} attest_argument;

/* One attention call. Each role occurs at most once. */
typedef struct attest_call {
  uint32_t struct_size;
  uint32_t num_options;
  const attest_option* options;
  uint32_t num_arguments;
  const attest_argument* arguments;
  char* message;       /* the kernel's one-line reason for a status other than OK */
  size_t message_size; /* bytes at message, terminating zero included */
} attest_call;

typedef struct attest_string_pair {
  const char* key;
  const char* value;
} attest_string_pair;

typedef struct attest_create_info {
  uint32_t struct_size;
  /* Threads the kernel may use; 0 = its own choice. A kernel that cannot run with so many answers
   * ATTEST_UNSUPPORTED, or uses fewer. attest makes instances with 1, 2, 3 and 7 and compares them. */
  int32_t threads;
  uint32_t num_options;
  const attest_string_pair* options; /* "variant" for NAME:variant, then the ?key=value pairs */
  char* message;
  size_t message_size;
} attest_create_info;

typedef struct attest_kernel_table {
  uint32_t abi_version; /* ATTEST_ABI_VERSION */
  uint32_t struct_size; /* sizeof(attest_kernel_table) */
  const char* name;
  const char* version;
  /* Makes an instance in *kernel (which may stay NULL when there is no state). */
  attest_status (*create)(const attest_create_info* info, void** kernel);
  /* The contract of that instance as JSON text, valid until destroy; see "The contract" below. */
  const char* (*contract)(void* kernel);
  /* Computes a call. attest calls it from one thread at a time unless concurrent_calls is promised. */
  attest_status (*forward)(void* kernel, attest_call* call);
  attest_status (*backward)(void* kernel, attest_call* call); /* NULL without a "backward" */
  void (*destroy)(void* kernel);
  /* for kernels that own their cache; all may be NULL */
  attest_status (*cache_open)(void* kernel, attest_call* call, void** cache);
  attest_status (*cache_append)(void* kernel, void* cache, attest_call* call);
  attest_status (*cache_attend)(void* kernel, void* cache, attest_call* call);
  void (*cache_close)(void* kernel, void* cache);
} attest_kernel_table;

/* The contract
 *
 * A JSON object: what the kernel promises. A key that is left out promises nothing, and what is not
 * promised is neither asked for nor held against the kernel; only "dtypes" must be there. "contract"
 * names a published contract to start from (`attest list contracts`); other keys replace its values.
 * What a key says of a feature that is not offered says nothing.
 * "attest-1" promises everything, so a kernel that starts from it lists what it does otherwise:
 *
 *   {"contract": "attest-1", "dtypes": ["f32"], "features": ["causal", "gqa"], "lse": "none"}
 *
 * dtypes                  f32 f64 f16 bf16: of q, k, v, bias, out and weights
 * features                causal window key_lengths mask bias mask_with_bias (both at once) gqa
 *                         value_dim (other than head_dim) zero_sizes weights mask_broadcast (extents
 *                         of 1 for batch, heads, queries) mask_key_broadcast (and keys)
 *                         mask_ranks (2 and 3 beside 4) bias_f32 (beside 16-bit inputs)
 *                         query_lengths prefix_lengths documents block_mask softcap alibi sinks
 *                         dropout (with the mask given) past present (past and new keys as outputs)
 *                         pages ring packed
 * backward                features that backward calls carry, a list of those offered: causal window
 *                         key_lengths query_lengths mask bias mask_with_bias gqa value_dim zero_sizes
 *                         mask_broadcast mask_key_broadcast mask_ranks bias_f32 prefix_lengths
 *                         documents block_mask softcap alibi sinks dropout packed; and dbias dsink:
 *                         these gradients are given, too. [] = plain calls alone.
 *                         Left out (so in attest-1, too): no backward pass
 * fp8                     formats of q, k and v beside dtypes: a list of e4m3, e5m2
 * scores                  scores outputs, a list of raw, capped, biased, weights. A kernel that lists
 *                         features of its own offers of these two what it lists, too
 * mask_true_means         attend | hide
 * causal_offset           which diagonals the causal flag and the window can have, a list of: zero
 *                         (top left), kv_len_minus_q_len (bottom right), key_length_minus_q_len,
 *                         by_inputs (the last where lengths are given, else past, else zero), explicit. One
 *                         rule other than explicit: the kernel applies it by itself (packed: by the item's
 *                         lengths). Else causal, windowed, ALiBi calls carry ATTEST_ROLE_DIAGONAL_OFFSET.
 * causal                  optional | always: every call carries ATTEST_OPTION_CAUSAL
 * window_counts           keys_beside_diagonal (W to the left are W + 1 keys) | keys_with_diagonal
 * window_sides            both | left (never ATTEST_OPTION_WINDOW_RIGHT: causality is all that hides
 *                         keys after the diagonal) | left_if_causal (and causal calls alone have windows)
 * excludes                offered features that no call has together, a list of: causal_with_mask,
 *                         causal_with_bias (cases that have both come as one mask),
 *                         past_without_present (a call with a past asks for the present),
 *                         present_without_past (the present is asked for beside a past alone), empty_past
 *                         (past tensors have keys; else a first call may bring some of extent 0),
 *                         fewer_keys_than_queries (no batch item has fewer keys, the past among them,
 *                         than it has queries), zero_scale, negative_scale (no call's
 *                         ATTEST_OPTION_SCALE is 0, or below it)
 * empty_row               out of a row that sees no key: zero | nan | mean_value | unmasked |
 *                         unspecified
 * padded_query_rows       what rows past their query length hold: zero | computed | unwritten |
 *                         unspecified
 * softcap_order           before_bias | after_bias
 * masking_value           what hides a score: "-inf", or a finite stand-in {"replace": x} or {"add": x},
 *                         which promises nothing where it might outweigh a visible score
 * lse, lse_empty_row      none | natural | base2;  -inf | +inf | nan | unspecified
 * poison_safe             where NaN and infinities in hidden K or V do no harm, a list of k:PLACE and
 *                         v:PLACE with PLACE length causal window mask bias document block page
 * visible_nan_propagates  true | false
 * bits_invariant          what leaves the bits of a row alone, a list of: hidden_values kv_len q_len
 *                         batch heads layout mask_form split threads rerun. threads: the count that
 *                         create was given; rerun: calls before and, with concurrent_calls, beside it
 * concurrent_calls        true | false: forward may be called from several threads at once on one
 *                         instance (attest-1 promises it; a call's tensors are its own)
 * layouts, strides        a list of bhsd, bshd;  dense | last_dim_contiguous | any
 * far_strides             true | false: strides that are not dense may put elements of one tensor 2^31 and more
 *                         elements apart (default true; DLPack's strides have 64 bits)
 * min_alignment           bytes, a power of two (default 16)
 * limits                  {max_batch, max_heads, max_q_len, max_kv_len, max_head_dim,
 *                         head_dim_multiple}
 * numerics                the arithmetic, which the error bound forgives and no more. Keys hold for every
 *                         element type, those under "f16": {...} for that type alone.
 *     accumulate          f32 | f64 | f16 | bf16: of products, softmax and sums (default f32; f64 for f64)
 *     scores              type a score is stored in before the softmax (default as accumulate)
 *     probability         type a weight is rounded to before it multiplies V (default: the element type)
 *     scale_placement     accumulator | storage (scale * q is rounded to the element type)
 *     output_rounding     nearest | truncate
 *     exp_ulp             error of exp in ulp of accumulate (4); exp(0) is 1
 *     flush_to_zero       results below the least normal may become zero (true; attest-1: false)
 *     truncating_accumulators   sums drop bits, as matrix units do (false)
 *     lse_of_rounded_weights    the lse sums weights rounded to probability (false)
 *     summation_block     keys are summed in blocks of so many, then the blocks; 0 = any order (0)
 * options                 create options and their values: {"tile": ["16", "64"]} */

/* The one symbol that a plug-in exports. Returns a table with static lifetime. */
ATTEST_EXPORT const attest_kernel_table* attest_kernel(void);

#ifdef __cplusplus
}
#endif

#endif /* ATTEST_KERNEL_H_ */
