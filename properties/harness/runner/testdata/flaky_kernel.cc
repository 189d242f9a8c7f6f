// A kernel for the tests of how failures that come and go are reported: the reference, which on
// every fifth call spoils the first element of out as its variant says: "value" makes it huge,
// "bits" changes its last bit.
#include <algorithm>
#include <string>
#include <string_view>

#include "impl/reference/plugin/reference_kernel.h"

namespace {

constexpr int kPeriod = 5;

struct Flaky {
  void* reference = nullptr;
  bool in_bits = false;
  int calls = 0;
};

attest_status Create(const attest_create_info* info, void** kernel) {
  auto* flaky = new Flaky;
  for (uint32_t i = 0; i < info->num_options; ++i) {
    flaky->in_bits |= std::string_view(info->options[i].value) == "bits";
  }
  attest_create_info plain = *info;
  plain.num_options = 0;
  *kernel = flaky;
  return attest::ReferenceKernelTable()->create(&plain, &flaky->reference);
}

const char* Contract(void* kernel) {
  return attest::ReferenceKernelTable()->contract(static_cast<Flaky*>(kernel)->reference);
}

void Spoil(const DLTensor& out, bool in_bits) {
  if (std::any_of(out.shape, out.shape + out.ndim, [](int64_t n) { return n == 0; })) return;
  auto* first = static_cast<unsigned char*>(out.data) + out.byte_offset;
  if (in_bits) {
    first[0] ^= 1;
  } else {
    first[out.dtype.bits / 8 - 1] = 0x7b;  // near the top of every type's exponent
  }
}

attest_status Forward(void* kernel, attest_call* call) {
  auto* flaky = static_cast<Flaky*>(kernel);
  const attest_status status = attest::ReferenceKernelTable()->forward(flaky->reference, call);
  if (status != ATTEST_OK || ++flaky->calls % kPeriod != 0) return status;
  for (uint32_t i = 0; i < call->num_arguments; ++i) {
    if (call->arguments[i].role == ATTEST_ROLE_OUT) {
      Spoil(*call->arguments[i].tensor, flaky->in_bits);
    }
  }
  return status;
}

void Destroy(void* kernel) {
  auto* flaky = static_cast<Flaky*>(kernel);
  attest::ReferenceKernelTable()->destroy(flaky->reference);
  delete flaky;
}

}  // namespace

const attest_kernel_table* attest_kernel(void) {
  static const attest_kernel_table table = [] {
    attest_kernel_table own = *attest::ReferenceKernelTable();
    own.name = "flaky";
    own.create = Create;
    own.contract = Contract;
    own.forward = Forward;
    own.destroy = Destroy;
    return own;
  }();
  return &table;
}
