/* A small honest plug-in: f32 attention with causality (from the top left) and key lengths. It
 * looks at every role and option and refuses what it does not know; honesty asks for no more. cc
 * -std=c99 -O2 -shared -fPIC -I impl/abi example.c -o libexample.so -lm */
#include <attest/kernel.h>
#include <math.h>
#include <stdio.h>

/* Starts from attest's own conventions and lists the differences. */
static const char kContract[] =
    "{\"contract\": \"attest-1\", \"dtypes\": [\"f32\"], \"causal_offset\": [\"zero\"],"
    " \"features\": [\"causal\", \"key_lengths\", \"value_dim\", \"zero_sizes\"], \"lse\": "
    "\"none\","
    " \"poison_safe\": [\"k:length\", \"k:causal\", \"v:length\", \"v:causal\"],"
    " \"layouts\": [\"bhsd\"], \"strides\": \"dense\"}";

static attest_status refuse(attest_call* call, const char* what, int id) {
  snprintf(call->message, call->message_size, "%s %d is not offered", what, id);
  return ATTEST_UNSUPPORTED;
}
static float* at(const DLTensor* t, int64_t index) { /* a tensor without elements may be NULL */
  return t->data ? (float*)t->data + index : NULL;
}

/* softmax(scale * q K^T) V over the first `keys` keys, online: all sums are relative to max. */
static void attend(const float* q, const float* k, const float* v, float* out, int64_t keys,
                   int64_t dim, int64_t width, float scale) {
  float max = -INFINITY, sum = 0;
  for (int64_t c = 0; c < width; ++c) out[c] = 0;
  for (int64_t j = 0; j < keys; ++j) {
    float dot = 0, old = max;
    for (int64_t c = 0; c < dim; ++c) dot += q[c] * k[j * dim + c];
    max = fmaxf(old, scale * dot);
    const float keep = expf(old - max), add = expf(scale * dot - max);
    for (int64_t c = 0; c < width; ++c) out[c] = keep * out[c] + add * v[j * width + c];
    sum = keep * sum + add;
  }
  for (int64_t c = 0; c < width && keys > 0; ++c) out[c] /= sum;
}

static attest_status forward(void* kernel, attest_call* call) {
  const DLTensor* t[ATTEST_ROLE_OUT + 1] = {NULL}; /* by role; NULL = not given */
  for (uint32_t n = 0; n < call->num_arguments; ++n) {
    const int role = call->arguments[n].role;
    const int known = role >= ATTEST_ROLE_Q && role <= ATTEST_ROLE_V;
    if (!known && role != ATTEST_ROLE_KEY_LENGTHS && role != ATTEST_ROLE_OUT)
      return refuse(call, "tensor role", role);
    t[role] = call->arguments[n].tensor;
  }
  float scale = 1;
  int64_t causal = 0;
  for (uint32_t n = 0; n < call->num_options; ++n) {
    const attest_option o = call->options[n];
    if (o.id == ATTEST_OPTION_SCALE) scale = (float)o.value.f;
    if (o.id == ATTEST_OPTION_CAUSAL) causal = o.value.i;
    if (o.id > ATTEST_OPTION_CAUSAL || o.id < 1) return refuse(call, "option", o.id);
  }
  const int64_t *q = t[ATTEST_ROLE_Q]->shape, *v = t[ATTEST_ROLE_V]->shape; /* batch head len dim */
  const int64_t* lengths = t[ATTEST_ROLE_KEY_LENGTHS] ? t[ATTEST_ROLE_KEY_LENGTHS]->data : NULL;
  for (int64_t row = 0; row < q[0] * q[1] * q[2]; ++row) {
    const int64_t head = row / q[2], i = row % q[2];
    int64_t keys = lengths ? lengths[head / q[1]] : v[2];
    if (causal && keys > i + 1) keys = i + 1;
    attend(at(t[ATTEST_ROLE_Q], row * q[3]), at(t[ATTEST_ROLE_K], head * v[2] * q[3]),
           at(t[ATTEST_ROLE_V], head * v[2] * v[3]), at(t[ATTEST_ROLE_OUT], row * v[3]), keys, q[3],
           v[3], scale);
  }
  return (void)kernel, ATTEST_OK;
}

/* clang-format off */
static attest_status create(const attest_create_info* info, void** kernel) { /* there is no state */
  if (info->num_options == 0) return (void)kernel, ATTEST_OK;
  snprintf(info->message, info->message_size, "option %s is unknown; it takes none",
           info->options->key);
  return ATTEST_INVALID_ARGUMENT;
}
static const char* contract(void* kernel) { return (void)kernel, kContract; }
static void destroy(void* kernel) { (void)kernel; }
static const attest_kernel_table kTable = {.abi_version = ATTEST_ABI_VERSION,
  .struct_size = sizeof(attest_kernel_table), .name = "example", .version = "1",
  .create = create, .contract = contract, .forward = forward, .destroy = destroy};
const attest_kernel_table* attest_kernel(void) { return &kTable; }
