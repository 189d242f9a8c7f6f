// Inputs whose storage is misread: 8-bit values without their scale or in the other format, 16-bit values as those of
// the other type, lanes in another order.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "impl/attention/dtype.h"
#include "properties/harness/judge/explain/feature_changes.h"

namespace attest {
namespace {

using Change = std::function<void(Problem&, Inputs&)>;

void Add(std::string_view cause_class, std::string phrase, Change make, FeatureChanges& changes) {
  changes.push_back(
      {cause_class, std::move(phrase), [](const Problem&) { return true; },
       [make = std::move(make)](Problem& p, Inputs& inputs, Semantics&) { make(p, inputs); }});
}

// q, k and v, one or several of which are misread.
struct Tensors {
  std::string_view name;
  std::vector<Array Inputs::*> all;
};
const std::vector<Tensors>& Combinations() {
  static const std::vector<Tensors> kAll = {{"q", {&Inputs::q}},
                                            {"k", {&Inputs::k}},
                                            {"v", {&Inputs::v}},
                                            {"q and k", {&Inputs::q, &Inputs::k}},
                                            {"k and v", {&Inputs::k, &Inputs::v}},
                                            {"q, k and v", {&Inputs::q, &Inputs::k, &Inputs::v}}};
  return kAll;
}

double ScaleOf(const Fp8& fp8, Array Inputs::*tensor) {
  if (tensor == &Inputs::q) return fp8.q_scale;
  return tensor == &Inputs::k ? fp8.k_scale : fp8.v_scale;
}

// The values of a tensor times what its own scale makes of them.
void Rescale(const Tensors& tensors, double (*factor)(double), Problem& p, Inputs& inputs) {
  for (Array Inputs::*tensor : tensors.all) {
    for (double& x : (inputs.*tensor).values) x *= factor(ScaleOf(*p.fp8, tensor));
  }
}

}  // namespace

FeatureChanges MisreadScales(const Problem& p) {
  FeatureChanges changes;
  if (!p.fp8) return changes;
  constexpr std::string_view kClass = "fp8-scale-misread";
  const auto all_are_one = [&](const Tensors& tensors) {
    return std::ranges::all_of(tensors.all,
                               [&](Array Inputs::*tensor) { return ScaleOf(*p.fp8, tensor) == 1; });
  };
  for (const Tensors& tensors : Combinations()) {
    if (all_are_one(tensors)) continue;
    const bool is_one = tensors.all.size() == 1;
    Add(
        kClass,
        fmt::format("the scale{} of 8-bit {} were ignored", is_one ? "" : "s", tensors.name),
        [tensors](Problem& q, Inputs& inputs) {
          Rescale(
              tensors, [](double scale) { return 1 / scale; }, q, inputs);
        },
        changes);
    Add(
        kClass,
        fmt::format("the scale{} of 8-bit {} were applied twice", is_one ? "" : "s", tensors.name),
        [tensors](Problem& q, Inputs& inputs) {
          Rescale(
              tensors, [](double scale) { return scale; }, q, inputs);
        },
        changes);
    Add(
        kClass,
        fmt::format("8-bit {} were divided by {}", tensors.name,
                    is_one ? "its scale" : "their scales"),
        [tensors](Problem& q, Inputs& inputs) {
          Rescale(
              tensors, [](double scale) { return 1 / (scale * scale); }, q, inputs);
        },
        changes);
  }
  for (const auto& [name, from] : {std::pair{"q", &Inputs::q}, {"k", &Inputs::k}}) {
    const double factor = ScaleOf(*p.fp8, from) / p.fp8->v_scale;
    if (factor == 1) continue;
    Add(
        kClass, fmt::format("8-bit v had the scale of {}", name),
        [factor](Problem&, Inputs& inputs) {
          for (double& x : inputs.v.values) x *= factor;
        },
        changes);
  }
  return changes;
}

namespace {

// The value that the bits of `value`, stored as `from`, are as `to`.
double Reread(double value, DType from, DType to) {
  std::array<unsigned char, 8> bits{};
  StoreElement(from, bits.data(), value);
  return LoadElement(to, bits.data());
}

// The other type of as many bits; the same where there is none.
DType Twin(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return DType::kBF16;
    case DType::kBF16:
      return DType::kF16;
    case DType::kE4M3:
      return DType::kE5M2;
    case DType::kE5M2:
      return DType::kE4M3;
    default:
      return dtype;
  }
}

void RereadAll(Array& array, DType from, double scale) {
  for (double& x : array.values) x = scale * Reread(x / scale, from, Twin(from));
}

void AddTypes(const Problem& p, FeatureChanges& changes) {
  const DType own = p.InputDType();
  if (Twin(own) != own) {
    for (const Tensors& tensors : Combinations()) {
      Add(
          "type-misread",
          fmt::format("the bits of {} were read as {}", tensors.name, Name(Twin(own))),
          [tensors, own](Problem& q, Inputs& inputs) {
            for (Array Inputs::*tensor : tensors.all) {
              RereadAll(inputs.*tensor, own, q.fp8 ? ScaleOf(*q.fp8, tensor) : 1);
            }
          },
          changes);
    }
  }
  const DType bias = p.BiasDType();
  if (!p.bias || Twin(bias) == bias) return;
  Add(
      "type-misread",
      fmt::format("the bits of the additive mask were read as {}", Name(Twin(bias))),
      [bias](Problem&, Inputs& inputs) {
        for (double& x : inputs.bias.values) {
          if (std::isfinite(x)) x = Reread(x, bias, Twin(bias));
        }
      },
      changes);
}

// Orders of lanes that are known for being taken for one another: the lane at which lane `n` of `count` is found.
struct Order {
  std::string_view how;
  int64_t (*of)(int64_t n, int64_t count);
};
constexpr Order kOrders[] = {
    {"its even lanes before its odd ones",
     [](int64_t n, int64_t count) {
       const int64_t half = (count + 1) / 2;
       return n < half ? 2 * n : 2 * (n - half) + 1;
     }},
    {"its halves interleaved",
     [](int64_t n, int64_t count) { return n / 2 + (n % 2 == 0 ? 0 : (count + 1) / 2); }},
    {"its halves swapped",
     [](int64_t n, int64_t count) {
       const int64_t half = count / 2;
       return count % 2 == 0 ? (n + half) % count : n;
     }},
    {"its lanes swapped in pairs",
     [](int64_t n, int64_t count) { return (n ^ 1) < count ? n ^ 1 : n; }},
    {"its lanes in reverse", [](int64_t n, int64_t count) { return count - 1 - n; }},
};

void Reorder(Array& array, const Order& order) {
  const Array before = array;
  const int64_t lanes = array.shape[3];
  for (int64_t n = 0; n < std::ssize(array.values); ++n) {
    const int64_t lane = n % lanes;
    array.values[static_cast<size_t>(n)] =
        before.values[static_cast<size_t>(n - lane + order.of(lane, lanes))];
  }
}

void AddLanes(const Problem& p, FeatureChanges& changes) {
  const auto add = [&](std::string_view name, Array Inputs::*tensor, int64_t lanes) {
    for (const Order& order : kOrders) {
      if (lanes < 2) continue;
      Add(
          "lanes-permuted", fmt::format("{} with {}", name, order.how),
          [tensor, &order](Problem&, Inputs& inputs) { Reorder(inputs.*tensor, order); }, changes);
    }
  };
  add("k were read", &Inputs::k, p.head_dim);
  add("q were read", &Inputs::q, p.head_dim);
  add("v were read, or out written,", &Inputs::v, p.value_dim);
}

}  // namespace

FeatureChanges MisreadInputs(const Problem& problem) {
  FeatureChanges changes;
  AddTypes(problem, changes);
  AddLanes(problem, changes);
  return changes;
}

}  // namespace attest
