#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include "graph.h"

#include <ggml-cpu.h>
#include <ggml.h>
#include <stdlib.h>
#include <string.h>

/* Of llama.rn's copy of ggml, whose names have a prefix. */
#define G(name) lm_ggml_##name

typedef struct lm_ggml_context Context;
typedef struct lm_ggml_tensor Tensor;

enum { kMaxTensors = 16 };

/* What a call holds beside the caller's memory. */
typedef struct {
  Context* context;
  void* blocks[kMaxTensors + 1];
  int count;
} Memory;

/* A block of exactly `bytes`, so that a sanitizer sees what lies beyond. */
static void* Allocate(Memory* memory, size_t bytes) {
  void* block = NULL;
  if (posix_memalign(&block, 64, bytes == 0 ? 1 : bytes) != 0) return NULL;
  memory->blocks[memory->count++] = block;
  return block;
}

static void Free(Memory* memory) {
  while (memory->count > 0) free(memory->blocks[--memory->count]);
  if (memory->context != NULL) G(free)(memory->context);
}

static Tensor* Wrap(Context* context, const attest_ggml_tensor* from) {
  static const enum lm_ggml_type kTypes[] = {LM_GGML_TYPE_F32, LM_GGML_TYPE_F16, LM_GGML_TYPE_BF16};
  if (from->data == NULL) return NULL;
  Tensor* tensor = G(new_tensor)(context, kTypes[from->type], 4, from->ne);
  memcpy(tensor->nb, from->nb, sizeof tensor->nb);
  tensor->data = from->data;
  return tensor;
}

static Tensor* Fused(Context* c, const attest_ggml_call* call) {
  Tensor* out = G(flash_attn_ext)(c, Wrap(c, &call->q), Wrap(c, &call->k), Wrap(c, &call->v),
                                  Wrap(c, &call->mask), call->scale, 0.0f, call->softcap);
  G(flash_attn_ext_set_prec)(out, LM_GGML_PREC_F32);
  G(flash_attn_ext_add_sinks)(out, Wrap(c, &call->sinks));
  return out;
}

/* cap * tanh(scale * s / cap). */
static Tensor* Capped(Context* c, Tensor* scores, float scale, float cap) {
  return G(scale)(c, G(tanh)(c, G(scale)(c, scores, scale / cap)), cap);
}

/* As llama.cpp composes attention where it does not use flash_attn_ext. */
static Tensor* Unfused(Context* c, const attest_ggml_call* call) {
  const int capped = call->softcap != 0.0f;
  Tensor* scores = G(mul_mat)(c, Wrap(c, &call->k), Wrap(c, &call->q));
  G(mul_mat_set_prec)(scores, LM_GGML_PREC_F32);
  if (capped) scores = Capped(c, scores, call->scale, call->softcap);
  Tensor* weights =
      G(soft_max_ext)(c, scores, Wrap(c, &call->mask), capped ? 1.0f : call->scale, 0.0f);
  G(soft_max_add_sinks)(weights, Wrap(c, &call->sinks));
  return G(mul_mat)(c, G(cont)(c, G(transpose)(c, Wrap(c, &call->v))), weights);
}

/* Gives every tensor memory that has none and is no view. */
static int Place(Memory* memory, Tensor* out, float* out_data) {
  out->data = out_data;
  for (Tensor* t = G(get_first_tensor)(memory->context); t != NULL;
       t = G(get_next_tensor)(memory->context, t)) {
    if (t->data != NULL || t->view_src != NULL) continue;
    if ((t->data = Allocate(memory, G(nbytes)(t))) == NULL) return 0;
  }
  return 1;
}

static const char* Compute(Memory* memory, const attest_ggml_call* call) {
  Tensor* out = call->unfused ? Unfused(memory->context, call) : Fused(memory->context, call);
  if (!Place(memory, out, call->out)) return "out of memory";
  struct lm_ggml_cgraph* graph = G(new_graph_custom)(memory->context, kMaxTensors, false);
  G(build_forward_expand)(graph, out);
  struct lm_ggml_cplan plan = G(graph_plan)(graph, call->threads, NULL);
  if ((plan.work_data = Allocate(memory, plan.work_size)) == NULL) return "out of memory";
  return G(graph_compute)(graph, &plan) == LM_GGML_STATUS_SUCCESS ? NULL : "graph_compute failed";
}

const char* attest_ggml_attend_1(const attest_ggml_call* call) {
  G(cpu_init)();
  const size_t size =
      kMaxTensors * G(tensor_overhead)() + G(graph_overhead_custom)(kMaxTensors, false);
  Memory memory = {NULL, {NULL}, 0};
  memory.context = G(init)((struct lm_ggml_init_params){size, NULL, /*no_alloc=*/true});
  const char* error = memory.context == NULL ? "out of memory" : Compute(&memory, call);
  Free(&memory);
  return error;
}
