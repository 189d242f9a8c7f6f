// Shrink candidates that simplify data: families towards zeros and ones, tiny data written out and
// then rounded to small integers, overrides, seed and placement.
#include <algorithm>
#include <cmath>

#include "properties/harness/case/shrink_internal.h"
#include "properties/harness/case/tensor_shape.h"

namespace attest {
namespace {

// Written out, 64 numbers still fit on a screen.
constexpr int64_t kMaxWrittenOut = 64;

void OfferFamilies(const Case& c, std::vector<Case>& out) {
  Offer(c, out, [](Case& x) {
    x.recipe = Recipe{ScoreFamily::kZero, ValueFamily::kOnes, BiasFamily::kZero, x.recipe.seed,
                      ValueFamily::kOnes};
    x.literals.clear();
  });
  for (int n = 0; n < static_cast<int>(c.recipe.bias); ++n) {
    Offer(c, out, [&](Case& x) { x.recipe.bias = static_cast<BiasFamily>(n); });
  }
  for (int n = 0; n < static_cast<int>(c.recipe.scores); ++n) {
    Offer(c, out, [&](Case& x) { x.recipe.scores = static_cast<ScoreFamily>(n); });
  }
  for (int n = 0; n < static_cast<int>(c.recipe.values); ++n) {
    Offer(c, out, [&](Case& x) { x.recipe.values = static_cast<ValueFamily>(n); });
  }
  for (int n = 0; n < static_cast<int>(c.recipe.dout); ++n) {
    Offer(c, out, [&](Case& x) { x.recipe.dout = static_cast<ValueFamily>(n); });
  }
}

// Literals give way to the simplest family of their tensor.
void OfferLiteralsOff(const Case& c, std::vector<Case>& out) {
  for (const auto& [tensor, literal] : c.literals) {
    Offer(c, out, [&](Case& x) {
      x.literals.erase(tensor);
      if (tensor == DataTensor::kV) x.recipe.values = ValueFamily::kOnes;
      if (tensor == DataTensor::kDout) x.recipe.dout = ValueFamily::kOnes;
      if (tensor == DataTensor::kBias) x.recipe.bias = BiasFamily::kZero;
      if (tensor == DataTensor::kQ || tensor == DataTensor::kK) {
        x.recipe.scores = ScoreFamily::kZero;
      }
    });
  }
}

// What may change in a literal: all but the -inf that stands for a hidden bias.
bool IsFree(const Case& c, DataTensor tensor, size_t at) {
  return tensor != DataTensor::kBias || !c.problem.bias || c.problem.bias->bits[at] != 0;
}

template <typename Function>
void OfferMapped(const Case& c, DataTensor tensor, size_t first, size_t last,
                 std::vector<Case>& out, Function&& function) {
  Offer(c, out, [&](Case& x) {
    std::vector<double>& values = x.literals.at(tensor).values;
    for (size_t n = first; n < std::min(last, values.size()); ++n) {
      if (IsFree(c, tensor, n)) values[n] = function(values[n]);
    }
  });
}

double ToSmallInteger(double value) {
  return std::isnan(value) ? value : std::clamp(std::nearbyint(value), -3.0, 3.0) + 0.0;
}

double ToSign(double value) {
  return std::isnan(value) || value == 0 ? value : (value < 0 ? -1.0 : 1.0);
}

// Whole, halves, quarters, ... down to single elements where there are few of them.
void OfferSimplerLiteral(const Case& c, DataTensor tensor, std::vector<Case>& out) {
  const size_t size = c.literals.at(tensor).values.size();
  OfferMapped(c, tensor, 0, size, out, [](double) { return 1.0; });
  OfferMapped(c, tensor, 0, size, out, ToSign);
  OfferMapped(c, tensor, 0, size, out, ToSmallInteger);
  for (size_t chunk = size; chunk > 0; chunk = chunk == 1 ? 0 : (chunk + 1) / 2) {
    if (size / chunk > static_cast<size_t>(kMaxWrittenOut)) break;
    for (size_t first = 0; first < size; first += chunk) {
      OfferMapped(c, tensor, first, first + chunk, out, [](double) { return 0.0; });
    }
  }
  // Each element adds two more candidates; 24 keeps a case's candidates to a few hundred.
  if (size > 24) return;
  for (size_t n = 0; n < size; ++n) {
    OfferMapped(c, tensor, n, n + 1, out, [](double) { return 1.0; });
    OfferMapped(c, tensor, n, n + 1, out, ToSmallInteger);
  }
}

// The recipe's numbers written out, so that the steps above can work on them.
void OfferWrittenOut(const Case& c, std::vector<Case>& out) {
  if (DataElements(c.problem) > kMaxWrittenOut) return;
  Case written = c;
  Case plain = c;
  plain.overrides.clear();
  Inputs inputs = Materialise(plain);
  if (c.recipe.scores != ScoreFamily::kZero) {
    written.literals.emplace(DataTensor::kQ, std::move(inputs.q));
    written.literals.emplace(DataTensor::kK, std::move(inputs.k));
  }
  if (c.recipe.values != ValueFamily::kOnes) {
    written.literals.emplace(DataTensor::kV, std::move(inputs.v));
  }
  if (c.problem.bias && c.recipe.bias != BiasFamily::kZero) {
    written.literals.emplace(DataTensor::kBias, std::move(inputs.bias));
  }
  if (c.problem.want_gradients && c.recipe.dout != ValueFamily::kOnes) {
    written.literals.emplace(DataTensor::kDout, std::move(inputs.dout));
  }
  written.recipe = Recipe{};
  if (written.literals.size() > c.literals.size()) out.push_back(std::move(written));
}

void OfferOverrides(const Case& c, std::vector<Case>& out) {
  const auto size = static_cast<std::ptrdiff_t>(c.overrides.size());
  if (size > 1) {
    Offer(c, out, [&](Case& x) { x.overrides.resize(static_cast<size_t>(size / 2)); });
    Offer(c, out,
          [&](Case& x) { x.overrides.erase(x.overrides.begin(), x.overrides.begin() + size / 2); });
  }
  for (std::ptrdiff_t n = 0; n < std::min<std::ptrdiff_t>(size, 32); ++n) {
    Offer(c, out, [&](Case& x) { x.overrides.erase(x.overrides.begin() + n); });
    for (const double value : {0.0, 1.0}) {
      Offer(c, out, [&](Case& x) { x.overrides[static_cast<size_t>(n)].value = value; });
    }
  }
}

}  // namespace

void OfferSimplerData(const Case& c, std::vector<Case>& out) {
  OfferFamilies(c, out);
  OfferLiteralsOff(c, out);
  for (const auto& [tensor, literal] : c.literals) {
    if (!literal.values.empty()) OfferSimplerLiteral(c, tensor, out);
  }
  OfferWrittenOut(c, out);
  OfferOverrides(c, out);
  for (uint64_t seed = 0; seed < std::min<uint64_t>(c.recipe.seed, 4); ++seed) {
    Offer(c, out, [&](Case& x) { x.recipe.seed = seed; });
  }
  Offer(c, out, [](Case& x) { x.placement = Placement::kEnd; });
}

}  // namespace attest
