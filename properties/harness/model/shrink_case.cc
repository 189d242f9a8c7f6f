// Model cases a little smaller than one.
#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "properties/harness/model/model_case.h"

namespace attest {
namespace {

template <typename T>
void EraseAt(std::vector<T>& values, size_t at) {
  if (at < values.size()) values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
}

class Candidates {
 public:
  Candidates(const ModelCase& from, const ModelContract& contract)
      : from_(from), contract_(contract) {}

  std::vector<ModelCase> Make() {
    Items();
    Lengths();
    Generation();
    Padding();
    Documents();
    Positions();
    Values();
    return std::move(all_);
  }

 private:
  void Try(const std::function<void(ModelCase&)>& change) {
    ModelCase smaller = from_;
    change(smaller);
    if (!SameCase(smaller, from_) && WhyInvalid(smaller, contract_).empty()) {
      all_.push_back(std::move(smaller));
    }
  }

  void Items() {
    for (size_t b = 0; from_.tokens.size() > 1 && b < from_.tokens.size(); ++b) {
      Try([&](ModelCase& c) {
        for (auto* all : {&c.tokens, &c.others, &c.sources, &c.other_sources}) EraseAt(*all, b);
        EraseAt(c.first_position, b);
        for (auto& parents : c.parents) {
          EraseAt(parents, b);
          for (int64_t& parent : parents) {
            const auto gone = static_cast<int64_t>(b);
            parent = parent == gone ? 0 : parent - (parent > gone ? 1 : 0);
          }
        }
      });
    }
  }

  // `count` tokens less of a pair of sequences, at the beginning or the end.
  static void Shorten(std::vector<Sequence>& all, size_t b, int64_t count, bool at_end) {
    if (b >= all.size() || std::ssize(all[b]) <= count) return;
    Sequence& s = all[b];
    at_end ? s.erase(s.end() - count, s.end()) : s.erase(s.begin(), s.begin() + count);
  }

  void LengthsOf(std::vector<Sequence> ModelCase::*all, std::vector<Sequence> ModelCase::*others) {
    for (const bool half : {true, false}) {
      for (const bool at_end : {true, false}) {
        // All items at once, for those that must be of one length, then each by itself.
        for (size_t b = 0; b <= (from_.*all).size(); ++b) {
          Try([&](ModelCase& c) {
            for (size_t item = 0; item < (c.*all).size(); ++item) {
              if (b < (c.*all).size() && item != b) continue;
              const int64_t count = half ? std::ssize((c.*all)[item]) / 2 : 1;
              Shorten(c.*all, item, count, at_end);
              Shorten(c.*others, item, count, at_end);
            }
          });
        }
      }
    }
  }

  void Lengths() {
    LengthsOf(&ModelCase::tokens, &ModelCase::others);
    LengthsOf(&ModelCase::sources, &ModelCase::other_sources);
  }

  void Generation() {
    for (size_t i = 0; i < from_.chunks.size(); ++i) {
      Try([&](ModelCase& c) {  // its tokens join the prompt
        EraseAt(c.chunks, i);
        EraseAt(c.parents, i);
      });
      Try([&](ModelCase& c) { c.chunks[i] = 1; });
      if (from_.parents.empty()) continue;
      for (size_t b = 0; b < from_.tokens.size(); ++b) {
        Try([&](ModelCase& c) { c.parents[i][b] = static_cast<int64_t>(b); });
      }
    }
    Try([&](ModelCase& c) { c.parents.clear(); });
    if (!from_.cache.empty()) Try([&](ModelCase& c) { c.cache = contract_.caches.front(); });
  }

  void Padding() {
    if (from_.tokens.empty()) return;
    Try([](ModelCase& c) { c.extra = 0; });
    Try([](ModelCase& c) { c.extra = std::max<int64_t>(c.extra - 1, 0); });
    Try([](ModelCase& c) { c.side = PaddingSide::kNone; });
    Try([](ModelCase& c) { c.filler = 0; });
    Try([](ModelCase& c) { c.other_filler = c.filler == 0 ? 1 : 0; });
  }

  void Documents() {
    for (size_t i = 0; i < from_.documents.size(); ++i) {
      if (from_.documents.size() > 1) Try([&](ModelCase& c) { EraseAt(c.documents, i); });
      for (const bool at_end : {true, false}) {
        Try([&](ModelCase& c) { Shorten(c.documents, i, 1, at_end); });
      }
    }
    Try([](ModelCase& c) { c.row_len = std::max<int64_t>(c.row_len - 1, 0); });
  }

  void Positions() {
    for (size_t b = 0; b < from_.first_position.size(); ++b) {
      for (const int64_t lower : {from_.first_position[b] / 2, from_.first_position[b] - 1}) {
        Try([&](ModelCase& c) { c.first_position[b] = std::max<int64_t>(lower, 0); });
      }
    }
  }

  // One token 0, and what it is changed to 1; and all at once.
  void ValuesOf(std::vector<Sequence> ModelCase::*all, int64_t lowest) {
    const auto lower = [&](ModelCase& c, size_t b, size_t i) {
      if ((c.*all)[b][i] > lowest) (c.*all)[b][i] = lowest;
    };
    const auto each = [&](const ModelCase& c, const std::function<void(size_t, size_t)>& visit) {
      for (size_t b = 0; b < (c.*all).size(); ++b) {
        for (size_t i = 0; i < (c.*all)[b].size(); ++i) visit(b, i);
      }
    };
    Try([&](ModelCase& c) { each(c, [&](size_t b, size_t i) { lower(c, b, i); }); });
    each(from_, [&](size_t b, size_t i) { Try([&](ModelCase& c) { lower(c, b, i); }); });
  }

  void Values() {
    ValuesOf(&ModelCase::tokens, 0);
    ValuesOf(&ModelCase::others, 1);
    ValuesOf(&ModelCase::sources, 0);
    ValuesOf(&ModelCase::other_sources, 1);
  }

  const ModelCase& from_;
  const ModelContract& contract_;
  std::vector<ModelCase> all_;
};

}  // namespace

std::vector<ModelCase> ShrinkCandidates(const ModelCase& c, const ModelContract& contract) {
  return Candidates(c, contract).Make();
}

bool SameCase(const ModelCase& a, const ModelCase& b) {
  const auto all = [](const ModelCase& c) {
    return std::tie(c.tokens, c.others, c.sources, c.other_sources, c.side, c.extra, c.filler,
                    c.other_filler, c.first_position, c.cache, c.chunks, c.parents, c.documents,
                    c.row_len, c.seed);
  };
  return all(a) == all(b);
}

}  // namespace attest
