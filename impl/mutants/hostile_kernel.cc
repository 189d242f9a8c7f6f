// The plug-in `hostile`: the plain kernel's right attention, and one misdeed around it. Exceptions
// are let through, against the ABI: some misdeeds are just that.
#include <cstdio>

#include "impl/mutants/hostile.h"
#include "impl/mutants/plain.h"

namespace attest {
namespace {

struct Instance {
  Hostile hostile;
  void* plain = nullptr;
};

attest_status Create(const attest_create_info* info, void** kernel) {
  auto* instance = new Instance;
  *kernel = nullptr;
  if (const auto error = Hostile::Read(*info, &instance->hostile)) {
    std::snprintf(info->message, info->message_size, "%s", error->c_str());
    delete instance;
    return ATTEST_INVALID_ARGUMENT;
  }
  attest_create_info plain = *info;
  plain.num_options = 0;
  const attest_status status = MutantKernelTable()->create(&plain, &instance->plain);
  if (status == ATTEST_OK) *kernel = instance;
  return status;
}

const char* Contract(void* kernel) {
  return MutantKernelTable()->contract(static_cast<Instance*>(kernel)->plain);
}

attest_status Forward(void* kernel, attest_call* call) {
  auto& instance = *static_cast<Instance*>(kernel);
  return instance.hostile.Forward(
      *call, [&] { return MutantKernelTable()->forward(instance.plain, call); });
}

void Destroy(void* kernel) {
  auto* instance = static_cast<Instance*>(kernel);
  MutantKernelTable()->destroy(instance->plain);
  delete instance;
}

}  // namespace
}  // namespace attest

const attest_kernel_table* attest_kernel(void) {
  static attest_kernel_table table = *attest::MutantKernelTable();
  table.name = "hostile";
  table.create = attest::Create;
  table.contract = attest::Contract;
  table.forward = attest::Forward;
  table.destroy = attest::Destroy;
  return &table;
}
