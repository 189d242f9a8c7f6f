#include "properties/harness/judge/gradient_rules.h"

#include <cmath>
#include <numbers>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "impl/attention/visibility.h"

namespace attest {
namespace {

using RowFunction = std::function<void(const Row&, GradientRow&)>;

bool IsLastRow(const Problem& p, const Row& row) {
  const int64_t rows =
      p.query_lengths ? (*p.query_lengths)[static_cast<size_t>(row.batch)] : p.q_len;
  return row.query == rows - 1;
}

// Scores anew from the weights, their gradients and D.
void SetScores(GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.SetScores(pair.weight * (pair.dweight - row.delta));
}

void OmitDelta(GradientRow& row) {
  row.delta = row.dsink = 0;
  SetScores(row);
}

void OmitSlope(GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.slope = 1;
  SetScores(row);
}

// dP, and P too where `weights_too`, multiplied by the factor in place of 1 / (1 - p).
void ScaleKept(double factor, bool weights_too, GradientRow& row) {
  for (GradientPair& pair : row.pairs) {
    if (pair.kept == 0) continue;
    pair.dweight *= factor / pair.kept;
    if (weights_too) pair.kept = factor;
  }
  SetScores(row);
}

void LeaveOutOfBias(GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.dbias = 0;
}

// The rows' D, where it is that of another row.
GradientRule DeltaOf(const Problem& p, const Inputs& inputs, const Reference& reference,
                     std::string_view whose, Row (*other)(const Row&)) {
  const auto row = [&p, &inputs, &reference, other](const Row& at, GradientRow& changed) {
    const Row from = other(at);
    if (from.query < 0 || from.query >= p.q_len) return;
    const double *dout = LineOf(inputs.dout, from.batch, from.head, from.query),
                 *out = LineOf(reference.out, from.batch, from.head, from.query);
    changed.delta = 0;
    for (int64_t d = 0; d < p.value_dim; ++d) changed.delta += Wide{dout[d]} * out[d];
    changed.dsink = -changed.sink_weight * changed.delta;
    SetScores(changed);
  };
  return {"gradient-delta", fmt::format("as if D = dout . out were that of {}", whose), row};
}

// dP, D, or both over the first lanes alone.
RowFunction OverLanes(const Problem& p, const Inputs& inputs, const Reference& reference,
                      int64_t lanes, bool of_values, bool of_delta) {
  return [&p, &inputs, &reference, lanes, of_values, of_delta](const Row& at, GradientRow& row) {
    const double* dout = LineOf(inputs.dout, at.batch, at.head, at.query);
    const auto product_with = [&](const double* line) {
      Wide sum = 0;
      for (int64_t d = 0; d < lanes; ++d) sum += Wide{dout[d]} * line[d];
      return sum;
    };
    const int64_t kv_head = at.head / p.heads_per_kv_head();
    for (GradientPair& pair : row.pairs) {
      if (!of_values) break;
      pair.dweight = pair.kept * product_with(LineOf(inputs.v, at.batch, kv_head, pair.key));
    }
    if (of_delta) {
      row.delta = product_with(LineOf(reference.out, at.batch, at.head, at.query));
      row.dsink = -row.sink_weight * row.delta;
    }
    SetScores(row);
  };
}

// Each `part` keys are a softmax of their own, with an out of their own.
void SplitSoftmax(int64_t part, GradientRow& row) {
  for (size_t first = 0; first < row.pairs.size();) {
    size_t end = first;
    Wide sum = 0, delta = 0;
    for (; end < row.pairs.size() && row.pairs[end].key / part == row.pairs[first].key / part;
         ++end) {
      sum += row.pairs[end].weight;
      delta += row.pairs[end].weight * row.pairs[end].dweight;
    }
    for (; first < end; ++first) {
      GradientPair& pair = row.pairs[first];
      if (sum > 0) pair.weight = static_cast<double>(pair.weight / sum);
      pair.SetScores(sum > 0 ? pair.weight * (pair.dweight - delta / sum) : 0);
    }
  }
}

void AddDelta(const Problem& p, const Inputs& inputs, const Reference& reference,
              std::vector<GradientRule>& rules) {
  rules.push_back({"gradient-delta", "as if D = dout . out were left out",
                   [](const Row&, GradientRow& row) { OmitDelta(row); }});
  rules.push_back({"gradient-delta", "as if D = dout . out were left out in the last row",
                   [&p](const Row& at, GradientRow& row) {
                     if (IsLastRow(p, at)) OmitDelta(row);
                   }});
  rules.push_back(DeltaOf(p, inputs, reference, "query 0", [](const Row& at) {
    return Row{at.batch, at.head, 0};
  }));
  rules.push_back(DeltaOf(p, inputs, reference, "head 0", [](const Row& at) {
    return Row{at.batch, 0, at.query};
  }));
  rules.push_back(DeltaOf(p, inputs, reference, "batch 0", [](const Row& at) {
    return Row{0, at.head, at.query};
  }));
  rules.push_back(DeltaOf(p, inputs, reference, "the row before", [](const Row& at) {
    return Row{at.batch, at.head, at.query - 1};
  }));
  rules.push_back(DeltaOf(p, inputs, reference, "the row behind", [](const Row& at) {
    return Row{at.batch, at.head, at.query + 1};
  }));
}

// A dot product that stops early: at the other dimension, or at the last whole tile.
void AddLanes(const Problem& p, const Inputs& inputs, const Reference& reference,
              std::vector<GradientRule>& rules) {
  std::set<int64_t> ends;
  if (p.head_dim < p.value_dim) ends.insert(p.head_dim);
  for (const int64_t tile : {4, 8, 16, 32, 64}) ends.insert(p.value_dim / tile * tile);
  ends.insert(p.value_dim - 1);
  for (const int64_t end : ends) {
    if (end <= 0 || end == p.value_dim) continue;
    const std::string lanes =
        end == p.head_dim ? fmt::format("the first head_dim = {} of {} lanes", end, p.value_dim)
                          : fmt::format("the first {} of {} lanes", end, p.value_dim);
    const auto add = [&](std::string_view what, bool of_values, bool of_delta) {
      rules.push_back({"gradient-lanes", fmt::format("as if {} ran over {}", what, lanes),
                       OverLanes(p, inputs, reference, end, of_values, of_delta)});
    };
    add("dout . v", true, false);
    add("D = dout . out", false, true);
    add("dout . v and dout . out", true, true);
  }
}

void AddHeads(const Problem& p, std::vector<GradientRule>& rules) {
  const int64_t ratio = p.heads_per_kv_head();
  if (ratio == 1 && p.kv_heads == 1) return;
  const auto adds_to = [&](std::string_view which, auto kv_head) {
    rules.push_back({"gradient-kv-head",
                     fmt::format("as if query head h added to dk and dv of kv head {}", which),
                     [kv_head](const Row& at, GradientRow& row) { row.kv_head = kv_head(at.head); },
                     /*keeps_rows=*/true});
  };
  const auto drops = [&](std::string_view which, int64_t kept) {
    rules.push_back(
        {"gradient-of-one-head",
         fmt::format("as if a kv head got the gradient of its {} query head alone", which),
         [ratio, kept](const Row& at, GradientRow& row) {
           if (at.head % ratio != kept) row.pairs.clear();
         },
         /*keeps_rows=*/true});
  };
  if (ratio > 1) {
    drops("last", ratio - 1);
    drops("first", 0);
  }
  const int64_t kv_heads = p.kv_heads;
  adds_to("h % kv_heads", [kv_heads](int64_t h) { return h % kv_heads; });
  adds_to("h / kv_heads", [kv_heads](int64_t h) { return h / kv_heads; });
  adds_to("h, as if there were as many", [](int64_t h) { return h; });
  adds_to("0", [](int64_t) { return int64_t{0}; });
}

void AddBias(const Problem& p, std::vector<GradientRule>& rules) {
  if (!p.bias) return;
  const auto last_alone = [&](std::string_view whose, size_t axis, auto is_last) {
    if (p.bias->shape[axis] != 1) return;
    rules.push_back(
        {"gradient-of-shared-bias",
         fmt::format("as if dbias were that of the last of the {} that share the bias", whose),
         [is_last](const Row& at, GradientRow& row) {
           if (!is_last(at)) LeaveOutOfBias(row);
         }});
  };
  last_alone("heads", 1, [&p](const Row& at) { return at.head == p.q_heads - 1; });
  last_alone("batch items", 0, [&p](const Row& at) { return at.batch == p.batch - 1; });
  last_alone("rows", 2, [&p](const Row& at) { return at.query == p.q_len - 1; });
  rules.push_back({"gradient-bias-scaled", "as if dbias were multiplied by the scale",
                   [&p](const Row&, GradientRow& row) {
                     for (GradientPair& pair : row.pairs) pair.dbias *= Wide{p.EffectiveScale()};
                   }});
}

void AddSplits(const Problem& p, std::vector<GradientRule>& rules) {
  std::set<int64_t> parts = {p.kv_len / 2, (p.kv_len + 1) / 2, 16, 32, 64, 128};
  for (const int64_t part : parts) {
    if (part < 1 || part >= p.kv_len) continue;
    rules.push_back(
        {"gradient-split",
         fmt::format("as if in the backward pass every {} had a softmax and an out of its own",
                     part == 1 ? "key" : fmt::format("part of {} keys", part)),
         [part](const Row&, GradientRow& row) { SplitSoftmax(part, row); }});
  }
}

}  // namespace

std::vector<GradientRule> GradientRules(const Problem& p, const Inputs& inputs,
                                        const Reference& reference) {
  // Where q is 0, dk says nothing of the scale.
  std::vector<GradientRule> rules = {
      {"gradient-scale", "as if the scale were left out of dq", {}, false, true},
      {"gradient-scale", "as if the scale were left out of dk", {}, false, false, true},
      {"gradient-scale", "as if the scale were left out of dq and dk", {}, false, true, true}};
  AddDelta(p, inputs, reference, rules);
  if (p.softcap > 0) {
    rules.push_back({"gradient-softcap", "as if the softcap had no slope of its own",
                     [](const Row&, GradientRow& row) { OmitSlope(row); }});
  }
  if (p.dropout) {
    rules.push_back({"dropout-unscaled", "as if the backward pass did not scale what dropout keeps",
                     [](const Row&, GradientRow& row) { ScaleKept(1, true, row); }});
  }
  rules.push_back({"gradient-row-lost", "as if the last row added nothing to dk and dv",
                   [&p](const Row& at, GradientRow& row) {
                     if (IsLastRow(p, at)) row.pairs.clear();
                   },
                   /*keeps_rows=*/true});
  AddHeads(p, rules);
  AddBias(p, rules);
  if (p.sinks) {
    rules.push_back({"gradient-sink-sign", "as if dsink had the wrong sign",
                     [](const Row&, GradientRow& row) { row.dsink = -row.dsink; }});
  }
  AddLanes(p, inputs, reference, rules);
  AddSplits(p, rules);
  return rules;
}

std::vector<FreeGradientRule> FreeGradientRules(const Problem& p) {
  std::vector<FreeGradientRule> rules;
  if (p.dropout) {
    rules.push_back({"dropout-scale", "as if in the backward pass dP, where dropout keeps it, were",
                     [](double factor, GradientRow& row) { ScaleKept(factor, false, row); }});
    rules.push_back({"dropout-scale",
                     "as if in the backward pass P and dP, where dropout keeps them, were",
                     [](double factor, GradientRow& row) { ScaleKept(factor, true, row); }});
  }
  // Of one row any D is some factor.
  if (p.batch * p.q_heads * p.q_len < 2) return rules;
  rules.push_back(
      {"gradient-delta", "as if D = dout . out were", [](double factor, GradientRow& row) {
         row.delta *= factor;
         row.dsink *= factor;
         SetScores(row);
       }});
  return rules;
}

std::string NameFactor(const Problem& p, double factor) {
  const auto ratio = static_cast<double>(p.heads_per_kv_head());
  const double scale = p.EffectiveScale(), dropped = p.dropout ? p.dropout->probability : 0;
  const std::pair<double, std::string_view> known[] = {
      {0, ""},
      {-1, ""},
      {2, ""},
      {scale, "the scale"},
      {1 / scale, "1 / scale"},
      {std::numbers::ln2, "ln 2"},
      {std::numbers::log2e, "log2(e)"},
      {ratio, "the query heads of a kv head"},
      {1 / ratio, "1 / the query heads of a kv head"},
      {static_cast<double>(p.q_heads), "q_heads"},
      {1.0 / static_cast<double>(p.q_heads), "1 / q_heads"},
      {scale * scale, "the scale squared"},
      {dropped, "the probability of dropout"},
      {1 - dropped, "1 - the probability of dropout"},
      {1 / (1 - dropped), "1 / (1 - the probability of dropout)"}};
  for (const auto& [value, word] : known) {
    if (word.empty() || std::abs(factor - value) > 1e-4 * std::abs(value)) continue;
    return fmt::format("{:.4g} ({})", factor, word);
  }
  return fmt::format("{:.4g}", factor);
}

}  // namespace attest
