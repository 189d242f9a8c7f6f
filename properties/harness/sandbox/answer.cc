#include "properties/harness/sandbox/answer.h"

#include <optional>
#include <utility>

#include <attest/kernel.h>
#include <fmt/format.h>

#include "properties/harness/sandbox/fault_words.h"
#include "properties/harness/sandbox/inspect.h"

namespace attest {
namespace {

std::optional<CallStatus> StatusOf(int status) {
  switch (status) {
    case ATTEST_OK:
      return CallStatus::kOk;
    case ATTEST_UNSUPPORTED:
      return CallStatus::kUnsupported;
    case ATTEST_INVALID_ARGUMENT:
      return CallStatus::kInvalidArgument;
    case ATTEST_FAILED:
      return CallStatus::kFailed;
    default:
      return std::nullopt;
  }
}

}  // namespace

CallResult Faulty(Fault fault) {
  CallResult result;
  result.fault = std::move(fault);
  return result;
}

Fault ProtocolFault(std::string detail) {
  return {FaultKind::kProtocol, 0, {}, 0, std::move(detail)};
}

CallResult Judge(const Arena& arena, const PlacedCall& placed, const CallReply& reply) {
  if (reply.out_of_memory)
    return Faulty({FaultKind::kMemoryLimit,
                   0,
                   {},
                   0,
                   "an allocation failed: " + reply.thrown + " came out of the kernel"});
  if (!reply.thrown.empty())
    return Faulty(
        {FaultKind::kCrash, 0, {}, 0, "threw an exception through the C ABI: " + reply.thrown});
  const auto status = StatusOf(reply.status);
  if (!status)
    return Faulty(ProtocolFault(fmt::format("returned the unknown status {}", reply.status)));
  CallResult result;
  result.status = *status;
  result.message = reply.message;
  result.fault = FindChangedInput(arena, placed);
  if (!result.fault && reply.changed_role != 0) {
    const auto role = static_cast<int32_t>(reply.changed_role);
    result.fault = Fault{FaultKind::kInputChanged,
                         role,
                         {},
                         0,
                         fmt::format("changed {}, an input of its backward pass", RoleName(role))};
  }
  if (!result.fault) result.fault = FindStrayWrite(arena, placed);
  if (!result.fault && !reply.float_environment.empty())
    result.fault = Fault{FaultKind::kFloatEnvironment,
                         0,
                         {},
                         0,
                         "changed the floating-point environment: " + reply.float_environment};
  if (!result.fault && reply.left_processes > 0)
    result.fault = Fault{FaultKind::kLeftProcess,
                         0,
                         {},
                         0,
                         fmt::format("left {} forked process{} running", reply.left_processes,
                                     reply.left_processes == 1 ? "" : "es")};
  if (*status == CallStatus::kOk) result.outputs = CopyOutputs(arena, placed);
  return result;
}

bool MayHarmOthers(const CallResult& result) {
  if (!result.fault) return false;
  const FaultKind kind = result.fault->kind;
  return kind == FaultKind::kInputChanged || kind == FaultKind::kLeftProcess ||
         kind == FaultKind::kLateWrite;
}

void Confirm(const Job& second, CallResult* result) {
  if (second.result.fault) {
    result->fault = second.result.fault;
    result->fault->detail += " (when run again)";
    if (second.result.status != CallStatus::kOk) {
      result->status = CallStatus::kFault;
      result->outputs.clear();
    }
  } else if (second.result.status == CallStatus::kOk) {
    result->fault = FindUnwritten(*second.call, result->outputs, kFirstFill, second.result.outputs,
                                  kSecondFill);
  } else {
    result->fault =
        Fault{FaultKind::kUnwritten,
              0,
              {},
              0,
              "left output elements unwritten and, when run again, did not return OK: " +
                  second.result.message};
  }
}

}  // namespace attest
