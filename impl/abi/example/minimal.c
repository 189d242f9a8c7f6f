/* clang-format off */ /* cc -std=c99 -O2 -shared -fPIC -I include minimal.c -o libminimal.so -lm */
#include <attest/kernel.h>
#include <math.h>
#include <stdio.h>
static const char kContract[] = "{\"contract\":\"attest-1\", \"dtypes\":[\"f32\"],\"lse\":\"none\","
  "\"layouts\":[\"bhsd\"], \"strides\":\"dense\", \"features\":[\"value_dim\", \"zero_sizes\"]}";
static const char* contract(void* kernel) { return (void)kernel, kContract; }
static attest_status create(const attest_create_info* i, void** k) { /* there are no ?key=value */
  if (i->num_options == 0) return (void)k, ATTEST_OK;
  snprintf(i->message, i->message_size, "option %s is unknown; it takes none", i->options->key);
  return ATTEST_INVALID_ARGUMENT;
}
static void destroy(void* kernel) { (void)kernel; }
/* YOUR KERNEL: out = softmax(scale * q k^T) v, dense f32 [batch, heads, len, dim] */
static attest_status forward(void* kernel, attest_call* call) {
  const DLTensor* t[ATTEST_ROLE_OUT + 1] = {NULL};
  for (uint32_t n = 0; n < call->num_arguments; ++n) { /* all but q, k, v and out are refused */
    const int r = call->arguments[n].role;
    if ((r < ATTEST_ROLE_Q || r > ATTEST_ROLE_V) && r != ATTEST_ROLE_OUT) return ATTEST_UNSUPPORTED;
    t[r] = call->arguments[n].tensor;
  }
  if (call->num_options != 1 || call->options->id != ATTEST_OPTION_SCALE) return ATTEST_UNSUPPORTED;
  const int64_t *qn = t[ATTEST_ROLE_Q]->shape, *vn = t[ATTEST_ROLE_V]->shape;
  const float *q = t[ATTEST_ROLE_Q]->data, *k = t[ATTEST_ROLE_K]->data, *v = t[ATTEST_ROLE_V]->data;
  float *out = t[ATTEST_ROLE_OUT]->data, scale = (float)call->options->value.f;
  for (int64_t row = 0, o = 0, d = qn[3], w = vn[3]; row < qn[0] * qn[1] * qn[2]; ++row, o += w) {
    float max = -INFINITY, sum = 0; /* online softmax: out and sum are relative to max */
    for (int64_t c = 0; c < w; ++c) out[o + c] = 0;
    for (int64_t j = row / qn[2] * vn[2], end = j + vn[2]; j < end; ++j) {
      float dot = 0, old = max;
      for (int64_t c = 0; c < d; ++c) dot += q[row * d + c] * k[j * d + c];
      max = fmaxf(old, scale * dot);
      const float keep = expf(old - max), add = expf(scale * dot - max);
      for (int64_t c = 0; c < w; ++c) out[o + c] = keep * out[o + c] + add * v[j * w + c];
      sum = keep * sum + add;
    }
    for (int64_t c = 0; c < w && vn[2] > 0; ++c) out[o + c] /= sum;
  }
  return (void)kernel, ATTEST_OK;
}
static const attest_kernel_table kTable = {.abi_version = ATTEST_ABI_VERSION,
  .struct_size = sizeof(attest_kernel_table), .name = "minimal", .version = "1",
  .create = create, .contract = contract, .forward = forward, .destroy = destroy};
const attest_kernel_table* attest_kernel(void) { return &kTable; }
