#include "properties/harness/case/storage.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/equal.h"

namespace attest {
namespace {

// Far above any sequence of a case; a case file must not ask for memory without end.
constexpr int64_t kMaxPageSize = 4096;

constexpr DataTensor kShareable[] = {DataTensor::kK, DataTensor::kV};

Layout LayoutOf(const Case& c, DataTensor tensor) {
  return tensor == DataTensor::kK ? c.layouts.k : c.layouts.v;
}

std::optional<std::string> CheckPacked(const Problem& p) {
  if (!p.query_lengths || !p.key_lengths) {
    return "storage.packed needs query_lengths and key_lengths";
  }
  for (const auto& [name, present] :
       {std::pair{"a mask", p.mask.has_value()}, std::pair{"a bias", p.bias.has_value()},
        std::pair{"documents", p.documents.has_value()},
        std::pair{"a block mask", p.block_mask.has_value()},
        std::pair{"dropout", p.dropout.has_value()}, std::pair{"weights", p.want_weights},
        std::pair{"scores", p.want_scores.has_value()}}) {
    if (present) return fmt::format("storage.packed does not go with {}; leave one out", name);
  }
  return std::nullopt;
}

std::optional<std::string> CheckKinds(const Case& c) {
  const Storage& s = c.storage;
  if (s.past < 0 || s.past > c.problem.kv_len) {
    return fmt::format("storage.past = {} is outside 0..kv_len = {}", s.past, c.problem.kv_len);
  }
  if (s.without_present && s.past == 0) {
    return "storage.without_present needs a past; leave it out";
  }
  if (s.page_size < 0 || s.page_size > kMaxPageSize) {
    return fmt::format("storage.page_size = {} is outside 0..{}", s.page_size, kMaxPageSize);
  }
  const int kinds = (s.past > 0 ? 1 : 0) + (s.first_call != FirstCall::kNo ? 1 : 0) +
                    (s.page_size > 0 ? 1 : 0) + (s.ring ? 1 : 0) + (s.packed ? 1 : 0);
  if (kinds > 1) {
    return "storage takes one of past, first_call, page_size, ring and packed; leave the others "
           "out";
  }
  return s.packed ? CheckPacked(c.problem) : std::nullopt;
}

// Whether element n of every head is the same in every batch item.
bool HeadsAgree(const Array& array) {
  const auto head = static_cast<size_t>(array.shape[2] * array.shape[3]);
  const auto item = static_cast<size_t>(array.shape[1]) * head;
  for (size_t n = 0; n < array.values.size(); ++n) {
    if (!SameValue(array.values[n], array.values[n - n % item + n % head])) return false;
  }
  return true;
}

bool IsOverridden(const Case& c, DataTensor tensor) {
  return std::ranges::any_of(c.overrides, [&](const Override& o) { return o.tensor == tensor; });
}

std::optional<std::string> CheckSharedHeads(const Case& c, DataTensor tensor) {
  if (LayoutOf(c, tensor) != Layout::kSharedHead || c.problem.kv_heads <= 1) return std::nullopt;
  if (IsOverridden(c, tensor)) {
    return fmt::format("layout.{0} = shared_head leaves no element of {0} to set alone",
                       Name(tensor));
  }
  const auto literal = c.literals.find(tensor);
  if (literal == c.literals.end() || HeadsAgree(literal->second)) return std::nullopt;
  return fmt::format("literals.{0}: the heads differ, but layout.{0} = shared_head", Name(tensor));
}

// Each head with memory of its own, the values as they were.
void GiveOwnHeads(Case& c, DataTensor tensor) {
  if (IsOverridden(c, tensor)) {
    Inputs inputs = Materialise(c);
    c.literals[tensor] = std::move(tensor == DataTensor::kK ? inputs.k : inputs.v);
    std::erase_if(c.overrides, [&](const Override& o) { return o.tensor == tensor; });
  }
  (tensor == DataTensor::kK ? c.layouts.k : c.layouts.v) = Layout::kBhsd;
}

}  // namespace

std::optional<std::string> CheckStorage(const Case& c) {
  for (const auto& [name, layout] :
       {std::pair{"q", c.layouts.q}, std::pair{"out", c.layouts.out}}) {
    if (layout != Layout::kSharedHead) continue;
    return fmt::format("layout.{} = shared_head is for k and v only", name);
  }
  for (const DataTensor tensor : kShareable) {
    if (auto error = CheckSharedHeads(c, tensor)) return error;
  }
  return CheckKinds(c);
}

void MendStorage(Case& c) {
  for (Layout* layout : {&c.layouts.q, &c.layouts.out}) {
    if (*layout == Layout::kSharedHead) *layout = Layout::kBhsd;
  }
  for (const DataTensor tensor : kShareable) {
    if (CheckSharedHeads(c, tensor)) GiveOwnHeads(c, tensor);
  }
  c.storage.past = std::clamp<int64_t>(c.storage.past, 0, c.problem.kv_len);
  if (c.storage.past == 0) c.storage.without_present = false;
  if (CheckKinds(c)) c.storage = Storage{};
}

}  // namespace attest
