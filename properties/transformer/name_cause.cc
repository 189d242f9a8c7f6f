#include "properties/transformer/name_cause.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/model/compare_logits.h"

namespace attest {
namespace {

// Shrinking asks for the cause of many cases, and a worker in Python starts in a second.
constexpr double kMostSecondsRefreshing = 3;

constexpr std::string_view kChunkNotCausal = "chunk-not-causal";

struct Named {
  std::string_view cause_class;
  std::string phrase;
};

Sequence Changed(Sequence tokens, int64_t by, int64_t vocab) {
  for (int64_t& token : tokens) token = (token + by) % vocab;
  return tokens;
}

bool HasPadding(const ModelCase& c) {
  const auto is_ragged = [](const std::vector<Sequence>& all) {
    return std::ranges::any_of(all, [&](const auto& s) { return s.size() != all[0].size(); });
  };
  return c.extra > 0 || is_ragged(c.tokens) || is_ragged(c.sources);
}

class CauseSearch {
 public:
  CauseSearch(const ModelCase& c, AskModel ask, size_t item, size_t token, ModelLab& lab)
      : c_(c), ask_(ask), b_(item), i_(token), lab_(lab), vocab_(lab.contract().vocab) {}

  std::optional<Named> Find() {
    if (DependsOnRequests()) {
      return Named{"request-before", "as if a request began with what one before it has left"};
    }
    if (!IsWrong(c_, b_, i_)) return std::nullopt;  // a rounding
    for (const auto& rule : {&CauseSearch::OtherItems, &CauseSearch::Padding}) {
      if (auto named = (this->*rule)()) return named;
    }
    // What is left is looked for in the sequence by itself.
    const ModelCase alone = Alone(c_, 0);
    if (!IsWrong(alone, 0, i_)) return std::nullopt;
    for (const auto& rule : {&CauseSearch::Source, &CauseSearch::Tokens, &CauseSearch::From,
                             &CauseSearch::Values, &CauseSearch::EveryStep}) {
      if (auto named = (this->*rule)(alone)) return named;
    }
    return std::nullopt;
  }

 private:
  using Rows = std::vector<ModelAnswer>;

  // Item b by itself, with so much padding.
  ModelCase Alone(const ModelCase& c, int64_t extra) const {
    ModelCase alone = c;
    alone.parents.clear();
    alone.first_position.clear();
    alone.tokens = {c.tokens[b_]};
    if (!c.sources.empty()) alone.sources = {c.sources[b_]};
    alone.extra = extra;
    if (extra == 0) alone.side = PaddingSide::kNone;
    return alone;
  }

  // The sequence at once, the one thing that is taken to be right.
  static ModelRequest Due(const ModelCase& c, size_t b) {
    ModelRequest due;
    due.tokens = {c.tokens[b]};
    if (!c.sources.empty()) due.sources = {c.sources[b]};
    return due;
  }

  bool IsWrong(const ModelCase& c, size_t b, size_t i) {
    if (!WhyInvalid(c, lab_.contract()).empty()) return false;
    const auto rows = lab_.Run(std::vector{ask_(c), Due(c, b)});
    return rows && IsApart((*rows)[0].At(b, i), (*rows)[1].At(0, i), lab_);
  }

  // Whether the row of one case is another than that of the other.
  bool Moves(const ModelCase& from, const ModelCase& to, size_t b) {
    const auto rows = lab_.Run(std::vector{ask_(from), ask_(to)});
    return rows && IsApart((*rows)[0].At(b, i_), (*rows)[1].At(b, i_), lab_);
  }

  ModelCase WithOthers(int64_t by) const {
    ModelCase c = c_;
    for (Sequence& tokens : c.tokens) tokens = Changed(tokens, by, vocab_);
    for (Sequence& source : c.sources) source = Changed(source, by, vocab_);
    return c;
  }

  bool DependsOnRequests() {
    const auto rows = lab_.Run(
        std::vector{ask_(WithOthers(1)), ask_(c_), ask_(WithOthers(vocab_ - 1)), ask_(c_)});
    if (rows && IsApart((*rows)[1].At(b_, i_), (*rows)[3].At(b_, i_), lab_)) return true;
    KernelSession& session = lab_.session();
    if (session.interrupted() || session.stats().seconds_refreshing > kMostSecondsRefreshing) {
      return false;
    }
    if (!IsWrong(c_, b_, i_)) return false;
    session.Refresh();
    return !IsWrong(c_, b_, i_);
  }

  bool IsMovedBy(size_t other) {
    ModelCase c = c_;
    c.tokens[other] = Changed(c.tokens[other], 1, vocab_);
    if (!c.sources.empty()) c.sources[other] = Changed(c.sources[other], 1, vocab_);
    return Moves(c_, c, b_);
  }

  std::optional<Named> OtherItems() {
    std::vector<size_t> by;
    for (size_t other = 0; other < c_.tokens.size(); ++other) {
      if (other != b_ && IsMovedBy(other)) by.push_back(other);
    }
    if (by.empty()) return std::nullopt;
    if (by == std::vector<size_t>{0} && b_ > 0) {
      return Named{"reads-item-0", "as if it were read from item 0: other tokens there move it"};
    }
    return Named{"reads-other-items", "other tokens in other items of the batch move it"};
  }

  std::optional<Named> Padding() {
    if (!HasPadding(c_)) return std::nullopt;
    ModelCase other = c_;
    other.filler = (c_.filler + 1) % vocab_;
    if (Moves(c_, other, b_)) {
      ModelCase own = c_;
      own.tokens[b_] = Changed(own.tokens[b_], 1, vocab_);
      if (!Moves(c_, own, b_)) {
        return Named{"mask-inverted", "as if padding were the tokens, and the tokens padding"};
      }
      return Named{"padding-visible", "as if padding were seen: what it holds moves it"};
    }
    if (IsWrong(Alone(c_, 0), 0, i_)) return std::nullopt;
    constexpr int64_t kSome = 2;
    const ModelCase padded = Alone(c_, kSome);
    if (IsWrong(padded, 0, i_)) {
      if (const auto named = Tokens(padded); named && named->cause_class == kChunkNotCausal) {
        return Named{"not-causal-beside-padding",
                     "as if causality were dropped where there is padding: a later token moves it"};
      }
      return Named{"padding-counts",
                   "as if padding counted, whatever it holds: without it the sequence is right"};
    }
    return Named{"lengths-of-other-items",
                 "as if it had the length or the positions of another item: alone it is right, "
                 "padded or not"};
  }

  // The token after which the chunk that holds token i ends.
  size_t ChunkEnd(const ModelCase& c) const {
    size_t end = c.tokens[0].size() - static_cast<size_t>(c.tail());
    for (const int64_t chunk : c.chunks) {
      if (i_ < end) break;
      end += static_cast<size_t>(chunk);
    }
    return end;
  }

  struct Seen {
    bool at_once = false, here = false;  // whether a change of the token moves the row at all
    bool far = false;                    // likewise by more than a rounding, here
  };

  Seen See(const ModelCase& alone, std::vector<Sequence> ModelCase::*where, size_t j) {
    Seen seen;
    for (const int64_t by : {int64_t{1}, std::max<int64_t>(vocab_ / 2, 1)}) {
      ModelCase changed = alone;
      int64_t& token = (changed.*where)[0][j];
      token = (token + by) % vocab_;
      const auto rows =
          lab_.Run(std::vector{ask_(alone), ask_(changed), Due(alone, 0), Due(changed, 0)});
      if (!rows) continue;
      seen.here |= !SameLogits((*rows)[0].At(0, i_), (*rows)[1].At(0, i_));
      seen.far |= IsApart((*rows)[0].At(0, i_), (*rows)[1].At(0, i_), lab_);
      seen.at_once |= !SameLogits((*rows)[2].At(0, i_), (*rows)[3].At(0, i_));
    }
    return seen;
  }

  std::optional<Named> Source(const ModelCase& alone) {
    for (size_t j = 0; !alone.sources.empty() && j < alone.sources[0].size(); ++j) {
      const Seen seen = See(alone, &ModelCase::sources, j);
      if (!seen.at_once || seen.here) continue;
      return Named{
          "source-forgotten",
          fmt::format("as if the source's token at position {} had been forgotten: it does "
                      "not move it",
                      j)};
    }
    return std::nullopt;
  }

  // Which tokens are seen that should not be, and which are not.
  std::optional<Named> Tokens(const ModelCase& alone) {
    std::vector<size_t> deaf, beyond;
    for (size_t j = 0; j < ChunkEnd(alone); ++j) {
      const Seen seen = See(alone, &ModelCase::tokens, j);
      const bool may =
          MayDepend(lab_.contract(), static_cast<int64_t>(i_), static_cast<int64_t>(j));
      if (may && seen.at_once && !seen.here) deaf.push_back(j);
      if (!may && seen.far) beyond.push_back(j);
    }
    if (!beyond.empty() && beyond.back() > i_) {
      return Named{kChunkNotCausal, "as if a chunk were not causal: a later token moves it"};
    }
    if (!beyond.empty() && !deaf.empty()) {
      return Named{"wrong-token-forgotten",
                   fmt::format("as if the token at position {} had been forgotten instead of that "
                               "at position {}",
                               deaf.front(), beyond.front())};
    }
    if (!deaf.empty()) {
      return Named{"forgets-tokens", fmt::format("as if the token at position {} had been "
                                                 "forgotten: it does not move it",
                                                 deaf.front())};
    }
    if (!beyond.empty()) {
      return Named{"reach-too-far",
                   fmt::format("as if it reached too far back: the token at position {} moves it",
                               beyond.front())};
    }
    return std::nullopt;
  }

  // Step by step through a long sequence of changing tokens: the first position that is wrong, where all from there on
  // are; 0 where there is none.
  int64_t FirstWrongStep(const ModelCase& alone) {
    const auto len = static_cast<size_t>(std::min<int64_t>(lab_.contract().max_len, 64));
    if (alone.cache.empty() || len < 4) return 0;
    ModelCase longer = alone;
    longer.tokens[0].clear();
    for (size_t j = 0; j < len; ++j) {
      longer.tokens[0].push_back((static_cast<int64_t>(3 * j) + 1) % vocab_);
    }
    longer.chunks.assign(len - 1, 1);
    const auto rows = lab_.Run(std::vector{ask_(longer), Due(longer, 0)});
    if (!rows) return 0;
    std::vector<bool> wrong;
    for (size_t j = 0; j < len; ++j) {
      wrong.push_back(IsApart((*rows)[0].At(0, j), (*rows)[1].At(0, j), lab_));
    }
    const auto first = std::ranges::find(wrong, true);
    const bool lasts = std::all_of(first, wrong.end(), [](bool one) { return one; });
    return first == wrong.end() || !lasts ? 0 : first - wrong.begin();
  }

  std::optional<Named> From(const ModelCase& alone) {
    constexpr int64_t kBeyondChance =
        4;  // the weights of a few keys may be right though their rule is not
    const int64_t first = lab_.contract().reach == 0 ? FirstWrongStep(alone) : 0;
    if (first < kBeyondChance) return std::nullopt;
    return Named{
        "from-a-position-on",
        fmt::format("as if positions came to an end: steps are right up to position {} and "
                    "wrong from there",
                    first - 1)};
  }

  std::optional<Named> EveryStep(const ModelCase& alone) {
    if (FirstWrongStep(alone) != 1) return std::nullopt;
    return Named{
        "every-step",
        "as if a step were another function (position, scale, source or layer): it is wrong in "
        "every one, even of one token behind one"};
  }

  std::optional<Named> Values(const ModelCase& alone) {
    if (alone.cache.empty() || lab_.contract().positions != ModelPositions::kRelative ||
        !alone.sources.empty()) {
      return std::nullopt;
    }
    ModelCase same = alone;
    std::ranges::fill(same.tokens[0], alone.tokens[0][i_]);
    if (IsWrong(same, 0, i_)) {
      return Named{"layers-in-a-step",
                   "as if a layer were another one in a step: it is wrong of equal tokens, too"};
    }
    return Named{"weights-in-a-step",
                 "as if keys were weighed otherwise in a step (which there are, their positions, "
                 "rotation or scale): of equal tokens it is right"};
  }

  const ModelCase& c_;
  const AskModel ask_;
  const size_t b_, i_;
  ModelLab& lab_;
  const int64_t vocab_;
};

}  // namespace

bool IsApart(const LogitsRow& a, const LogitsRow& b, const ModelLab& lab) {
  const double most = RoundingOf(a, b, lab.contract().Precision());
  for (size_t v = 0; v < a.size(); ++v) {
    if (std::isnan(a[v]) && std::isnan(b[v])) continue;
    if (a[v] != b[v] && !(std::abs(a[v] - b[v]) <= most)) return true;
  }
  return false;
}

void SetCause(std::string cause_class, std::string phrase, Verdict& verdict) {
  verdict.cause_class = std::move(cause_class);
  verdict.likely_cause = std::move(phrase);
  verdict.sentence += "; " + verdict.likely_cause;
}

bool NameUnstable(const ModelRequest& request, ModelLab& lab, Verdict& verdict) {
  // What a request has left behind shows in the first of three alone.
  const auto rows = lab.Run(std::vector{request, request, request});
  if (!rows || (*rows)[1].logits == (*rows)[2].logits) return false;
  bool apart = false;
  for (size_t b = 0; b < request.tokens.size(); ++b) {
    for (size_t i = 0; i < request.tokens[b].size(); ++i) {
      apart |= IsApart((*rows)[1].At(b, i), (*rows)[2].At(b, i), lab);
    }
  }
  if (apart) {
    SetCause("not-the-same-twice", "the same call made twice in a row gives other logits", verdict);
  }
  return apart;
}

void NameCause(const ModelCase& c, AskModel ask, ModelLab& lab, Verdict& verdict) {
  if (verdict.kind != VerdictKind::kFail || !verdict.witness || !lab.wants_cause()) return;
  // What it is held to is at fault, which is said elsewhere.
  if (!std::isfinite(verdict.witness->expected)) return;
  if (NameUnstable(ask(c), lab, verdict)) return;
  const auto item = static_cast<size_t>(verdict.witness->index[0]);
  const auto token = static_cast<size_t>(verdict.witness->index[2]);
  auto named = CauseSearch(c, ask, item, token, lab).Find();
  if (named) SetCause(std::string(named->cause_class), std::move(named->phrase), verdict);
}

}  // namespace attest
