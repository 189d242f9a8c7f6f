#include <limits>

#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

constexpr Row kOnly{};

}  // namespace

void Scene::ReadMaskAt(const Row& at, RowCase& c) const {
  const Problem& p = problem();
  BitPlane plane{{1, 1, 1, p.kv_len}, 4, {}};
  for (int64_t j = 0; j < p.kv_len; ++j) {
    plane.bits.push_back(p.mask->At(at.batch, at.head, at.query, j) ? 1 : 0);
  }
  c.problem.mask = std::move(plane);
}

void Scene::ReadBiasAt(const Row& at, RowCase& c) const {
  const Problem& p = problem();
  BitPlane plane{{1, 1, 1, p.kv_len}, 4, {}};
  c.bias.clear();
  for (int64_t j = 0; j < p.kv_len; ++j) {
    plane.bits.push_back(p.bias->At(at.batch, at.head, at.query, j) ? 1 : 0);
    c.bias.push_back(inputs().bias.Broadcast(at.batch, at.head, at.query, j));
  }
  c.problem.bias = std::move(plane);
}

void Scene::ReadDocumentAt(const Row& at, RowCase& c) const {
  const Documents& all = *problem().documents;
  const auto first = all.key.begin() + at.batch * problem().kv_len;
  c.problem.documents =
      Documents{{all.query[static_cast<size_t>(at.batch * problem().q_len + at.query)]},
                {first, first + problem().kv_len}};
}

void Scene::ReadBlocksAt(const Row& at, RowCase& c) const {
  const BlockMask& all = *problem().block_mask;
  BlockMask row{1, all.block_k, {{1, 1, 1, all.plane.shape[3]}, 4, {}}};
  for (int64_t n = 0; n < all.plane.shape[3]; ++n) {
    row.plane.bits.push_back(all.plane.At(at.batch, at.head, at.query / all.block_q, n) ? 1 : 0);
  }
  c.problem.block_mask = std::move(row);
}

RowCase Scene::CaseOf(const Row& row) const {
  if (!last_case_ || last_case_->first != row) last_case_ = {row, MakeCase(row)};
  return last_case_->second;
}

RowCase Scene::MakeCase(const Row& row) const {
  const Problem& p = problem();
  RowCase c;
  c.problem.kv_len = p.kv_len;
  c.problem.head_dim = p.head_dim;
  c.problem.value_dim = p.value_dim;
  c.problem.causal = p.causal;
  c.problem.window = p.window;
  c.problem.diagonal_offset = {row.query + p.DiagonalOffset(row.batch)};
  if (p.key_lengths) c.problem.key_lengths = {(*p.key_lengths)[static_cast<size_t>(row.batch)]};
  if (p.prefix_lengths) {
    c.problem.prefix_lengths = {(*p.prefix_lengths)[static_cast<size_t>(row.batch)]};
  }
  if (p.documents) ReadDocumentAt(row, c);
  if (p.block_mask) ReadBlocksAt(row, c);
  if (p.mask) ReadMaskAt(row, c);
  if (p.bias) ReadBiasAt(row, c);
  c.rule.query = row;
  c.rule.scale = p.EffectiveScale();
  c.rule.dims = p.head_dim;
  c.k = c.v = {row.batch, row.head / p.heads_per_kv_head(), 0};
  return c;
}

Term Scene::TermOf(const RowCase& c, int64_t j) const {
  Term term{c.k, c.v, 0, j};
  term.k.key = term.v.key = j;
  if (c.problem.bias && c.problem.bias->At(0, 0, 0, j)) term.bias = c.bias[static_cast<size_t>(j)];
  const Row& row = c.rule.query;
  term.bias += problem().Alibi(row.batch, row.head, row.query, j);
  return term;
}

RowRule Scene::RuleOf(const RowCase& c) const {
  RowRule rule = c.rule;
  for (const int64_t j : VisibleKeys(c.problem, kOnly)) rule.terms.push_back(TermOf(c, j));
  return rule;
}

void HypothesisBank::Add(std::string_view cause_class, std::string phrase,
                         std::function<std::optional<RowRule>(const Row&)> rule) {
  all_.push_back({cause_class, std::move(phrase), std::move(rule)});
}

void HypothesisBank::AddCase(std::string_view cause_class, std::string phrase, CaseChange change) {
  Add(cause_class, std::move(phrase),
      [scene = &scene_, change = std::move(change)](const Row& row) {
        RowCase c = scene->CaseOf(row);
        change(*scene, row, c);
        return scene->RuleOf(c);
      });
}

void HypothesisBank::AddRule(std::string_view cause_class, std::string phrase, RuleChange change) {
  Add(cause_class, std::move(phrase),
      [scene = &scene_, change = std::move(change)](const Row& row) {
        RowRule rule = scene->TrueRule(row);
        change(rule);
        return rule;
      });
}

}  // namespace attest
