#include "properties/harness/runner/rapidcheck_driver.h"

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/shrink.h"

namespace attest {
namespace {

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
rc::detail::TestResult Check(const rc::detail::Property& property,
                             const rc::detail::TestParams& params) {
  SilentListener listener;
  const std::unordered_map<std::string, rc::detail::Reproduce> no_replay;
  return rc::detail::checkProperty(property, rc::detail::TestMetadata{}, params, listener,
                                   no_replay);
}

// RapidCheck runs mapped generators lazily and once for each case. Given to toProperty() instead, a
// callable that picks its case would run again every time its shrinks are asked for.
rc::detail::Property PropertyOf(rc::Gen<Case> cases, std::function<RcResult(const Case&)> test) {
  return rc::gen::map(std::move(cases), [test = std::move(test)](const Case& c) {
    rc::detail::CaseDescription description;
    description.result = test(c);
    description.example = [] { return rc::detail::Example{}; };
    return description;
  });
}

rc::Shrinkable<Case> WithShrinks(Case c) {
  return rc::shrinkable::shrinkRecur(std::move(c), [](const Case& from) {
    return rc::seq::fromContainer(ShrinkCandidates(from));
  });
}

RcResult::Type TypeOf(Answer answer) {
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

}  // namespace

SearchEnd SearchCases(int64_t wanted, const std::function<Case()>& draw,
                      const std::function<Answer(const Case&)>& test) {
  if (wanted <= 0) return SearchEnd::kDone;
  rc::detail::TestParams params;
  // RapidCheck multiplies the number of cases by the discard ratio in an int.
  params.maxSuccess = static_cast<int>(std::min<int64_t>(wanted, 100'000'000));
  params.maxDiscardRatio = 10;
  params.disableShrinking = true;  // the caller knows first which signature to keep
  const rc::Gen<Case> cases(
      [&draw](const rc::Random&, int) { return rc::shrinkable::just(draw()); });
  bool is_stopped = false;  // RapidCheck asks for its counterexample once more at the end
  const auto once = [&](const Case& c) {
    const Answer answer = is_stopped ? Answer::kStop : test(c);
    is_stopped = answer == Answer::kStop;
    return RcResult(TypeOf(answer), "");
  };
  const auto result = Check(PropertyOf(cases, once), params);
  if (result.is<rc::detail::SuccessResult>()) return SearchEnd::kDone;
  return result.is<rc::detail::GaveUpResult>() ? SearchEnd::kGaveUp : SearchEnd::kStopped;
}

ShrunkCase ShrinkCase(const Case& failing, const std::function<bool(const Case&)>& still_fails,
                      int64_t budget, const std::function<bool()>& out_of_time) {
  ShrunkCase shrunk{failing, 0};
  const auto test = [&](const Case& c) {
    // The start, and what RapidCheck asks about once more at the end.
    if (SameCase(c, shrunk.smallest)) return RcResult(RcResult::Type::Failure, "");
    // A spent budget makes every further candidate hold, so that RapidCheck runs out of them at
    // once.
    if (shrunk.tries >= budget || out_of_time()) return RcResult(RcResult::Type::Success, "");
    ++shrunk.tries;
    if (!still_fails(c)) return RcResult(RcResult::Type::Success, "");
    shrunk.smallest = c;
    return RcResult(RcResult::Type::Failure, "");
  };
  rc::detail::TestParams params;
  params.maxSuccess = 1;
  const rc::Gen<Case> start([&](const rc::Random&, int) { return WithShrinks(failing); });
  Check(PropertyOf(start, test), params);
  return shrunk;
}

}  // namespace attest
