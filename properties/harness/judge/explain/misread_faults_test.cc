// Inputs and features that a kernel reads from another place or as something else.
#include <algorithm>
#include <array>
#include <utility>

#include "properties/harness/judge/explain/testing.h"

namespace attest {
namespace {

void OfType(DType dtype, Problem& p) {
  p.dtype = dtype;
}
void OfHalves(Problem& p) {
  OfType(DType::kF16, p);
}
void OfBytes(Problem& p) {
  p.fp8 = Fp8{DType::kE4M3, 0.5, 0.25, 2};
}

// The kernel computes with other inputs.
std::function<Outcome(Problem, Inputs)> Computes(
    std::function<void(const Problem&, Inputs&)> change) {
  return [change](const Problem& p, Inputs inputs) {
    change(p, inputs);
    return RoundedOutcome(p, inputs);
  };
}

double Reread(double value, DType from, DType to) {
  std::array<unsigned char, 2> bits{};
  StoreElement(from, bits.data(), value);
  return LoadElement(to, bits.data());
}

void Multiply(double factor, Array& array) {
  for (double& x : array.values) x *= factor;
}

// Lane n of each vector is lane order[n].
void Reorder(const std::vector<int64_t>& order, Array& array) {
  const Array before = array;
  for (size_t n = 0; n < array.values.size(); ++n) {
    const size_t lane = n % order.size();
    array.values[n] = before.values[n - lane + static_cast<size_t>(order[lane])];
  }
}

TEST(MisreadFaultsTest, InputsThatAreReadAsSomethingElseAreNamed) {
  ExpectNamed({
      {"type-misread", OfHalves, Computes([](const Problem&, Inputs& inputs) {
         for (double& x : inputs.k.values) x = Reread(x, DType::kF16, DType::kBF16);
       })},
      {"type-misread", [](Problem& p) { OfType(DType::kBF16, p); },
       Computes([](const Problem&, Inputs& inputs) {
         for (double& x : inputs.v.values) x = Reread(x, DType::kBF16, DType::kF16);
       })},
      {"type-misread", OfBytes, Computes([](const Problem&, Inputs& inputs) {
         for (double& x : inputs.v.values) x = 2 * Reread(x / 2, DType::kE4M3, DType::kE5M2);
       })},
      {"fp8-scale-misread", OfBytes,
       Computes([](const Problem&, Inputs& inputs) { Multiply(4, inputs.k); })},
      {"fp8-scale-misread", OfBytes,
       Computes([](const Problem&, Inputs& inputs) { Multiply(0.5, inputs.v); })},
      {"fp8-scale-misread", OfBytes,
       Computes([](const Problem&, Inputs& inputs) { Multiply(0.125, inputs.v); })},
      {"lanes-permuted", [](Problem&) {}, Computes([](const Problem&, Inputs& inputs) {
         Reorder({0, 2, 4, 1, 3, 5}, inputs.k);
       })},
      {"lanes-permuted", [](Problem&) {}, Computes([](const Problem&, Inputs& inputs) {
         Reorder({1, 0, 3, 2, 4}, inputs.v);
       })},
  });
}

void Masked(Problem& p) {
  p.mask = RandomPlane(p);
}
void Sunk(Problem& p) {
  p.sinks = {1, 0, 2, -1};
}
void Sloped(Problem& p) {
  p.alibi_slopes = {2, 1, 0.5, 0.25};
}
void Padded3(Problem& p) {
  p.batch = 3;
  p.key_lengths = {6, 9, 2};
}

// The planes of the mask, each from where `move` says.
std::function<void(Problem&)> MasksOf(std::function<Row(Row)> move) {
  return [move](Problem& p) {
    const BitPlane before = *p.mask;
    size_t at = 0;
    ForEachRow(p, [&](const Row& row) {
      const Row from = move(row);
      for (int64_t j = 0; j < p.kv_len; ++j, ++at) {
        p.mask->bits[at] = before.At(from.batch, from.head, from.query, j) ? 1 : 0;
      }
    });
  };
}

TEST(MisreadFaultsTest, FeaturesOfAnotherHeadItemOrQueryAreNamed) {
  ExpectNamed({
      {"feature-of-other-head", Sunk, Solves([](Problem& p) {
         p.sinks = {0, 2, -1, 1};
       })},
      {"feature-of-other-head", Sunk,
       [](const Problem& p, const Inputs& inputs) {
         Outcome all = RoundedOutcome(p, inputs);
         for (int64_t i = 0; i < p.q_len; ++i) {
           Problem one = p;
           one.sinks.emplace(p.sinks->size(), (*p.sinks)[static_cast<size_t>(i % p.q_heads)]);
           const Outcome of_one = RoundedOutcome(one, inputs);
           for (Array Outcome::*array : {&Outcome::out, &Outcome::lse})
             ForEachRow(p, [&](const Row& row) {
               for (int64_t d = 0; d < (all.*array).shape[3] && row.query == i; ++d)
                 (all.*array).At(row.batch, row.head, i, d) =
                     (of_one.*array).At(row.batch, row.head, i, d);
             });
         }
         return all;
       }},
      {"feature-of-other-head", Sloped, Solves([](Problem& p) {
         p.alibi_slopes = {2, 2, 1, 1};
       })},
      {"feature-of-other-head", Masked, Solves(MasksOf([](Row row) {
         row.head = (row.head + 1) % 4;
         return row;
       }))},
      {"feature-of-other-item", Masked, Solves(MasksOf([](Row row) {
         row.batch = 1 - row.batch;
         return row;
       }))},
      {"feature-of-other-item", Padded3, Solves([](Problem& p) {
         p.key_lengths = {9, 2, 6};
       })},
      {"feature-of-other-query", Masked, Solves(MasksOf([](Row row) {
         row.query = std::max<int64_t>(row.query - 1, 0);
         return row;
       }))},
  });
}

}  // namespace
}  // namespace attest
