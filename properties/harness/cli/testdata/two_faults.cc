// A kernel with two faults at once, for the tests of how a report keeps them apart: one of the zoo, named by `second`, in a
// kernel that is handed the call as `first` misunderstands it. Or one with a fault in its backward pass that `backward`
// names. Each may be left out. `ms`: each call takes so many milliseconds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "impl/abi/float_types.h"
#include "impl/abi/kernel_table.h"
#include "impl/mutants/backward.h"
#include "impl/mutants/blocked.h"
#include "impl/mutants/mutants.h"
#include "impl/mutants/plain.h"
#include "impl/mutants/row_scores.h"

namespace attest {
namespace {

struct Misunderstanding {
  std::string_view id;
  void (*make)(CallView& call);
};

constexpr Misunderstanding kMisunderstandings[] = {
    {"none", [](CallView&) {}},
    {"causal-ignored", [](CallView& call) { call.causal = false; }},
    {"window-ignored", [](CallView& call) { call.window_left = call.window_right = std::nullopt; }},
    {"lengths-ignored",
     [](CallView& call) {
       if (!call.is_packed() && !call.is_paged()) call.key_lengths.reset();
     }},
    {"mask-ignored", [](CallView& call) { call.mask.reset(); }},
    {"bias-ignored", [](CallView& call) { call.bias.reset(); }},
    {"softcap-ignored", [](CallView& call) { call.softcap = 0; }},
    {"sinks-ignored", [](CallView& call) { call.sinks.reset(); }},
    {"alibi-ignored", [](CallView& call) { call.alibi_slopes.reset(); }},
    {"dropout-ignored", [](CallView& call) { call.dropout.reset(); }},
};

// Writes zeros to the last `lanes` lanes of what a forward call has given.
void ZeroLastLanes(const CallView& call, const TensorView& view, int64_t lanes) {
  WithFloatType(call.dtype, [&](auto zero) {
    ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
      for (int64_t c = std::max<int64_t>(view.shape[3] - lanes, 0); c < view.shape[3]; ++c) {
        view.At<decltype(zero)>(b, h, i, c) = zero;
      }
    });
  });
}

// D misses the last lane, in a copy of out that the backward pass takes for it.
void BackwardWithShortDelta(const CallView& call, int threads, BackwardState& state) {
  WithFloatType(call.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape4& n = call.out.shape;
    std::vector<T> copy(static_cast<size_t>(n[0] * n[1] * n[2] * n[3]));
    CallView seen = call;
    seen.out = {copy.data(), n, {n[1] * n[2] * n[3], n[2] * n[3], n[3], 1}};
    ForEachStoredRow(call, [&](int64_t b, int64_t h, int64_t i, int64_t) {
      for (int64_t c = 0; c < n[3]; ++c) {
        seen.out.At<T>(b, h, i, c) = call.out.At<const T>(b, h, i, c);
      }
    });
    ZeroLastLanes(seen, seen.out, 1);
    PlainBackward(seen, Mutation::kNone, threads, state);
  });
}

void BackwardOverOut(const CallView& call, int threads, BackwardState& state) {
  PlainBackward(call, Mutation::kNone, threads, state);
  ZeroLastLanes(call, call.out, call.value_dim);
}

struct BackwardFault {
  std::string_view id;
  void (*backward)(const CallView& call, int threads, BackwardState& state);
};

constexpr BackwardFault kBackwardFaults[] = {{"short-delta", BackwardWithShortDelta},
                                             {"out-zeroed", BackwardOverOut}};

class TwoFaults {
 public:
  static constexpr const char* kName = "two_faults";
  static constexpr const char* kVersion = "1";

  static tl::expected<TwoFaults, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {"first", "second", "backward", "ms"}); !ok) {
      return tl::unexpected(ok.error());
    }
    TwoFaults kernel;
    kernel.threads_ = options.threads;
    if (const auto first = options.values.find("first"); first != options.values.end()) {
      kernel.first_ = std::ranges::find(kMisunderstandings, first->second, &Misunderstanding::id);
      if (kernel.first_ == std::end(kMisunderstandings)) {
        return tl::unexpected("there is no first fault " + first->second);
      }
    }
    if (const auto second = options.values.find("second"); second != options.values.end()) {
      kernel.second_ = FindMutant(second->second);
      if (kernel.second_ == nullptr) return tl::unexpected("there is no mutant " + second->second);
    }
    const auto milliseconds = PositiveOption(options, "ms", 0);
    if (!milliseconds) return tl::unexpected(milliseconds.error());
    kernel.milliseconds_ = *milliseconds;
    if (const auto fault = options.values.find("backward"); fault != options.values.end()) {
      kernel.backward_ = std::ranges::find(kBackwardFaults, fault->second, &BackwardFault::id);
      if (kernel.backward_ == std::end(kBackwardFaults)) {
        return tl::unexpected("there is no fault of the backward pass " + fault->second);
      }
    }
    return kernel;
  }

  std::string Contract() const {
    std::string contract = R"({"contract": "attest-1", "min_alignment": 1,
               "bits_invariant": ["hidden_values", "kv_len", "q_len", "batch", "heads", "layout",
                                  "mask_form", "threads", "rerun"])";
    if (backward_ != nullptr) {
      contract +=
          R"(, "backward": ["causal", "window", "key_lengths", "mask", "gqa", "value_dim"])";
    }
    return contract + "}";
  }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    CallView seen = call;
    first_->make(seen);
    const Mutation mutation = second_ == nullptr ? Mutation::kNone : second_->mutation;
    const bool is_blocked = second_ != nullptr && second_->home == MutantHome::kBlocked;
    is_blocked ? BlockedAttention(seen, mutation, threads_)
               : PlainAttention(seen, mutation, threads_);
    return {};
  }

  tl::expected<void, CallError> Backward(const CallView& call) const {
    if (backward_ == nullptr || !call.lse) {
      return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "no backward pass, or not without lse"});
    }
    backward_->backward(call, threads_, *state_);
    return {};
  }

 private:
  const Misunderstanding* first_ = kMisunderstandings;
  const Mutant* second_ = nullptr;
  const BackwardFault* backward_ = nullptr;
  std::unique_ptr<BackwardState> state_ = std::make_unique<BackwardState>();
  int threads_ = 1;
  int64_t milliseconds_ = 0;
};

}  // namespace
}  // namespace attest

const attest_kernel_table* attest_kernel(void) {
  return attest::KernelTable<attest::TwoFaults>();
}
