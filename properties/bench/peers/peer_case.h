// What the re-created suites are made of: a problem, the distribution its data are drawn from, how
// the call is made, which outputs are looked at and by which rule. The suites (suites.h) fill it
// in, run.h runs it.
#ifndef ATTEST_BENCH_PEERS_PEER_CASE_H_
#define ATTEST_BENCH_PEERS_PEER_CASE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/abi/testing/direct_call.h"
#include "impl/attention/problem.h"
#include "properties/bench/peers/grid.h"
#include "properties/bench/peers/rules.h"
#include "properties/harness/case/random.h"

namespace attest {

enum class Values : uint8_t {
  kUnit,    // uniform in [0, 1): torch.rand, numpy.random.rand
  kSigned,  // uniform in [-1, 1)
  kNormal,  // torch.randn
};

struct PeerCase {
  Problem problem;
  DirectForm form;
  Rule rule;                   // of out
  std::optional<Rule> others;  // of all other outputs that are asked for; nullopt: not looked at
  Values values = Values::kNormal;  // of q, k, v and the bias
  uint64_t seed = 0;
  double query_factor = 1;     // multiplies q before it is rounded
  bool has_half_keys = false;  // k, v and bias hold values of f16 in an f32 problem
  // The keys before and from here in a call each, merged by their lse.
  std::optional<int64_t> merge_at = {};
  std::function<void(Inputs&)> edit = {};  // of the data drawn; empty: none
};

struct PeerSuite {
  std::string name;
  std::string published;       // how many cases the project itself has, in words
  int64_t points = 0;          // of the grids written here, before thinning
  int64_t values_missing = 0;  // values of an axis too dear for this bench
  std::vector<PeerCase> cases = {};
};

// One test function of a suite: axes, and what a point of them is.
struct PeerGroup {
  std::vector<Axis> axes;
  // Sizes and scalar options; nullopt where the suite skips the point.
  std::function<std::optional<Problem>(const Point&)> problem;
  // The rest, whose `problem` is filled in already; `draw` is for what the suite draws.
  std::function<void(const Point&, Draw& draw, PeerCase& peer_case)> finish;
  GridLimits limits;  // in multiply-adds, stored elements counted as some
};

// Thins the group's grid and appends its cases.
void AddGroup(const PeerGroup& group, PeerSuite& suite);

struct Sizes {
  int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, value_dim;
};
Problem ProblemOf(const Sizes& sizes, DType dtype);

// Row i of an item whose last query stands at its last key: kv_len - q_len for each item, or
// key length - query length where the problem has them.
void AlignBottomRight(Problem& problem);

// Planes of `shape` over [batch, q_heads, q_len, kv_len], extents of 1 broadcast. Each bit is 1
// with the given percentage.
BitPlane DrawPlane(const Shape4& shape, int64_t percent, Draw& draw);
// Lengths in least..most, one a batch item.
std::vector<int64_t> DrawLengths(int64_t batch, int64_t least, int64_t most, Draw& draw);
// A standard normal value; uniform in [first, last).
double DrawNormal(Draw& draw);
double DrawUniform(double first, double last, Draw& draw);
// One a query head, rounded to f32.
std::vector<double> PerHead(const Problem& problem, const std::function<double(int64_t)>& value);

// The case's data.
Inputs DrawInputs(const PeerCase& peer_case);

}  // namespace attest

#endif  // ATTEST_BENCH_PEERS_PEER_CASE_H_
