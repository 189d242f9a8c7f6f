// The plain kernel, its mutants and the null kernels as one plug-in: variant, contract, table.
#include <fmt/format.h>

#include <string>

#include "impl/abi/kernel_table.h"
#include "impl/mutants/plain.h"

namespace attest {
namespace {

class MutantKernel {
 public:
  static constexpr const char* kName = "mutant";
  static constexpr const char* kVersion = "1";

  static tl::expected<MutantKernel, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {"variant"}); !ok) return tl::unexpected(ok.error());
    MutantKernel kernel;
    kernel.threads_ = options.threads;
    const auto variant = options.values.find("variant");
    if (variant == options.values.end()) return kernel;
    const Mutant* mutant = FindMutant(variant->second);
    if (mutant == nullptr) {
      return tl::unexpected(
          fmt::format("there is no mutant \"{}\"; attest list names them all", variant->second));
    }
    kernel.mutation_ = mutant->mutation;
    kernel.is_null_ = mutant->kind == MutantKind::kNull;
    return kernel;
  }

  // Every mutant promises what the correct kernel keeps.
  std::string Contract() const {
    return R"({
      "contract": "attest-1",
      "bits_invariant": ["hidden_values", "kv_len", "q_len", "batch", "heads", "layout",
                         "mask_form", "threads", "rerun"],
      "min_alignment": 1
    })";
  }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    if (is_null_) {
      NullAttention(call, mutation_);
    } else {
      PlainAttention(call, mutation_, threads_);
    }
    return {};
  }

 private:
  Mutation mutation_ = Mutation::kNone;
  bool is_null_ = false;
  int threads_ = 1;
};

}  // namespace

const attest_kernel_table* MutantKernelTable() {
  return KernelTable<MutantKernel>();
}

}  // namespace attest
