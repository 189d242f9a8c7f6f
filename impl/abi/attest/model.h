/* The attest model interface: what a whole model needs to be checked (C99; a kernel needs kernel.h).
 *
 * A plug-in is a shared library that exports one function, attest_model(), returning a table of
 * function pointers. attest loads it in a worker process of its own, so it may crash without harm.
 *
 *   attest check-model ./libmine.so             checks it
 *   attest check-model './libmine.so?layers=2'  the same, with a create option
 *   attest check-model ./libmine.so:tied        the same, with the variant "tied"
 *
 * All arrays are dense, row-major and on the CPU. Tokens are i64, from 0 to vocab - 1, padding too:
 * its content is arbitrary. Logits are of the contract's dtype.
 */
#ifndef ATTEST_MODEL_H_
#define ATTEST_MODEL_H_

#include <attest/kernel.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTEST_MODEL_ABI_VERSION 1u

typedef enum attest_padding {
  ATTEST_PADDING_NONE = 0, /* every length is len */
  ATTEST_PADDING_RIGHT = 1,
  ATTEST_PADDING_LEFT = 2
} attest_padding;

/* Tokens of several sequences: item b has lengths[b] >= 1 of them, at the beginning of its row of `len`
 * (padding on the right) or at its end (on the left). */
typedef struct attest_tokens {
  int64_t batch;
  int64_t len;
  const int64_t* tokens;  /* [batch, len] */
  const int64_t* lengths; /* [batch] */
  int32_t padding;        /* attest_padding, one that the contract lists */
} attest_tokens;

/* The computation of logits[batch, len, vocab]: what the model says at each token of each sequence. Those
 * at padding may hold anything, but every element is to be written. */
typedef struct attest_logits_call {
  uint32_t struct_size;
  attest_tokens tokens;
  attest_tokens source; /* of an encoder_decoder; else all zero */
  const int64_t*
      first_position; /* [batch]: the position of an item's first token; NULL = 0. Given only
                                    where the contract offers it */
  void* logits;
  char* message; /* the model's one-line reason for a status other than ATTEST_OK */
  size_t message_size;
} attest_logits_call;

typedef struct attest_cache_info {
  uint32_t struct_size;
  int64_t batch;
  int64_t capacity;     /* tokens that an item will hold at most, padding counted */
  const char* kind;     /* one of the contract's caches: "contiguous" */
  attest_tokens source; /* of an encoder_decoder; else all zero */
  char* message;
  size_t message_size;
} attest_cache_info;

/* Documents to learn from, one behind the other, made into rows of inputs, targets and weights. The loss
 * is sum(weight * -log softmax(logits of the row's inputs)[target]). `rows` are more than are ever needed:
 * one for each token and each document. */
typedef struct attest_batch_call {
  uint32_t struct_size;
  int64_t num_documents;
  const int64_t* document_lengths; /* [num_documents], each at least 1 */
  const int64_t* documents;        /* [sum of document_lengths] */
  int64_t rows;
  int64_t len; /* of a row */
  int64_t*
      inputs; /* [rows, len]; all three hold zeros, so that only rows in use are to be written */
  int64_t* targets; /* [rows, len] */
  float* weights;   /* [rows, len]: 0 where a target is none */
  int64_t* rows_used;
  char* message;
  size_t message_size;
} attest_batch_call;

typedef struct attest_model_table {
  uint32_t abi_version; /* ATTEST_MODEL_ABI_VERSION */
  uint32_t struct_size; /* sizeof(attest_model_table) */
  const char* name;
  const char* version;
  /* Makes an instance in *model (which may stay NULL). The same options give the same weights. */
  attest_status (*create)(const attest_create_info* info, void** model);
  /* The contract of that instance as JSON text, valid until destroy; see "The contract" below. */
  const char* (*contract)(void* model);
  attest_status (*logits)(void* model, const attest_logits_call* call);
  void (*destroy)(void* model);
  /* Generation with a cache; all but reorder and bytes are there, or none. Several caches may be open at
   * once. cache_step appends call->tokens to every item and gives the logits at them. Only the first
   * step of a cache may have padding; call->source is always zero, first_position NULL. */
  attest_status (*cache_open)(void* model, const attest_cache_info* info, void** cache);
  attest_status (*cache_step)(void* model, void* cache, const attest_logits_call* call);
  /* Item b goes on from what item parents[b] held, its source too: beams. Who is no one's parent is gone.
   * May be NULL. */
  attest_status (*cache_reorder)(void* model, void* cache, const int64_t* parents);
  /* Bytes that the cache uses for keys and values by now. May be NULL. */
  int64_t (*cache_bytes)(void* model, void* cache);
  void (*cache_close)(void* model, void* cache);
  /* May be NULL: what makes documents into rows to learn from. */
  attest_status (*batch)(void* model, const attest_batch_call* call);
} attest_model_table;

/* The contract
 *
 * A JSON object: what the model promises. An unknown key is an error. "contract", "kind", "vocab" and
 * "max_len" must be there; any other that is left out promises nothing.
 *
 *   {"contract": "attest-model-1", "kind": "decoder", "vocab": 16, "max_len": 32}
 *
 * contract         "attest-model-1"
 * kind             decoder (the logits at a token depend on it and those before it), encoder (on every
 *                  token of the sequence), encoder_decoder (a decoder that also sees all of a source)
 * vocab, max_len   how many tokens there are, and how many a sequence has at most, padding counted
 * max_source_len   of an encoder_decoder's source (default max_len)
 * dtype            of the logits: f32 (default) f64 f16 bf16
 * precision        the coarsest format that it computes in, or keeps its cache in, where that is not the dtype:
 *                  f16 for half-precision layers under f32 logits
 * padding          sides that sequences of different lengths may be padded on, a list of left, right.
 *                  Sources are padded on the same side
 * positions        none (an encoder without order) | absolute | relative (only distances matter);
 *                  default: nothing is said
 * first_position   true: calls may say where a sequence begins; it then reaches to max_len at most
 * reach            how many tokens the logits at one depend on, itself counted: those farther back are out of
 *                  its sight (layers * (window - 1) + 1). 0 = all (default)
 * caches           kinds of cache that it generates with, a list of contiguous, paged, ring
 * reorder          true: cache_reorder is there
 * cache_bytes      {"per_token": N, "page": P}: an item's cache uses N bytes for each of its tokens, a paged
 *                  one for whole pages of P tokens; a ring for "slots": S tokens at most
 * batcher          {"pad": T, "bos": T, "eos": T, "packs": true}: there is a batcher, and the tokens that it
 *                  adds, each where there is one; packs: a row may hold several documents.
 *                  "joins": true: documents make one stream, bos before and eos behind each, where there are such,
 *                  and the target of a token is the next one of the stream: behind the last mark of a document the
 *                  first token of the next one (as GPT-2 is trained). "drops_last": true: the tokens at the end
 *                  that do not fill a row are left out, fewer than a row has. "loses_edges": true: rows stand alone,
 *                  and the last token of each may have no target, so that the first of the next is learnt by none
 *                  (as where the model shifts within a row)
 * bits_invariant   what leaves the bits of logits alone, a list of: future (later tokens) padding (how much, on
 *                  which side) padding_content  batch (what shares it, and where) chunks (how the tokens
 *                  came to a cache) rerun (calls before it). What is not listed may round otherwise */

/* Returns the plug-in's table, which lives as long as the library is loaded. */
ATTEST_EXPORT const attest_model_table* attest_model(void);

#ifdef __cplusplus
}
#endif

#endif /* ATTEST_MODEL_H_ */
