// What is to be seen of a failing case beside its verdict: the row at fault with what was due and how
// far off it may be, its weights, and a map of the errors. Made by running the case once more;
// `attest replay` prints the row, the report page shows all.
#ifndef ATTEST_HARNESS_REPORT_CASE_VIEW_H_
#define ATTEST_HARNESS_REPORT_CASE_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/visibility.h"
#include "properties/harness/judge/verdict.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

// One row of an output beside the reference: the lanes around the one that decided.
struct RowView {
  struct Lane {
    int64_t lane = 0;
    double expected = 0;
    double observed = 0;
    double error = 0;     // absolute; 0 where both are NaN
    double worst = 0;     // W: the error allowed
    double probable = 0;  // P
  };
  std::string output;
  Row row;
  std::string_view state;  // what the row's bounds are worth: "informative"
  int64_t marked_lane = 0;
  std::vector<Lane> lanes;
};

// The weights of the row, a number a key.
struct WeightsView {
  Row row;
  std::vector<bool> visible;
  std::vector<double> expected;
  std::vector<double> observed;  // empty where they cannot be had
  bool is_read_off = false;      // observed by running the case with V one-hot
};

// Error / bound of an output, rows by lanes; a part around the witness where it is large.
struct ErrorMap {
  std::string output;
  std::vector<Row> rows;
  int64_t first_lane = 0;
  std::vector<std::vector<double>> ratios;  // [rows][lanes]; NaN where nothing is due
  Row marked_row;
  int64_t marked_lane = 0;
  int64_t rows_in_all = 0;
  int64_t lanes_in_all = 0;
};

struct CaseView {
  RowView row;
  std::optional<WeightsView> weights;  // of cases of up to 64 keys
  ErrorMap map;
};

// Whether the lane at fault is within its bound: two calls may contradict each other with both near the reference, and
// one that was made behind or beside others may be right alone.
bool IsRightByItself(const RowView& view);

// Runs `c`, the case that the verdict's value is from, once or twice. nullopt where there is nothing
// to show: no witness that lies in it, or no values.
std::optional<CaseView> LookAt(const Case& c, const Verdict& verdict, const Contract& contract,
                               KernelSession& session);

// An error as a share of its bound: "0" where nothing is allowed and nothing is wrong.
std::string RatioText(double ratio);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_CASE_VIEW_H_
