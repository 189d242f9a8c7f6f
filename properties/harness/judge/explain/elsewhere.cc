// Features of another head, batch item or query: an index that is off, in whatever is looked up by it.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/explain/feature_changes.h"

namespace attest {
namespace {

constexpr std::string_view kOtherHead = "feature-of-other-head",
                           kOtherItem = "feature-of-other-item",
                           kOtherQuery = "feature-of-other-query";

// Where a feature may be looked for instead of where it belongs: one table for all that comes as a plane, a length or a
// number a head, batch item or query.
struct Elsewhere {
  enum Axis { kItem, kHead, kQuery };
  Axis axis;
  std::string_view cause_class;
  std::string_view where;  // "the mask of {}", after "as if"
  bool (*applies)(const Problem&);
  Row (*of)(const Problem&, Row);
  bool is_first = false;  // always the first one's
};

bool HasItems(const Problem& p) {
  return p.batch > 1;
}
bool HasHeads(const Problem& p) {
  return p.q_heads > 1;
}
bool HasGroups(const Problem& p) {
  return p.kv_heads > 0 && p.heads_per_kv_head() > 1;
}
bool HasQueries(const Problem& p) {
  return p.q_len > 1;
}

int64_t After(int64_t n, int64_t count) {
  return (n + 1) % count;
}
int64_t Before(int64_t n, int64_t count) {
  return (n + count - 1) % count;
}

// The plane as it is seen when each row looks for it elsewhere.
BitPlane Moved(const Problem& p, const BitPlane& plane, const Elsewhere& to) {
  BitPlane moved{p.WeightsShape(), 4, {}};
  ForEachRow(p, [&](const Row& row) {
    const Row at = to.of(p, row);
    for (int64_t j = 0; j < p.kv_len; ++j) {
      moved.bits.push_back(plane.At(at.batch, at.head, at.query, j) ? 1 : 0);
    }
  });
  return moved;
}

void MoveMask(Problem& p, Inputs&, const Elsewhere& to) {
  p.mask = Moved(p, *p.mask, to);
}

void MoveBias(Problem& p, Inputs& inputs, const Elsewhere& to) {
  const Array before = std::exchange(inputs.bias, Array(p.WeightsShape()));
  ForEachRow(p, [&](const Row& row) {
    const Row at = to.of(p, row);
    for (int64_t j = 0; j < p.kv_len; ++j) {
      inputs.bias.At(row.batch, row.head, row.query, j) =
          before.Broadcast(at.batch, at.head, at.query, j);
    }
  });
  p.bias = Moved(p, *p.bias, to);
}

void MoveDropout(Problem& p, Inputs&, const Elsewhere& to) {
  p.dropout->keep = Moved(p, p.dropout->keep, to);
}

void MoveBlocks(Problem& p, Inputs&, const Elsewhere& to) {
  BitPlane& plane = p.block_mask->plane;
  BitPlane moved{{p.batch, p.q_heads, plane.shape[2], plane.shape[3]}, 4, {}};
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.q_heads; ++h) {
      const Row at = to.of(p, {b, h, 0});
      for (int64_t i = 0; i < plane.shape[2]; ++i)
        for (int64_t j = 0; j < plane.shape[3]; ++j)
          moved.bits.push_back(plane.At(at.batch, at.head, i, j) ? 1 : 0);
    }
  plane = std::move(moved);
}

template <typename T>
void MoveHeads(std::vector<T>& values, const Problem& p, const Elsewhere& to) {
  const std::vector<T> before = values;
  for (int64_t h = 0; h < p.q_heads; ++h) {
    values[static_cast<size_t>(h)] = before[static_cast<size_t>(to.of(p, {0, h, 0}).head)];
  }
}

// Of values that come `width` an item.
template <typename T>
void MoveItems(std::vector<T>& values, int64_t width, const Problem& p, const Elsewhere& to) {
  const std::vector<T> before = values;
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto from = before.begin() + to.of(p, {b, 0, 0}).batch * width;
    std::copy(from, from + width, values.begin() + b * width);
  }
}

bool Varies(const BitPlane& plane, Elsewhere::Axis axis) {
  return plane.shape[axis == Elsewhere::kItem ? 0 : axis == Elsewhere::kHead ? 1 : 2] > 1;
}

// What a call carries once a head, item or query.
struct Carried {
  std::string_view name;
  bool (*varies)(const Problem&, Elsewhere::Axis);
  void (*move)(Problem&, Inputs&, const Elsewhere&);
  bool has_row_rule = false;  // of the first item, head or query (visibility_faults.cc)
};

constexpr Carried kCarried[] = {
    {"the mask",
     [](const Problem& p, Elsewhere::Axis axis) { return p.mask && Varies(*p.mask, axis); },
     MoveMask, true},
    {"the additive mask",
     [](const Problem& p, Elsewhere::Axis axis) { return p.bias && Varies(*p.bias, axis); },
     MoveBias, true},
    {"the ALiBi slope",
     [](const Problem& p, Elsewhere::Axis axis) {
       return p.alibi_slopes && axis == Elsewhere::kHead;
     },
     [](Problem& p, Inputs&, const Elsewhere& to) { MoveHeads(*p.alibi_slopes, p, to); }},
    {"the sink",
     [](const Problem& p, Elsewhere::Axis axis) { return p.sinks && axis == Elsewhere::kHead; },
     [](Problem& p, Inputs&, const Elsewhere& to) { MoveHeads(*p.sinks, p, to); }},
    {"the block mask",
     [](const Problem& p, Elsewhere::Axis axis) {
       return p.block_mask && axis != Elsewhere::kQuery && Varies(p.block_mask->plane, axis);
     },
     MoveBlocks},
    {"the dropout mask",
     [](const Problem& p, Elsewhere::Axis axis) {
       return p.dropout && Varies(p.dropout->keep, axis);
     },
     MoveDropout},
    {"the documents",
     [](const Problem& p, Elsewhere::Axis axis) { return p.documents && axis == Elsewhere::kItem; },
     [](Problem& p, Inputs&, const Elsewhere& to) {
       MoveItems(p.documents->query, p.q_len, p, to);
       MoveItems(p.documents->key, p.kv_len, p, to);
     }},
    {"the key length",
     [](const Problem& p, Elsewhere::Axis axis) {
       return p.key_lengths && axis == Elsewhere::kItem;
     },
     [](Problem& p, Inputs&, const Elsewhere& to) { MoveItems(*p.key_lengths, 1, p, to); }, true},
    {"the prefix length",
     [](const Problem& p, Elsewhere::Axis axis) {
       return p.causal && p.prefix_lengths && axis == Elsewhere::kItem;
     },
     [](Problem& p, Inputs&, const Elsewhere& to) { MoveItems(*p.prefix_lengths, 1, p, to); }},
    {"the diagonal",
     [](const Problem& p, Elsewhere::Axis axis) {
       return !p.diagonal_offset.empty() && axis == Elsewhere::kItem;
     },
     [](Problem& p, Inputs&, const Elsewhere& to) { MoveItems(p.diagonal_offset, 1, p, to); },
     true},
};

constexpr Elsewhere kElsewheres[] = {
    {Elsewhere::kItem, "batch-0-for-all", "batch item 0 were used for all", HasItems,
     [](const Problem&, Row row) {
       return Row{0, row.head, row.query};
     },
     true},
    {Elsewhere::kHead, "head-0-for-all", "head 0 were used for all", HasHeads,
     [](const Problem&, Row row) {
       return Row{row.batch, 0, row.query};
     },
     true},
    {Elsewhere::kQuery, "query-0-for-all", "query 0 were used for all", HasQueries,
     [](const Problem&, Row row) {
       return Row{row.batch, row.head, 0};
     },
     true},
    {Elsewhere::kHead, kOtherHead, "the head numbered as its kv head were used", HasGroups,
     [](const Problem& p, Row row) {
       return Row{row.batch, row.head / p.heads_per_kv_head(), row.query};
     }},
    {Elsewhere::kHead, kOtherHead, "head h mod kv_heads were used", HasGroups,
     [](const Problem& p, Row row) {
       return Row{row.batch, row.head % p.kv_heads, row.query};
     }},
    {Elsewhere::kHead, kOtherHead, "the head after were used", HasHeads,
     [](const Problem& p, Row row) {
       return Row{row.batch, After(row.head, p.q_heads), row.query};
     }},
    {Elsewhere::kHead, kOtherHead, "the head before were used", HasHeads,
     [](const Problem& p, Row row) {
       return Row{row.batch, Before(row.head, p.q_heads), row.query};
     }},
    {Elsewhere::kItem, kOtherItem, "the batch item after were used", HasItems,
     [](const Problem& p, Row row) {
       return Row{After(row.batch, p.batch), row.head, row.query};
     }},
    {Elsewhere::kItem, kOtherItem, "the batch item before were used", HasItems,
     [](const Problem& p, Row row) {
       return Row{Before(row.batch, p.batch), row.head, row.query};
     }},
    {Elsewhere::kItem, kOtherItem, "the batch item numbered as its kv head were used", HasItems,
     [](const Problem& p, Row row) {
       const int64_t item = row.head / p.heads_per_kv_head();
       return Row{std::min(item, p.batch - 1), row.head, row.query};
     }},
    {Elsewhere::kQuery, kOtherQuery, "the query after were used", HasQueries,
     [](const Problem& p, Row row) {
       return Row{row.batch, row.head, std::min(row.query + 1, p.q_len - 1)};
     }},
    {Elsewhere::kQuery, kOtherQuery, "the query before were used", HasQueries,
     [](const Problem&, Row row) {
       return Row{row.batch, row.head, std::max<int64_t>(row.query - 1, 0)};
     }},
};

FeatureChange ChangeOf(const Carried& what, const Elsewhere& to) {
  return {to.cause_class, fmt::format("{} of {}", what.name, to.where),
          [&](const Problem& p) { return to.applies(p) && what.varies(p, to.axis); },
          [&](Problem& p, Inputs& inputs, Semantics&) { what.move(p, inputs, to); }};
}

}  // namespace

FeatureChanges FeaturesOfTheFirst() {
  FeatureChanges changes;
  for (const Elsewhere& to : kElsewheres) {
    for (const Carried& what : kCarried) {
      if (to.is_first && !what.has_row_rule) changes.push_back(ChangeOf(what, to));
    }
  }
  return changes;
}

FeatureChanges FeaturesFromElsewhere() {
  FeatureChanges changes;
  for (const Elsewhere& to : kElsewheres) {
    for (const Carried& what : kCarried) changes.push_back(ChangeOf(what, to));
  }
  return changes;
}

}  // namespace attest
