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

/* What a tensor of a call is. Append-only. In brackets: shape; f = the call's floating type.
 * A kernel that meets a role it does not know must return ATTEST_UNSUPPORTED. */
typedef enum attest_role {
  ATTEST_ROLE_Q = 1,             /* f [batch, q_heads, q_len, head_dim] */
  ATTEST_ROLE_K = 2,             /* f [batch, kv_heads, kv_len, head_dim] */
  ATTEST_ROLE_V = 3,             /* f [batch, kv_heads, kv_len, value_dim] */
  ATTEST_ROLE_MASK = 4,          /* u8 0/1, rank 2 to 4, broadcast from the right to
                                    [batch, q_heads, q_len, kv_len]; extents full or 1 */
  ATTEST_ROLE_BIAS = 5,          /* f, the same shapes; added to the scaled scores; -inf hides */
  ATTEST_ROLE_KEY_LENGTHS = 6,   /* i64 [batch]: keys at or beyond it are hidden */
  ATTEST_ROLE_QUERY_LENGTHS = 7, /* reserved from here on, unless a shape is given */
  ATTEST_ROLE_CU_KEY_LENGTHS = 8,
  ATTEST_ROLE_CU_QUERY_LENGTHS = 9,
  ATTEST_ROLE_DIAGONAL_OFFSET = 10, /* i64 [batch]: row i stands at key i + offset */
  ATTEST_ROLE_DOCUMENT_IDS = 11,
  ATTEST_ROLE_PREFIX_LENGTHS = 12,
  ATTEST_ROLE_BLOCK_MASK = 13,
  ATTEST_ROLE_SINKS = 14,
  ATTEST_ROLE_ALIBI_SLOPES = 15,
  ATTEST_ROLE_DROPOUT_MASK = 16,
  ATTEST_ROLE_PAST_K = 17,
  ATTEST_ROLE_PAST_V = 18,
  ATTEST_ROLE_PAGE_TABLE = 19,
  ATTEST_ROLE_Q_SCALE = 20,
  ATTEST_ROLE_K_SCALE = 21,
  ATTEST_ROLE_V_SCALE = 22,
  /* outputs: written by the kernel, every element, never read */
  ATTEST_ROLE_OUT = 64,     /* f [batch, q_heads, q_len, value_dim] */
  ATTEST_ROLE_LSE = 65,     /* f32 (f64 in f64 calls) [batch, q_heads, q_len]: log of the sum
                               of exp of the visible scores, in the contract's base */
  ATTEST_ROLE_WEIGHTS = 66, /* f [batch, q_heads, q_len, kv_len]: softmax probabilities */
  ATTEST_ROLE_SCORES = 67,
  ATTEST_ROLE_PRESENT_K = 68,
  ATTEST_ROLE_PRESENT_V = 69,
  /* gradients */
  ATTEST_ROLE_DOUT = 96,
  ATTEST_ROLE_DQ = 97,
  ATTEST_ROLE_DK = 98,
  ATTEST_ROLE_DV = 99,
  ATTEST_ROLE_DBIAS = 100,
  ATTEST_ROLE_DSINK = 101
} attest_role;

/* A kernel writes roles at or above ATTEST_ROLE_OUT up to 95, and reads the others. */

typedef enum attest_option_id {
  ATTEST_OPTION_SCALE = 1,       /* f: multiplies q.k; always given */
  ATTEST_OPTION_CAUSAL = 2,      /* i: 1 = hide keys after the diagonal (contract: causal_offset) */
  ATTEST_OPTION_WINDOW_LEFT = 3, /* i: keys before the diagonal; absent = open (window_counts) */
  ATTEST_OPTION_WINDOW_RIGHT = 4, /* i: keys after the diagonal; absent = open */
  ATTEST_OPTION_SOFTCAP = 5,      /* reserved from here on */
  ATTEST_OPTION_DROPOUT = 6
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
  int32_t threads; /* threads the kernel may use; 0 = its own choice */
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
  attest_status (*forward)(void* kernel, attest_call* call);
  attest_status (*backward)(void* kernel, attest_call* call); /* may be NULL */
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
 * "attest-1" promises everything, so a kernel that starts from it lists what it does otherwise:
 *
 *   {"contract": "attest-1", "dtypes": ["f32"], "features": ["causal", "gqa"], "lse": "none"}
 *
 * dtypes                  f32 f64 f16 bf16: of q, k, v, bias, out and weights
 * features                causal window key_lengths mask bias mask_with_bias (both at once) gqa
 *                         value_dim (other than head_dim) zero_sizes weights mask_broadcast (extents
 *                         of 1 for batch, heads, queries) mask_key_broadcast (and keys)
 *                         mask_ranks (2 and 3 beside 4)
 * mask_true_means         attend | hide
 * causal_offset           which diagonals the causal flag and the window can have, a list of: zero
 *                         (top left), kv_len_minus_q_len (bottom right), key_length_minus_q_len,
 *                         by_inputs (the last where lengths are given, else zero), explicit. One rule
 *                         alone other than explicit: the kernel applies it by itself. Otherwise each
 *                         causal or windowed call carries ATTEST_ROLE_DIAGONAL_OFFSET.
 * window_counts           keys_beside_diagonal (W to the left are W + 1 keys) | keys_with_diagonal
 * empty_row               out of a row that sees no key: zero | nan | mean_value | unmasked |
 *                         unspecified
 * lse, lse_empty_row      none | natural | base2;  -inf | +inf | nan | unspecified
 * poison_safe             where NaN and infinities in hidden K or V do no harm, a list of k:PLACE and
 *                         v:PLACE with PLACE length causal window mask bias
 * visible_nan_propagates  true | false
 * bits_invariant          what leaves the bits of a row alone, a list of: hidden_values kv_len q_len
 *                         batch heads layout mask_form split threads rerun
 * layouts, strides        a list of bhsd, bshd;  dense | last_dim_contiguous | any
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
 *     flush_to_zero       results below the least normal may become zero (true)
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
