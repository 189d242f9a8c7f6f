// What a pass of a model carries from layer to layer: the configuration, who computes attention,
// the cache if there is one, and whether training drops something out.
#ifndef ATTEST_TRANSFORMER_PASS_H_
#define ATTEST_TRANSFORMER_PASS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "impl/transformer/attention.h"
#include "impl/transformer/cache.h"
#include "impl/transformer/config.h"
#include "impl/transformer/tokens.h"

namespace attest::transformer {

// Computes a task's output; the error is one line. KernelAttention::Run is one.
template <typename T>
using Attend = std::function<tl::expected<void, std::string>(const AttentionTask<T>&, Matrix<T>&)>;

// OnlineAttention, which never fails.
template <typename T>
Attend<T> PlainAttend() {
  return [](const AttentionTask<T>& task, Matrix<T>& out) -> tl::expected<void, std::string> {
    OnlineAttention(task, out);
    return {};
  };
}

// Gradients of a task by that of its output; the error is one line. KernelAttention::Backward is one.
template <typename T>
using AttendBackward = std::function<tl::expected<AttentionGradients<T>, std::string>(
    const AttentionTask<T>&, const Matrix<T>& dout)>;

template <typename T>
AttendBackward<T> PlainAttendBackward() {
  return [](const AttentionTask<T>& task,
            const Matrix<T>& dout) -> tl::expected<AttentionGradients<T>, std::string> {
    return AttentionBackward(task, dout);
  };
}

template <typename T>
struct Pass {
  const Config& config;
  Attend<T> attend;
  Cache<T>* cache = nullptr;                  // Begin has been called
  bool in_step = false;                       // the cache held something before
  std::optional<uint64_t> dropout_seed = {};  // of a pass that trains
  std::optional<std::string> error = {};      // the first one of attend or attend_backward
  AttendBackward<T> attend_backward = PlainAttendBackward<T>();

  // Whether a fault that lives in steps alone shows in this pass.
  bool StepFault(Fault fault) const { return in_step && config.fault == fault; }
};

// Between which tokens a layer attends.
struct Sight {
  const Places& queries;
  const Places& keys;
  std::vector<int64_t> query_positions, key_positions;  // of every row
  bool causal = false;
  bool cross = false;  // keys are tokens of another sequence
};

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_PASS_H_
