// Generation with a cache: it is the same computation, cut into steps. Whatever the chunks, whoever goes on from
// whom, and whatever other requests there are, the logits are those of the whole sequence at once.
#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"
#include "properties/transformer/name_cause.h"

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
  NameCause(c, Generated, lab, comparison.verdict());
  if (comparison.verdict().cause_class.empty()) {
    NameCause(c, AtOnce, lab, comparison.verdict());  // it may be what was due that is wrong
  }
  return comparison.Finish();
}

// What each item holds as generation goes on: its history, and the sequence it began with.
struct Beams {
  std::vector<Sequence> tokens, sources;
};

// What a step makes of the items before it: who goes on from whom.
using ReorderRule = Beams (*)(const Beams& before, const std::vector<int64_t>& parents);

Beams FromParents(const Beams& before, const std::vector<int64_t>& parents) {
  Beams next = before;
  for (size_t b = 0; b < parents.size(); ++b) {
    const auto parent = static_cast<size_t>(parents[b]);
    next.tokens[b] = before.tokens[parent];
    if (!before.sources.empty()) next.sources[b] = before.sources[parent];
  }
  return next;
}

Beams NotAtAll(const Beams& before, const std::vector<int64_t>&) {
  return before;
}

// One by one, over parents that are yet to be read.
Beams InPlace(const Beams& before, const std::vector<int64_t>& parents) {
  Beams next = before;
  for (size_t b = 0; b < parents.size(); ++b) {
    const auto parent = static_cast<size_t>(parents[b]);
    next.tokens[b] = next.tokens[parent];
    if (!before.sources.empty()) next.sources[b] = next.sources[parent];
  }
  return next;
}

Beams TheOtherWay(const Beams& before, const std::vector<int64_t>& parents) {
  Beams next = before;
  for (size_t b = 0; b < parents.size(); ++b) {
    const auto child = static_cast<size_t>(parents[b]);
    next.tokens[child] = before.tokens[b];
    if (!before.sources.empty()) next.sources[child] = before.sources[b];
  }
  return next;
}

Beams WithoutSources(const Beams& before, const std::vector<int64_t>& parents) {
  Beams next = FromParents(before, parents);
  next.sources = before.sources;
  return next;
}

std::vector<Beams> BeamsOf(const ModelCase& c, ReorderRule rule = FromParents) {
  std::vector<Beams> steps(1);
  for (const Sequence& sequence : c.tokens) {
    steps[0].tokens.emplace_back(sequence.begin(), sequence.end() - c.tail());
  }
  steps[0].sources = c.sources;
  int64_t left = c.tail();
  for (size_t step = 0; step < c.chunks.size(); ++step) {
    Beams next = rule(steps.back(), c.parents[step]);
    for (size_t b = 0; b < c.tokens.size(); ++b) {
      const auto begin = c.tokens[b].end() - left;
      next.tokens[b].insert(next.tokens[b].end(), begin, begin + c.chunks[step]);
    }
    left -= c.chunks[step];
    steps.push_back(std::move(next));
  }
  return steps;
}

// Of beams that hold much the same little can be told: three that share no token, and orders that tell rules apart.
ModelCase TellingBeams(const ModelCase& c, const ModelContract& contract) {
  constexpr int64_t kBeams = 3, kPrompt = 3;
  ModelCase telling;
  telling.cache = c.cache;
  telling.chunks = {1, 1};
  telling.parents = {{1, 2, 0}, {2, 0, 0}};
  int64_t next = 0;
  const auto draw = [&](int64_t len) {
    Sequence tokens;
    for (int64_t i = 0; i < len; ++i) tokens.push_back(next++ * 5 % contract.vocab);
    return tokens;
  };
  for (int64_t b = 0; b < kBeams; ++b) {
    telling.tokens.push_back(draw(kPrompt + telling.tail()));
    if (!c.sources.empty()) telling.sources.push_back(draw(2));
  }
  return telling;
}

// The rows that the steps of the case gave, beside those due where caches are reordered by the rule.
bool FollowsRule(const ModelCase& c, ReorderRule rule, const ModelAnswer& observed, ModelLab& lab) {
  const std::vector<Beams> steps = BeamsOf(c, rule);
  int64_t left = c.tail();
  for (size_t step = 1; step < steps.size(); ++step) {
    for (size_t b = 0; b < c.tokens.size(); ++b) {
      ModelRequest request;
      request.tokens = {steps[step].tokens[b]};
      if (!c.sources.empty()) request.sources = {steps[step].sources[b]};
      const auto answer = lab.Run(request);
      const auto own = static_cast<size_t>(std::ssize(c.tokens[b]) - left);
      const size_t last = request.tokens[0].size() - 1;
      if (!answer || IsApart(answer->At(0, last), observed.At(b, own), lab)) return false;
    }
    left -= c.chunks[step - 1];
  }
  return true;
}

// Whether what is before the first step in an item moves the row of that step in item 0.
bool MovesFirstStep(const ModelCase& c, size_t item, ModelLab& lab) {
  ModelCase changed = c;
  for (int64_t i = 0; i < std::ssize(c.tokens[item]) - c.tail(); ++i) {
    int64_t& token = changed.tokens[item][static_cast<size_t>(i)];
    token = (token + 1) % lab.contract().vocab;
  }
  const auto rows = lab.Run(std::vector{Generated(c), Generated(changed)});
  const auto at = static_cast<size_t>(std::ssize(c.tokens[0]) - c.tail());
  return rows && IsApart((*rows)[0].At(0, at), (*rows)[1].At(0, at), lab);
}

void NameReordering(const ModelCase& telling, ModelLab& lab, Verdict& verdict) {
  const auto observed = lab.Run(Generated(telling));
  if (!observed || FollowsRule(telling, FromParents, *observed, lab)) return;
  constexpr std::tuple<ReorderRule, const char*, const char*> kRules[] = {
      {NotAtAll, "reorder-forgotten", "as if the cache were left as it is"},
      {InPlace, "reorder-in-place",
       "as if items were copied one by one, over parents that are yet to be read"},
      {TheOtherWay, "reorder-inverted", "as if parents[b] were told to go on from b"},
      {WithoutSources, "sources-not-reordered", "as if items kept their sources"}};
  for (const auto& [rule, cause_class, phrase] : kRules) {
    if (FollowsRule(telling, rule, *observed, lab)) return SetCause(cause_class, phrase, verdict);
  }
  const auto parent = static_cast<size_t>(telling.parents[0][0]);
  if (MovesFirstStep(telling, 0, lab) && MovesFirstStep(telling, parent, lab)) {
    SetCause("reorder-in-part",
             "as if a part of the cache (keys or values, or a layer) were left as it is", verdict);
  }
}

// Where the same chunks without a reordering are wrong, too, it is not the reordering that is at fault.
void ExplainBeams(const ModelCase& c, ModelLab& lab, Verdict& verdict) {
  if (verdict.kind != VerdictKind::kFail || !lab.wants_cause()) return;
  ModelCase plain = c;
  plain.parents.clear();
  NameCause(plain, Generated, lab, verdict);
  if (!verdict.cause_class.empty()) return;
  const ModelCase telling = TellingBeams(c, lab.contract());
  if (!WhyInvalid(telling, lab.contract()).empty()) return;
  NameReordering(telling, lab, verdict);
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
  ExplainBeams(c, lab, comparison.verdict());
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
      const bool so_far = comparison.has_failed();
      comparison.Row(due, (*answers)[2].At(b, i), b, i, "a request of other tokens came before");
      comparison.Row(due, (*answers)[5].At(b, i), b, i, "a call without a cache came before");
      const bool alone = comparison.has_failed();
      comparison.Row(due, (*answers)[3].At(b, i), b, i, "a request of other tokens runs beside it");
      if (so_far || !comparison.has_failed() || !lab.wants_cause()) continue;
      if (NameUnstable(Generated(c), lab, comparison.verdict())) continue;
      alone ? SetCause("request-before", "as if a request began with what one before it has left",
                       comparison.verdict())
            : SetCause("request-beside", "as if open caches shared what they hold",
                       comparison.verdict());
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

// What a cache is paid for instead: rules that every step of the answer must fit.
void ExplainBytes(const ModelCase& c, const std::vector<int64_t>& bytes, const ModelLab& lab,
                  Verdict& verdict) {
  const CacheGrowth& growth = *lab.contract().cache_bytes;
  const auto fits = [&](const std::function<int64_t(int64_t)>& held) {
    int64_t tokens = c.len() - c.tail();
    for (size_t step = 0; step < bytes.size(); ++step) {
      if (step > 0) tokens += c.chunks[step - 1];
      if (bytes[step] != DueBytes(growth, c.cache, c.batch(), held(tokens))) return false;
    }
    return true;
  };
  const std::tuple<int64_t, const char*> rooms[] = {
      {c.len(), "as if a cache were paid for all the tokens it will hold from the first one on"},
      {lab.contract().max_len, "as if a cache were always paid for max_len tokens"}};
  for (const auto& [room, phrase] : rooms) {
    const int64_t always = room;
    if (fits([always](int64_t) { return always; }))
      return SetCause("bytes-of-the-capacity", phrase, verdict);
  }
  if (fits([&](int64_t tokens) { return tokens + (tokens > c.len() - c.tail() ? 1 : 0); })) {
    return SetCause("bytes-of-more-tokens", "as if a token were held twice from the first step on",
                    verdict);
  }
  for (int64_t more = 1; more <= lab.contract().max_len; ++more) {
    if (!fits([more](int64_t tokens) { return tokens + more; })) continue;
    return SetCause("bytes-of-more-tokens",
                    fmt::format("as if the cache held {} token{} more", more, more == 1 ? "" : "s"),
                    verdict);
  }
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
    Verdict verdict = ModelFailure(
        Cause::kValue, "cache_bytes",
        fmt::format("a {} cache of {} item{} with {} token{} uses {} bytes, where {} were due",
                    c.cache, c.batch(), c.batch() == 1 ? "" : "s", tokens, tokens == 1 ? "" : "s",
                    answer->cache_bytes[step], due));
    ExplainBytes(c, answer->cache_bytes, lab, verdict);
    return verdict;
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
