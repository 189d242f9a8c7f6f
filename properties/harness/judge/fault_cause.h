// The cause that a fault of the sandbox is in a verdict. Callers: whoever judges what a session answers.
#ifndef ATTEST_HARNESS_JUDGE_FAULT_CAUSE_H_
#define ATTEST_HARNESS_JUDGE_FAULT_CAUSE_H_

#include "properties/harness/judge/verdict.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

inline Cause CauseOfFault(FaultKind kind) {
  switch (kind) {
    case FaultKind::kReadFault:
      return Cause::kReadFault;
    case FaultKind::kWriteFault:
      return Cause::kWriteFault;
    case FaultKind::kInputChanged:
      return Cause::kInputChanged;
    case FaultKind::kStrayWrite:
      return Cause::kStrayWrite;
    case FaultKind::kUnwritten:
      return Cause::kUnwritten;
    case FaultKind::kCrash:
      return Cause::kCrash;
    case FaultKind::kExit:
      return Cause::kExit;
    case FaultKind::kHang:
      return Cause::kHang;
    case FaultKind::kMemoryLimit:
      return Cause::kMemoryLimit;
    case FaultKind::kFloatEnvironment:
      return Cause::kFloatEnvironment;
    case FaultKind::kProtocol:
      return Cause::kProtocol;
    case FaultKind::kLeftProcess:
      return Cause::kLeftProcess;
    case FaultKind::kLateWrite:
      return Cause::kLateWrite;
    case FaultKind::kLeak:
      return Cause::kLeak;
  }
  return Cause::kProtocol;
}

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_FAULT_CAUSE_H_
