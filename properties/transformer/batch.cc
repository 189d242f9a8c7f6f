// The batch: items know nothing of one another, nor of where they stand.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"
#include "properties/transformer/name_cause.h"

namespace attest {
namespace {

std::string Always(const ModelContract&, bool) {
  return "";
}

// One place on, the last to the front.
template <typename T>
void Rotate(std::vector<T>& items) {
  if (!items.empty()) std::rotate(items.begin(), items.end() - 1, items.end());
}

Verdict OrderDoesNotMatter(const ModelCase& c, ModelLab& lab) {
  const size_t batch = c.tokens.size();
  if (batch < 2) return SaysNothing("a single item has no order");
  ModelRequest rotated = AtOnce(c);
  Rotate(rotated.tokens);
  Rotate(rotated.sources);
  const auto answers = lab.Run(std::vector{AtOnce(c), rotated});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.batch);
  for (size_t b = 0; b < batch; ++b) {
    const size_t now = (b + 1) % batch;
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row((*answers)[0].At(b, i), (*answers)[1].At(now, i), now, i,
                     fmt::format("due is what the sequence gives as item {}", b));
    }
  }
  return comparison.Finish();
}

Verdict NeighboursDoNotMatter(const ModelCase& c, ModelLab& lab) {
  const size_t batch = c.tokens.size();
  if (batch < 2) return SaysNothing("a single item has no neighbours");
  std::vector<ModelRequest> requests{AtOnce(c)};
  for (size_t b = 0; b < batch; ++b) {
    ModelRequest changed = AtOnce(c);
    changed.tokens = c.others;
    changed.tokens[b] = c.tokens[b];
    if (!c.sources.empty()) {
      changed.sources = c.other_sources;
      changed.sources[b] = c.sources[b];
    }
    requests.push_back(std::move(changed));
  }
  const auto answers = lab.Run(requests);
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.batch);
  for (size_t b = 0; b < batch; ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row((*answers)[0].At(b, i), (*answers)[b + 1].At(b, i), b, i,
                     "all other items of the batch hold other tokens");
    }
  }
  NameCause(c, AtOnce, lab, comparison.verdict());
  return comparison.Finish();
}

constexpr ModelProperty kProperties[] = {
    {"batch.order_does_not_matter",
     "A sequence has the same logits wherever it stands in the batch.", "", kPartBatch, Always,
     OrderDoesNotMatter},
    {"batch.neighbours_do_not_matter", "What the other items of a batch hold changes no logit.", "",
     kPartBatch | kPartOthers, Always, NeighboursDoNotMatter},
};

}  // namespace

std::span<const ModelProperty> ModelBatchProperties() {
  return kProperties;
}

}  // namespace attest
