#include "properties/harness/lower/storage.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "attest/kernel.h"
#include "properties/harness/case/random.h"
#include "properties/harness/lower/tensor_image.h"

namespace attest {
namespace {

// Salts that keep the draws of a case apart from each other and from its data.
constexpr uint64_t kPageSalt = 0x9A6E5;
constexpr uint64_t kRingSalt = 0x21265;

// One of k and v on its way into a call.
struct Source {
  int32_t role;
  int32_t past_role;
  PoisonTensor tensor;
  const Array& data;
  Layout layout;
  double unit;  // what a stored 1 stands for
};

CallTensor MakeFloats(const Case& c, const Source& source, int32_t role, const Array& array,
                      uint8_t fill) {
  return FloatTensor(role, c.problem.InputDType(), array, {source.layout, QkvExtentsOf(c.problem)},
                     source.unit, fill);
}

void CopyRow(const Array& from, const Shape4& at, Array& to, const Shape4& target) {
  const double* row = &from.values[from.Index(at[0], at[1], at[2], 0)];
  std::copy(row, row + from.shape[3], &to.values[to.Index(target[0], target[1], target[2], 0)]);
}

// Calls visit(batch, head, position) for the rows of a [batch, heads, len, dim] array that has
// elements.
template <typename Visitor>
void ForEachVector(const Array& array, Visitor&& visit) {
  if (array.empty()) return;
  for (int64_t b = 0; b < array.shape[0]; ++b)
    for (int64_t h = 0; h < array.shape[1]; ++h)
      for (int64_t i = 0; i < array.shape[2]; ++i) visit(b, h, i);
}

// --- Past ---

Array Positions(const Array& array, int64_t first, int64_t last) {
  Array part({array.shape[0], array.shape[1], last - first, array.shape[3]});
  ForEachVector(part, [&](int64_t b, int64_t h, int64_t i) {
    CopyRow(array, {b, h, first + i, 0}, part, {b, h, i, 0});
  });
  return part;
}

void AddWithPast(const Case& c, const Source& source, Call* call) {
  const int64_t past = c.storage.past;
  const Array before = Positions(source.data, 0, past);
  const Array after = Positions(source.data, past, c.problem.kv_len);
  call->tensors.push_back(MakeFloats(c, source, source.past_role, before, call->poison));
  call->tensors.push_back(MakeFloats(c, source, source.role, after, call->poison));
}

// --- Pages ---

struct PagePlan {
  int64_t pages = 0;           // in all
  int64_t pages_per_item = 0;  // of the table
  std::vector<int64_t> table;  // [batch, pages_per_item]; -1 behind an item's length
  std::vector<int64_t> lengths;
};

std::vector<int64_t> KeyLengthsOf(const Problem& p) {
  return p.key_lengths.value_or(std::vector<int64_t>(static_cast<size_t>(p.batch), p.kv_len));
}

int64_t PagesFor(int64_t keys, int64_t page_size) {
  return (keys + page_size - 1) / page_size;
}

// The page numbers 0..count-1 in an order drawn by Fisher and Yates's shuffle.
std::vector<int64_t> ShuffledPages(int64_t count, Draw& draw) {
  std::vector<int64_t> pages(static_cast<size_t>(count));
  std::iota(pages.begin(), pages.end(), int64_t{0});
  for (int64_t n = count; n > 1; --n) {
    std::swap(pages[static_cast<size_t>(n - 1)], pages[static_cast<size_t>(draw.Below(n))]);
  }
  return pages;
}

PagePlan PlanPages(const Case& c) {
  const int64_t size = c.storage.page_size;
  PagePlan plan;
  plan.lengths = KeyLengthsOf(c.problem);
  plan.pages_per_item = PagesFor(c.problem.kv_len, size);
  int64_t used = 0;
  for (const int64_t length : plan.lengths) used += PagesFor(length, size);
  Draw draw(MixIn(c.recipe.seed, kPageSalt));
  plan.pages = used + draw.Between(1, 2);
  const std::vector<int64_t> order = ShuffledPages(plan.pages, draw);
  plan.table.assign(static_cast<size_t>(c.problem.batch * plan.pages_per_item), -1);
  size_t next = 0;
  for (int64_t b = 0; b < c.problem.batch; ++b) {
    const int64_t count = PagesFor(plan.lengths[static_cast<size_t>(b)], size);
    for (int64_t n = 0; n < count; ++n) {
      plan.table[static_cast<size_t>(b * plan.pages_per_item + n)] = order[next++];
    }
  }
  return plan;
}

// What slots without a key hold. As a number it stands out, and is no nearer to overflow in a
// product than three bits.
double PoisonFor(const Case& c, const Source& source, const Contract& contract) {
  if (contract.IsPoisonSafe(source.tensor, PoisonPlace::kPage)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double largest = source.unit;
  for (const double x : source.data.values) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  const double most = source.unit * TraitsOf(c.problem.InputDType()).max_finite / 8;
  return RoundTo(c.problem.InputDType(), std::min(8 * largest, most) / source.unit) * source.unit;
}

void AddPaged(const Case& c, const Source& source, const Contract& contract, const PagePlan& plan,
              Call* call) {
  const Array& data = source.data;
  const int64_t size = c.storage.page_size;
  Array paged({plan.pages, data.shape[1], size, data.shape[3]}, PoisonFor(c, source, contract));
  ForEachVector(data, [&](int64_t b, int64_t h, int64_t j) {
    if (j >= plan.lengths[static_cast<size_t>(b)]) return;
    const int64_t page = plan.table[static_cast<size_t>(b * plan.pages_per_item + j / size)];
    CopyRow(data, {b, h, j, 0}, paged, {page, h, j % size, 0});
  });
  call->tensors.push_back(MakeFloats(c, source, source.role, paged, call->poison));
}

// --- Ring ---

std::vector<int64_t> RingStarts(const Case& c) {
  Draw draw(MixIn(c.recipe.seed, kRingSalt));
  std::vector<int64_t> starts;
  for (int64_t b = 0; b < c.problem.batch; ++b) {
    starts.push_back(draw.Below(std::max<int64_t>(c.problem.kv_len, 1)));
  }
  return starts;
}

void AddRing(const Case& c, const Source& source, const std::vector<int64_t>& starts, Call* call) {
  Array ring(source.data.shape);
  ForEachVector(source.data, [&](int64_t b, int64_t h, int64_t j) {
    const int64_t slot = (starts[static_cast<size_t>(b)] + j) % c.problem.kv_len;
    CopyRow(source.data, {b, h, j, 0}, ring, {b, h, slot, 0});
  });
  call->tensors.push_back(MakeFloats(c, source, source.role, ring, call->poison));
}

// --- Packed sequences ---

std::vector<int64_t> Cumulative(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> sums = {0};
  for (const int64_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

// [batch, heads, len, dim] as [1, heads, sum of lengths, dim]: what lies beyond the lengths is left
// out.
Array PackRows(const Array& array, const std::vector<int64_t>& lengths) {
  const std::vector<int64_t> sums = Cumulative(lengths);
  Array packed({1, array.shape[1], sums.back(), array.shape[3]});
  ForEachVector(array, [&](int64_t b, int64_t h, int64_t i) {
    const auto item = static_cast<size_t>(b);
    if (i < lengths[item]) CopyRow(array, {b, h, i, 0}, packed, {0, h, sums[item] + i, 0});
  });
  return packed;
}

// From [1, heads, rows, dim] to [rows, heads, dim].
CallTensor WithRowsFirst(CallTensor t) {
  t.shape = {t.shape[2], t.shape[1], t.shape[3]};
  t.strides = {t.strides[2], t.strides[1], t.strides[3]};
  if (!t.far_strides.empty())
    t.far_strides = {t.far_strides[2], t.far_strides[1], t.far_strides[3]};
  return t;
}

// Both dense layouts are [rows, heads, dim] without gaps.
Placing PackedPlacing(const Case& c, Layout layout) {
  return {layout == Layout::kBhsd ? Layout::kBshd : layout, QkvExtentsOf(c.problem)};
}

void AddPacked(const Case& c, int32_t role, const Array& data, const std::vector<int64_t>& lengths,
               Layout layout, double unit, Call* call) {
  call->tensors.push_back(
      WithRowsFirst(FloatTensor(role, c.problem.InputDType(), PackRows(data, lengths),
                                PackedPlacing(c, layout), unit, call->poison)));
}

void AddCumulative(int32_t role, const std::vector<int64_t>& lengths, Call* call) {
  const std::vector<int64_t> sums = Cumulative(lengths);
  call->tensors.push_back(
      IntegerTensor(role, {static_cast<int64_t>(sums.size())}, sums, call->poison));
}

int64_t PackedRows(const Problem& p) {
  return Cumulative(*p.query_lengths).back();
}

// The tensors that say where keys and values lie, beside the values themselves.
void AddIndex(const Case& c, const PagePlan& plan, const std::vector<int64_t>& starts, Call* call) {
  const Problem& p = c.problem;
  if (c.storage.page_size > 0) {
    call->tensors.push_back(IntegerTensor(ATTEST_ROLE_PAGE_TABLE, {p.batch, plan.pages_per_item},
                                          plan.table, call->poison));
  }
  if (c.storage.ring) {
    call->tensors.push_back(IntegerTensor(ATTEST_ROLE_RING_START, {p.batch}, starts, call->poison));
  }
  if (c.storage.packed) {
    AddCumulative(ATTEST_ROLE_CU_KEY_LENGTHS, *p.key_lengths, call);
    AddCumulative(ATTEST_ROLE_CU_QUERY_LENGTHS, *p.query_lengths, call);
  }
}

}  // namespace

void AddKeysAndValues(const Case& c, const Inputs& inputs, const Contract& contract, Call* call) {
  const Problem& p = c.problem;
  const Source sources[] = {{ATTEST_ROLE_K, ATTEST_ROLE_PAST_K, PoisonTensor::kK, inputs.k,
                             c.layouts.k, p.fp8 ? p.fp8->k_scale : 1},
                            {ATTEST_ROLE_V, ATTEST_ROLE_PAST_V, PoisonTensor::kV, inputs.v,
                             c.layouts.v, p.fp8 ? p.fp8->v_scale : 1}};
  const PagePlan plan = c.storage.page_size > 0 ? PlanPages(c) : PagePlan{};
  const std::vector<int64_t> starts = c.storage.ring ? RingStarts(c) : std::vector<int64_t>{};
  for (const Source& source : sources) {
    if (c.storage.past > 0 || c.storage.first_call == FirstCall::kPastEmpty) {
      AddWithPast(c, source, call);
    } else if (c.storage.page_size > 0) {
      AddPaged(c, source, contract, plan, call);
    } else if (c.storage.ring) {
      AddRing(c, source, starts, call);
    } else if (c.storage.packed) {
      AddPacked(c, source.role, source.data, *p.key_lengths, source.layout, source.unit, call);
    } else {
      call->tensors.push_back(MakeFloats(c, source, source.role, source.data, call->poison));
    }
  }
  AddIndex(c, plan, starts, call);
}

void AddQueries(const Case& c, const Inputs& inputs, Call* call) {
  const Problem& p = c.problem;
  const double unit = p.fp8 ? p.fp8->q_scale : 1;
  if (c.storage.packed) {
    AddPacked(c, ATTEST_ROLE_Q, inputs.q, *p.query_lengths, c.layouts.q, unit, call);
    return;
  }
  call->tensors.push_back(FloatTensor(ATTEST_ROLE_Q, p.InputDType(), inputs.q,
                                      {c.layouts.q, QkvExtentsOf(p)}, unit, call->poison));
}

CallTensor OutTensor(const Case& c) {
  const Problem& p = c.problem;
  Shape4 shape = p.OutShape();
  Placing placing{c.layouts.out, QkvExtentsOf(p)};
  if (c.storage.packed) {
    shape = {1, p.q_heads, PackedRows(p), p.value_dim};
    placing = PackedPlacing(c, c.layouts.out);
  }
  CallTensor out = PlacedTensorOf(ATTEST_ROLE_OUT, p.dtype, shape, placing, 0);
  return c.storage.packed ? WithRowsFirst(std::move(out)) : out;
}

CallTensor LseTensor(const Case& c) {
  const Problem& p = c.problem;
  std::vector<int64_t> shape = {p.batch, p.q_heads, p.q_len};
  if (c.storage.packed) shape = {p.q_heads, PackedRows(p)};
  return MakeDense(ATTEST_ROLE_LSE, p.LseDType(), std::move(shape), 0);
}

void AddGradients(const Case& c, const Inputs& inputs, Call* call) {
  const Problem& p = c.problem;
  const bool packed = c.storage.packed;
  if (packed) {
    AddPacked(c, ATTEST_ROLE_DOUT, inputs.dout, *p.query_lengths, c.layouts.out, /*unit=*/1, call);
  } else {
    call->tensors.push_back(FloatTensor(ATTEST_ROLE_DOUT, p.dtype, inputs.dout,
                                        {c.layouts.out, QkvExtentsOf(p)}, /*unit=*/1,
                                        call->poison));
  }
  const std::tuple<int32_t, Shape4, Layout, const std::optional<std::vector<int64_t>>*>
      gradients[] = {{ATTEST_ROLE_DQ, p.QShape(), c.layouts.q, &p.query_lengths},
                     {ATTEST_ROLE_DK, p.KShape(), c.layouts.k, &p.key_lengths},
                     {ATTEST_ROLE_DV, p.VShape(), c.layouts.v, &p.key_lengths}};
  for (const auto& [role, shape, layout, lengths] : gradients) {
    const Layout own = layout == Layout::kSharedHead ? Layout::kBhsd : layout;
    if (!packed) {
      call->tensors.push_back(PlacedTensorOf(role, p.dtype, shape, {own, QkvExtentsOf(p)}, 0));
      continue;
    }
    const Shape4 rows{1, shape[1], Cumulative(**lengths).back(), shape[3]};
    call->tensors.push_back(
        WithRowsFirst(PlacedTensorOf(role, p.dtype, rows, PackedPlacing(c, own), 0)));
  }
}

Array UnpackRows(const Array& packed, const Shape4& shape, const std::vector<int64_t>& lengths) {
  const std::vector<int64_t> sums = Cumulative(lengths);
  Array rows(shape);
  for (int64_t b = 0; b < shape[0]; ++b) {
    const auto item = static_cast<size_t>(b);
    for (int64_t i = 0; i < lengths[item]; ++i)
      for (int64_t h = 0; h < shape[1]; ++h)
        for (int64_t d = 0; d < shape[3]; ++d) {
          rows.At(b, h, i, d) = packed.At(sums[item] + i, h, d, 0);
        }
  }
  return rows;
}

Array UnpackOut(const Problem& p, const Array& packed) {
  return UnpackRows(packed, p.OutShape(), *p.query_lengths);
}

Array UnpackLse(const Problem& p, const Array& packed) {
  const std::vector<int64_t> sums = Cumulative(*p.query_lengths);
  Array lse(p.LseShape());
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    for (int64_t h = 0; h < p.q_heads; ++h)
      for (int64_t i = 0; i < (*p.query_lengths)[item]; ++i) {
        lse.At(b, h, i, 0) = packed.At(h, sums[item] + i, 0, 0);
      }
  }
  return lse;
}

}  // namespace attest
