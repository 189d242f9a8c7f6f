#include "properties/bench/surface.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"
#include "properties/property.h"

namespace attest {
namespace {

// A column: a feature, and whether a case has it.
struct FeatureColumn {
  std::string_view name;
  bool (*has)(const Case&);
};

bool AnyLayout(const Case& c, Layout layout) {
  const Layouts& l = c.layouts;
  return l.q == layout || l.k == layout || l.v == layout || l.out == layout;
}

bool IsBroadcast(const Case& c) {
  return c.problem.mask && c.problem.mask->shape != c.problem.WeightsShape();
}

const std::vector<FeatureColumn>& Columns() {
  using C = const Case&;
  static const std::vector<FeatureColumn> kColumns = {
      {"gqa", [](C c) { return c.problem.q_heads != c.problem.kv_heads; }},
      {"value_dim", [](C c) { return c.problem.value_dim != c.problem.head_dim; }},
      {"zero sizes",
       [](C c) {
         const Problem& p = c.problem;
         return std::min({p.batch, p.q_heads, p.q_len, p.kv_len, p.head_dim, p.value_dim}) == 0;
       }},
      {"causal", [](C c) { return c.problem.causal; }},
      {"diagonal offset",
       [](C c) { return c.problem.causal && !c.problem.diagonal_offset.empty(); }},
      {"window", [](C c) { return c.problem.window.active(); }},
      {"key lengths", [](C c) { return c.problem.key_lengths.has_value(); }},
      {"query lengths", [](C c) { return c.problem.query_lengths.has_value(); }},
      {"prefix", [](C c) { return c.problem.prefix_lengths.has_value(); }},
      {"documents", [](C c) { return c.problem.documents.has_value(); }},
      {"boolean mask", [](C c) { return c.problem.mask.has_value(); }},
      {"broadcast mask", IsBroadcast},
      {"additive mask", [](C c) { return c.problem.bias.has_value(); }},
      {"f32 bias", [](C c) { return c.problem.bias_dtype.has_value(); }},
      {"block mask", [](C c) { return c.problem.block_mask.has_value(); }},
      {"ALiBi", [](C c) { return c.problem.alibi_slopes.has_value(); }},
      {"softcap", [](C c) { return c.problem.softcap > 0; }},
      {"sinks", [](C c) { return c.problem.sinks.has_value(); }},
      {"dropout", [](C c) { return c.problem.dropout.has_value(); }},
      {"lse", [](C c) { return c.problem.want_lse; }},
      {"weights", [](C c) { return c.problem.want_weights; }},
      {"scores", [](C c) { return c.problem.want_scores.has_value(); }},
      {"gradients", [](C c) { return c.problem.want_gradients; }},
      {"past", [](C c) { return c.storage.past > 0; }},
      {"pages", [](C c) { return c.storage.page_size > 0; }},
      {"ring", [](C c) { return c.storage.ring; }},
      {"packed", [](C c) { return c.storage.packed; }},
      {"bshd", [](C c) { return AnyLayout(c, Layout::kBshd); }},
      {"gaps", [](C c) { return AnyLayout(c, Layout::kGapped); }},
      {"transposed", [](C c) { return AnyLayout(c, Layout::kTransposed); }},
      {"packed qkv", [](C c) { return AnyLayout(c, Layout::kPackedQkv); }},
      {"far heads", [](C c) { return AnyLayout(c, Layout::kFarHeads); }},
      {"far rows", [](C c) { return AnyLayout(c, Layout::kFarRows); }},
      {"stride 0", [](C c) { return AnyLayout(c, Layout::kSharedHead); }},
      {"f64", [](C c) { return c.problem.dtype == DType::kF64; }},
      {"f16", [](C c) { return c.problem.dtype == DType::kF16; }},
      {"bf16", [](C c) { return c.problem.dtype == DType::kBF16; }},
      {"fp8", [](C c) { return c.problem.fp8.has_value(); }},
  };
  return kColumns;
}

// How many of the drawn cases that a property takes have each feature, in the case or in one derived
// from it.
struct Exercise {
  int64_t applied = 0;
  std::vector<int64_t> with;  // by column
};

// Promises everything, so that no property is out of reach.
const Contract& WholeContract() {
  static const Contract kContract = *ParseContract(R"({"contract": "attest-1",
    "backward": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa", "value_dim", "zero_sizes",
                 "mask_broadcast", "mask_key_broadcast", "mask_ranks", "bias_f32", "query_lengths", "prefix_lengths",
                 "documents", "block_mask", "softcap", "alibi", "sinks", "dropout", "dbias", "dsink"]})");
  return kContract;
}

uint64_t SeedFor(const SurfaceOptions& options, const Property& property, int64_t number) {
  uint64_t seed = MixBits(options.seed);
  for (const char c : property.id) seed = MixIn(seed, static_cast<unsigned char>(c));
  return MixIn(seed, static_cast<uint64_t>(number));
}

Exercise Measure(const SurfaceOptions& options, const Property& property) {
  Exercise exercise;
  exercise.with.assign(Columns().size(), 0);
  const Contract& contract = WholeContract();
  if (!property.unsupported(contract).empty()) return exercise;
  for (int64_t number = 0; number < options.cases; ++number) {
    const Case c =
        DrawCase(SeedFor(options, property, number), static_cast<int>(number * 37 % 101), contract);
    const Derived derived = property.derive(c, contract);
    if (!derived.not_applicable.empty()) continue;
    ++exercise.applied;
    for (size_t i = 0; i < Columns().size(); ++i) {
      exercise.with[i] += std::ranges::any_of(derived.cases, Columns()[i].has) ? 1 : 0;
    }
  }
  return exercise;
}

// Of the cases of a property: none, some, at least a tenth, nearly all.
char Shade(int64_t part, int64_t whole) {
  if (part == 0) return '.';
  return 10 * part < whole ? 'o' : 10 * part < 9 * whole ? 'O' : '#';
}

void PrintHead(int64_t cases) {
  fmt::print(
      "Features (columns) that each property exercises, of {} drawn cases a property: . none, o "
      "fewer than a\ntenth of its cases, O more, # nine tenths and more. Behind the bar: the share "
      "of drawn cases that fit the claim.\n\n",
      cases);
  for (size_t i = 0; i < Columns().size(); ++i) {
    fmt::print("{:>2} {:16}{}", i + 1, Columns()[i].name, i % 5 == 4 ? "\n" : "");
  }
  fmt::print("\n\n{:58} ", "");
  for (size_t i = 0; i < Columns().size(); ++i) fmt::print("{}", (i + 1) % 10);
  fmt::print("\n");
}

}  // namespace

bool PrintSurface(const SurfaceOptions& options) {
  PrintHead(options.cases);
  std::vector<int64_t> properties_with(Columns().size(), 0);
  int64_t empty_rows = 0;
  for (const Property& property : AllProperties()) {
    const Exercise exercise = Measure(options, property);
    std::string line;
    bool any = false;
    for (size_t i = 0; i < Columns().size(); ++i) {
      line += Shade(exercise.with[i], exercise.applied);
      properties_with[i] += exercise.with[i] > 0 ? 1 : 0;
      any = any || exercise.with[i] > 0;
    }
    empty_rows += any ? 0 : 1;
    fmt::print("{:58} {} | {:3.0f} %\n", property.id, line,
               100.0 * static_cast<double>(exercise.applied) / static_cast<double>(options.cases));
  }
  fmt::print("\n{} properties, {} features; by how many properties each is exercised:\n",
             AllProperties().size(), Columns().size());
  for (size_t i = 0; i < Columns().size(); ++i) {
    fmt::print("{:>4} {:16}{}", properties_with[i], Columns()[i].name, i % 5 == 4 ? "\n" : "");
  }
  const int64_t empty_columns = std::ranges::count(properties_with, 0);
  fmt::print("\n{} empty rows, {} empty columns\n", empty_rows, empty_columns);
  return empty_rows == 0 && empty_columns == 0;
}

}  // namespace attest
