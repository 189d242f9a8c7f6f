// The seeded faults of the detection table, and what the feasibility study that the oracle was built
// from found of each, to be read beside the figures measured here.
#ifndef ATTEST_BENCH_FAULT_TABLE_H_
#define ATTEST_BENCH_FAULT_TABLE_H_

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "properties/bench/emulated_kernel.h"

namespace attest {

// Fractions of cases found in f32, f16 and bf16; kNotMeasured where the study gives none.
constexpr double kNotMeasured = -1;
struct StudyFigures {
  std::array<double, 3> worst;  // by W of out
  std::array<double, 3> any;    // by W, P, RMS or the LSE bound
};

struct FaultRow {
  std::string_view name;
  Fault fault;
  std::string_view variant;  // the correct kernel that the fault is seeded in
  // Where it is measured: 1000 keys of normal data; mixed problems; 16384 keys.
  std::optional<StudyFigures> normal, mixed, long_rows;
  bool half_only = false;  // has no meaning in f32 and f64
};

// "Feasibility study, 2026-11, section 5.3": 56 cases or so a cell for normal data, 95 to 574 for
// mixed problems (its mix is not exactly this one), 12 for long rows; 6 rows a case.
const std::vector<FaultRow>& FaultTable();

// The faults that single errors do not show and the sign-bias statistic does, with the dtypes.
struct BiasRow {
  std::string_view name;
  Fault fault;
  std::string_view variant;
  DType dtype;
};
const std::vector<BiasRow>& BiasTable();

}  // namespace attest

#endif  // ATTEST_BENCH_FAULT_TABLE_H_
