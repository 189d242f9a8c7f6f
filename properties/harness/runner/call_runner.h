// What runs the calls of a case where no worker session does: fuzz targets run kernels in their own
// process, whose coverage and speed they need. Everything else about a case is RunCase's.
#ifndef ATTEST_HARNESS_RUNNER_CALL_RUNNER_H_
#define ATTEST_HARNESS_RUNNER_CALL_RUNNER_H_

#include <optional>
#include <span>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/runner/run_case.h"

namespace attest {

class CallRunner {
 public:
  virtual ~CallRunner() = default;
  // Why calls cannot be run in this way; asked before anything is computed.
  virtual std::optional<Unable> WhyUnable(const CallSetting& setting) = 0;
  // One result a call, in order.
  virtual tl::expected<std::vector<CallResult>, Unable> Run(const CallSetting& setting,
                                                            std::span<const Call> calls) = 0;
  // Shown what every call of the case has computed, before it is judged.
  virtual void OnEvidence(const Evidence&) {}
};

// A session's worker. The session must outlive it.
class SessionRunner : public CallRunner {
 public:
  explicit SessionRunner(KernelSession& session) : session_(session) {}
  std::optional<Unable> WhyUnable(const CallSetting& setting) override;
  tl::expected<std::vector<CallResult>, Unable> Run(const CallSetting& setting,
                                                    std::span<const Call> calls) override;

 private:
  KernelSession& session_;
};

// As RunCase with a session.
CaseResult RunCase(const Property& property, const Case& c, const Contract& contract,
                   CallRunner& runner, const CauseFilter& wants_cause = {},
                   bool every_cause = false);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_CALL_RUNNER_H_
