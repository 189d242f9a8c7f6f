// The plain and the blocked kernel, their mutants and the null kernels as one plug-in: variant,
// contract, table.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "impl/abi/kernel_table.h"
#include "impl/mutants/backward.h"
#include "impl/mutants/blocked.h"
#include "impl/mutants/last_call.h"
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
    if (variant == options.values.end()) {
      kernel.has_backward_ = true;
      return kernel;
    }
    if (variant->second == "blocked") {
      kernel.home_ = MutantHome::kBlocked;
      return kernel;
    }
    const Mutant* mutant = FindMutant(variant->second);
    if (mutant == nullptr) {
      return tl::unexpected(
          fmt::format("there is no mutant \"{}\"; attest list names them all", variant->second));
    }
    kernel.mutation_ = mutant->mutation;
    kernel.home_ = mutant->home;
    kernel.has_backward_ = mutant->is_of_backward();
    if (HasState(mutant->mutation)) kernel.last_call_ = std::make_unique<LastCall>();
    return kernel;
  }

  // Every mutant promises what the correct kernels keep. A fault of the forward pass is looked for
  // there alone.
  std::string Contract() const {
    std::string contract = R"({
      "contract": "attest-1",
      "bits_invariant": ["hidden_values", "kv_len", "q_len", "batch", "heads", "layout",
                         "mask_form", "threads", "rerun"],
      "min_alignment": 1)";
    if (has_backward_) {
      contract += R"(,
      "backward": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa",
                   "value_dim", "zero_sizes", "mask_broadcast", "mask_key_broadcast", "mask_ranks",
                   "bias_f32", "query_lengths", "prefix_lengths", "documents", "block_mask",
                   "softcap", "alibi", "sinks", "dropout", "packed", "dbias", "dsink"])";
    }
    return contract + "}";
  }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    if (mutation_ == Mutation::kMaskBesideBiasRefused && call.mask && call.bias) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "a boolean mask beside an additive one"});
    }
    if (!last_call_) {
      Compute(call);
      return {};
    }
    if (mutation_ == Mutation::kFirstCallDiffers) {
      const bool is_first = last_call_->IsFirst(call);
      is_first ? BlockedAttention(call, Mutation::kNone, threads_) : Compute(call);
      return {};
    }
    CallView seen = call;
    last_call_->Replace(seen, mutation_);
    Compute(seen);
    return {};
  }

  tl::expected<void, CallError> Backward(const CallView& call) const {
    if (!has_backward_ || !call.lse) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "no backward pass, or not without lse"});
    }
    PlainBackward(call, mutation_, threads_, *backward_);
    return {};
  }

 private:
  void Compute(const CallView& call) const {
    switch (home_) {
      case MutantHome::kPlain:
        return PlainAttention(call, mutation_, threads_);
      case MutantHome::kBlocked:
        return BlockedAttention(call, mutation_, threads_);
      case MutantHome::kNull:
        return NullAttention(call, mutation_);
    }
  }

  Mutation mutation_ = Mutation::kNone;
  MutantHome home_ = MutantHome::kPlain;
  int threads_ = 1;
  bool has_backward_ = false;
  std::unique_ptr<BackwardState> backward_ = std::make_unique<BackwardState>();
  std::unique_ptr<LastCall> last_call_;  // where the mutation has state
};

}  // namespace

const attest_kernel_table* MutantKernelTable() {
  return KernelTable<MutantKernel>();
}

}  // namespace attest
