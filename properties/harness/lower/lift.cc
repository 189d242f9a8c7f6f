#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/lower/storage.h"

namespace attest {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

// Loads `count` values from every `stride`-th element of `source` on.
void LoadRow(DType dtype, const std::byte* source, int64_t stride, int64_t count, double* values) {
  const auto step = static_cast<size_t>(stride) * ByteSize(dtype);
  if (dtype == DType::kF32) {  // nearly all
    for (int64_t d = 0; d < count; ++d, source += step) {
      float value;
      std::memcpy(&value, source, sizeof value);
      values[d] = static_cast<double>(value);
    }
    return;
  }
  for (int64_t d = 0; d < count; ++d, source += step) values[d] = LoadElement(dtype, source);
}

// The elements of one output's storage, in row-major order of its shape padded to rank 4 on the
// right.
Array ReadOutput(const CallTensor& tensor, const std::vector<std::byte>& storage) {
  Shape4 shape{1, 1, 1, 1}, strides{0, 0, 0, 0};
  std::copy(tensor.shape.begin(), tensor.shape.end(), shape.begin());
  std::copy(tensor.strides.begin(), tensor.strides.end(), strides.begin());
  Array array(shape);
  const size_t size = ByteSize(tensor.dtype);
  double* row = array.values.data();
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t i = 0; i < shape[2] && shape[3] > 0; ++i, row += shape[3]) {
        const int64_t at = a * strides[0] + b * strides[1] + i * strides[2];
        LoadRow(tensor.dtype, storage.data() + static_cast<size_t>(at) * size, strides[3], shape[3],
                row);
      }
  return array;
}

// Which outcome array an output becomes.
Array* TargetOf(Outcome& outcome, int32_t role) {
  switch (role) {
    case ATTEST_ROLE_OUT:
      return &outcome.out;
    case ATTEST_ROLE_LSE:
      return &outcome.lse;
    case ATTEST_ROLE_WEIGHTS:
      return &outcome.weights;
    case ATTEST_ROLE_SCORES:
      return &outcome.scores;
    case ATTEST_ROLE_PRESENT_K:
      return &outcome.present_k;
    case ATTEST_ROLE_DQ:
      return &outcome.dq;
    case ATTEST_ROLE_DK:
      return &outcome.dk;
    case ATTEST_ROLE_DV:
      return &outcome.dv;
    case ATTEST_ROLE_DBIAS:
      return &outcome.dbias;
    case ATTEST_ROLE_DSINK:
      return &outcome.dsink;
    default:
      return &outcome.present_v;
  }
}

// What the kernel left as it was is no answer: 0 instead, so that equal outcomes are equal.
void ClearUnwritten(const CallTensor& tensor, Array& array) {
  for (size_t i = 0; i < tensor.may_stay_unwritten.size(); ++i) {
    if (tensor.may_stay_unwritten[i] != 0) array.values[i] = 0;
  }
}

// dbias and dsink in their own extents. That of another bias than the case's, which stands for what the
// contract lacks, is no gradient of the case.
void PlaceOtherGradients(const Problem& p, Outcome& outcome) {
  if (!outcome.dsink.empty()) outcome.dsink.shape = {1, p.q_heads, 1, 1};
  if (outcome.dbias.empty()) return;
  const auto elements = static_cast<int64_t>(outcome.dbias.values.size());
  if (p.bias && ElementCount(p.bias->shape) == elements) {
    outcome.dbias.shape = p.bias->shape;
  } else {
    outcome.dbias = {};
  }
}

void UnpackGradients(const Problem& p, Outcome& outcome) {
  outcome.dq = UnpackRows(outcome.dq, p.QShape(), *p.query_lengths);
  outcome.dk = UnpackRows(outcome.dk, p.KShape(), *p.key_lengths);
  outcome.dv = UnpackRows(outcome.dv, p.VShape(), *p.key_lengths);
}

void ReadOutputs(const Case& c, const Contract& contract, const Call& call,
                 const CallResult& result, Outcome& outcome) {
  size_t n = 0;
  for (const CallTensor& tensor : call.tensors) {
    if (!tensor.is_output) continue;
    Array& target = *TargetOf(outcome, tensor.role);
    target = ReadOutput(tensor, result.outputs[n++]);
    ClearUnwritten(tensor, target);
  }
  PlaceOtherGradients(c.problem, outcome);
  if (c.storage.packed && c.problem.want_gradients) UnpackGradients(c.problem, outcome);
  if (c.storage.packed) {
    outcome.out = UnpackOut(c.problem, outcome.out);
    if (outcome.lse.shape == Shape4{}) return;
    outcome.lse = UnpackLse(c.problem, outcome.lse);
  }
  if (contract.lse == LseKind::kBase2) {
    for (double& x : outcome.lse.values) x *= kLn2;
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
