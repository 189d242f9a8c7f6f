#include <cstring>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/lower/lower.h"

namespace attest {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

// The elements of one output's storage, in row-major order of its shape padded to rank 4 on the
// right.
Array ReadOutput(const CallTensor& tensor, const std::vector<std::byte>& storage,
                 const Shape4& shape) {
  Array array(shape);
  std::array<int64_t, 4> strides{0, 0, 0, 0};
  for (size_t axis = 0; axis < tensor.strides.size(); ++axis) strides[axis] = tensor.strides[axis];
  const size_t size = ByteSize(tensor.dtype);
  size_t flat = 0;
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t d = 0; d < shape[3]; ++d) {
          const int64_t at = a * strides[0] + b * strides[1] + i * strides[2] + d * strides[3];
          array.values[flat++] =
              LoadElement(tensor.dtype, storage.data() + static_cast<size_t>(at) * size);
        }
  return array;
}

void ReadOutputs(const Case& c, const Contract& contract, const Call& call,
                 const CallResult& result, Outcome& outcome) {
  const Problem& p = c.problem;
  size_t n = 0;
  for (const CallTensor& tensor : call.tensors) {
    if (!tensor.is_output) continue;
    const std::vector<std::byte>& storage = result.outputs[n++];
    if (tensor.role == ATTEST_ROLE_OUT) {
      outcome.out = ReadOutput(tensor, storage, p.OutShape());
    } else if (tensor.role == ATTEST_ROLE_WEIGHTS) {
      outcome.weights = ReadOutput(tensor, storage, p.WeightsShape());
    } else {
      outcome.lse = ReadOutput(tensor, storage, p.LseShape());
      if (contract.lse == LseKind::kBase2) {
        for (double& x : outcome.lse.values) x *= kLn2;
      }
    }
  }
}

std::string RefusalReason(const CallResult& result) {
  const char* how = result.status == CallStatus::kUnsupported       ? "answered UNSUPPORTED"
                    : result.status == CallStatus::kInvalidArgument ? "answered INVALID_ARGUMENT"
                                                                    : "answered FAILED";
  return result.message.empty() ? std::string(how) : fmt::format("{}: {}", how, result.message);
}

}  // namespace

Outcome Lift(const Case& c, const Contract& contract, const Lowered& lowered,
             const CallResult& result) {
  Outcome outcome;
  outcome.via_mask = lowered.via_mask;
  if (result.fault || result.status == CallStatus::kFault) {
    outcome.status = OutcomeStatus::kFault;
    outcome.fault =
        result.fault ? *result.fault : Fault{FaultKind::kProtocol, 0, {}, 0, "no result came back"};
    return outcome;
  }
  if (result.status != CallStatus::kOk) {
    // Lower only makes calls that the contract promises, so a refusal breaks a promise.
    outcome.status = OutcomeStatus::kRefused;
    outcome.reason = RefusalReason(result);
    return outcome;
  }
  outcome.status = OutcomeStatus::kComputed;
  ReadOutputs(c, contract, lowered.call, result, outcome);
  return outcome;
}

}  // namespace attest
