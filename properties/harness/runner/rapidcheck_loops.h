// The loops of rapidcheck_driver.h for cases of any type: to be included where they are made for one type, and
// nowhere else, for RapidCheck's headers cost seconds to compile.
#ifndef ATTEST_HARNESS_RUNNER_RAPIDCHECK_LOOPS_H_
#define ATTEST_HARNESS_RUNNER_RAPIDCHECK_LOOPS_H_

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "properties/harness/runner/rapidcheck_driver.h"

namespace attest::rapidcheck_loops {

using RcResult = rc::detail::CaseResult;

// RapidCheck reports to a listener; ours hears everything from the callbacks already.
class SilentListener : public rc::detail::TestListener {
 public:
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

// All five arguments, on purpose: the shorter forms read RC_PARAMS from the environment, print, and
// exit the process when it does not parse.
inline rc::detail::TestResult Check(const rc::detail::Property& property,
                                    const rc::detail::TestParams& params) {
  SilentListener listener;
  const std::unordered_map<std::string, rc::detail::Reproduce> no_replay;
  return rc::detail::checkProperty(property, rc::detail::TestMetadata{}, params, listener,
                                   no_replay);
}

// RapidCheck runs mapped generators lazily and once for each case. Given to toProperty() instead, a
// callable that picks its case would run again every time its shrinks are asked for.
template <typename T>
rc::detail::Property PropertyOf(rc::Gen<T> cases, std::function<RcResult(const T&)> test) {
  return rc::gen::map(std::move(cases), [test = std::move(test)](const T& c) {
    rc::detail::CaseDescription description;
    description.result = test(c);
    description.example = [] { return rc::detail::Example{}; };
    return description;
  });
}

inline RcResult::Type TypeOf(Answer answer) {
  switch (answer) {
    case Answer::kHolds:
      return RcResult::Type::Success;
    case Answer::kSaysNothing:
      return RcResult::Type::Discard;
    case Answer::kStop:
      break;
  }
  return RcResult::Type::Failure;
}

// SearchCases.
template <typename T>
SearchEnd Search(int64_t wanted, const std::function<T()>& draw,
                 const std::function<Answer(const T&)>& test) {
  if (wanted <= 0) return SearchEnd::kDone;
  rc::detail::TestParams params;
  // RapidCheck multiplies the number of cases by the discard ratio in an int.
  params.maxSuccess = static_cast<int>(std::min<int64_t>(wanted, 100'000'000));
  params.maxDiscardRatio = 10;
  params.disableShrinking = true;  // the caller knows first which signature to keep
  const rc::Gen<T> cases([&draw](const rc::Random&, int) { return rc::shrinkable::just(draw()); });
  bool is_stopped = false;  // RapidCheck asks for its counterexample once more at the end
  const auto once = [&](const T& c) {
    const Answer answer = is_stopped ? Answer::kStop : test(c);
    is_stopped = answer == Answer::kStop;
    return RcResult(TypeOf(answer), "");
  };
  const auto result = Check(PropertyOf<T>(cases, once), params);
  if (result.template is<rc::detail::SuccessResult>()) return SearchEnd::kDone;
  return result.template is<rc::detail::GaveUpResult>() ? SearchEnd::kGaveUp : SearchEnd::kStopped;
}

// ShrinkCase. `candidates` gives smaller cases, `same` tells equal ones; what is returned is the smallest case and
// the number of calls of `still_fails`.
template <typename T>
std::pair<T, int64_t> Shrink(const T& failing, const std::function<bool(const T&)>& still_fails,
                             int64_t budget, const std::function<bool()>& out_of_time,
                             const std::function<std::vector<T>(const T&)>& candidates,
                             const std::function<bool(const T&, const T&)>& same) {
  T smallest = failing;
  int64_t tries = 0;
  const std::function<RcResult(const T&)> test = [&](const T& c) {
    // The start, and what RapidCheck asks about once more at the end.
    if (same(c, smallest)) return RcResult(RcResult::Type::Failure, "");
    // A spent budget makes every further candidate hold, so that RapidCheck runs out of them at
    // once.
    if (tries >= budget || out_of_time()) return RcResult(RcResult::Type::Success, "");
    ++tries;
    if (!still_fails(c)) return RcResult(RcResult::Type::Success, "");
    smallest = c;
    return RcResult(RcResult::Type::Failure, "");
  };
  rc::detail::TestParams params;
  params.maxSuccess = 1;
  const rc::Gen<T> start([&](const rc::Random&, int) {
    return rc::shrinkable::shrinkRecur(
        T(failing), [&](const T& from) { return rc::seq::fromContainer(candidates(from)); });
  });
  Check(PropertyOf<T>(start, test), params);
  return {std::move(smallest), tries};
}

}  // namespace attest::rapidcheck_loops

#endif  // ATTEST_HARNESS_RUNNER_RAPIDCHECK_LOOPS_H_
