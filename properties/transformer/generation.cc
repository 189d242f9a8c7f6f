// Generation with a cache: it is the same computation, cut into steps. Whatever the chunks, whoever goes on from
// whom, and whatever other requests there are, the logits are those of the whole sequence at once.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

std::string NeedsCache(const ModelContract& contract, bool) {
  return contract.caches.empty() ? "the model has no cache" : "";
}

std::string NeedsReorder(const ModelContract& contract, bool) {
  return contract.reorder ? "" : "the model reorders no cache";
}

std::string NeedsBytes(const ModelContract& contract, bool) {
  return contract.cache_bytes ? "" : "the model does not say how large a cache is";
}

// Padding is as much in the way of bits as chunks are: the prompt alone has it.
bool PromisesBits(const ModelCase& c, const ModelContract& contract) {
  return contract.bits.chunks && (c.side == PaddingSide::kNone || contract.bits.padding);
}

std::string ChunksText(const ModelCase& c) {
  std::string text = "fed to a " + c.cache + " cache as a prompt";
  for (const int64_t chunk : c.chunks) text += fmt::format(" + {}", chunk);
  return text + "; due is what all of it gives at once";
}

Verdict ChunksEqualOneShot(const ModelCase& c, ModelLab& lab) {
  if (c.cache.empty()) return SaysNothing("nothing is generated");
  const auto answers = lab.Run(std::vector{AtOnce(c), Generated(c)});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), PromisesBits(c, lab.contract()));
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row((*answers)[0].At(b, i), (*answers)[1].At(b, i), b, i, ChunksText(c));
    }
  }
  return comparison.Finish();
}

// What each item holds as generation goes on: its history, and the sequence it began with.
struct Beams {
  std::vector<Sequence> tokens, sources;
};

std::vector<Beams> BeamsOf(const ModelCase& c) {
  std::vector<Beams> steps(1);
  for (const Sequence& sequence : c.tokens) {
    steps[0].tokens.emplace_back(sequence.begin(), sequence.end() - c.tail());
  }
  steps[0].sources = c.sources;
  int64_t left = c.tail();
  for (size_t step = 0; step < c.chunks.size(); ++step) {
    const Beams& last = steps.back();
    Beams next;
    for (size_t b = 0; b < c.tokens.size(); ++b) {
      const auto parent = c.parents.empty() ? b : static_cast<size_t>(c.parents[step][b]);
      next.tokens.push_back(last.tokens[parent]);
      const auto begin = c.tokens[b].end() - left;
      next.tokens[b].insert(next.tokens[b].end(), begin, begin + c.chunks[step]);
      if (!c.sources.empty()) next.sources.push_back(last.sources[parent]);
    }
    left -= c.chunks[step];
    steps.push_back(std::move(next));
  }
  return steps;
}

// A beam goes on from the history of its parent, whatever has become of that one since; who has no child is gone.
Verdict BeamsGoOnFromTheirParents(const ModelCase& c, ModelLab& lab) {
  if (c.parents.empty()) return SaysNothing("nothing is reordered");
  const std::vector<Beams> steps = BeamsOf(c);
  std::vector<ModelRequest> requests{Generated(c)};
  for (size_t step = 1; step < steps.size(); ++step) {
    requests.push_back(AtOnce(c));
    requests.back().tokens = steps[step].tokens;
    requests.back().sources = steps[step].sources;
  }
  const auto answers = lab.Run(requests);
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(),
                              PromisesBits(c, lab.contract()) && lab.contract().bits.batch);
  int64_t left = c.tail();
  for (size_t step = 1; step < steps.size(); ++step) {
    const int64_t chunk = c.chunks[step - 1];
    for (size_t b = 0; b < c.tokens.size(); ++b) {
      for (int64_t i = 0; i < chunk; ++i) {
        const auto whole = static_cast<size_t>(std::ssize(steps[step].tokens[b]) - chunk + i);
        const auto own = static_cast<size_t>(std::ssize(c.tokens[b]) - left + i);
        comparison.Row(
            (*answers)[step].At(b, whole), (*answers)[0].At(b, own), b, own,
            fmt::format("before step {} it went on from item {} of a {} cache; due is what its "
                        "whole history gives at once",
                        step, c.parents[step - 1][b], c.cache));
      }
    }
    left -= chunk;
  }
  return comparison.Finish();
}

// A request leaves nothing behind, whether it has ended or runs beside this one.
Verdict FreshRequestsSeeNothing(const ModelCase& c, ModelLab& lab) {
  if (c.cache.empty()) return SaysNothing("nothing is generated");
  ModelRequest other = Generated(c), beside = Generated(c);
  other.tokens = c.others;
  if (!c.sources.empty()) other.sources = c.other_sources;
  beside.decoy = c.others;
  const auto answers =
      lab.Run(std::vector{Generated(c), other, Generated(c), beside, AtOnce(c), Generated(c)});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), lab.contract().bits.rerun);
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      const auto due = (*answers)[0].At(b, i);
      comparison.Row(due, (*answers)[2].At(b, i), b, i, "a request of other tokens came before");
      comparison.Row(due, (*answers)[3].At(b, i), b, i, "a request of other tokens runs beside it");
      comparison.Row(due, (*answers)[5].At(b, i), b, i, "a call without a cache came before");
    }
  }
  return comparison.Finish();
}

int64_t DueBytes(const CacheGrowth& growth, const std::string& kind, int64_t batch,
                 int64_t tokens) {
  if (kind == "ring" && growth.slots > 0) tokens = std::min(tokens, growth.slots);
  if (kind == "paged") tokens = (tokens + growth.page - 1) / growth.page * growth.page;
  return growth.per_token * tokens * batch;
}

// Exactly as computed: one token costs what every other does.
Verdict BytesAreLinear(const ModelCase& c, ModelLab& lab) {
  if (c.cache.empty()) return SaysNothing("nothing is generated");
  ModelRequest request = Generated(c);
  request.wants_bytes = true;
  const auto answer = lab.Run(request);
  if (!answer) return answer.error();
  int64_t tokens = c.len() - c.tail();
  for (size_t step = 0; step < answer->cache_bytes.size(); ++step) {
    if (step > 0) tokens += c.chunks[step - 1];
    const int64_t due = DueBytes(*lab.contract().cache_bytes, c.cache, c.batch(), tokens);
    if (answer->cache_bytes[step] == due) continue;
    return ModelFailure(
        Cause::kValue, "cache_bytes",
        fmt::format("a {} cache of {} item{} with {} token{} uses {} bytes, where {} were due",
                    c.cache, c.batch(), c.batch() == 1 ? "" : "s", tokens, tokens == 1 ? "" : "s",
                    answer->cache_bytes[step], due));
  }
  return {};
}

constexpr ModelProperty kProperties[] = {
    {"cache.chunks_equal_one_shot",
     "A prompt and steps of any size through a cache have the logits of the whole sequence at "
     "once.",
     "a cache", kPartBatch | kPartChunks, NeedsCache, ChunksEqualOneShot},
    {"cache.beams_go_on_from_their_parents",
     "After a reordering each item goes on from what its parent held.", "a cache that reorders",
     kPartBatch | kPartChunks | kPartBeams, NeedsReorder, BeamsGoOnFromTheirParents},
    {"cache.fresh_requests_see_nothing_of_others",
     "A request has the same logits after others, and beside them.", "a cache",
     kPartBatch | kPartChunks | kPartOthers, NeedsCache, FreshRequestsSeeNothing},
    {"cache.bytes_are_linear", "A cache uses the bytes that its tokens cost, no more and no less.",
     "cache_bytes", kPartChunks, NeedsBytes, BytesAreLinear},
};

}  // namespace

std::span<const ModelProperty> GenerationProperties() {
  return kProperties;
}

}  // namespace attest
