#include "properties/harness/model/sides_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attest {
namespace {

std::string ListsText(const std::vector<Sequence>& lists) {
  std::vector<std::string> texts;
  texts.reserve(lists.size());
  for (const Sequence& list : lists) texts.push_back(fmt::format("[{}]", fmt::join(list, ", ")));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// "at once", "through a paged cache, a prompt and chunks of [1, 2]".
std::string HowText(const ModelRequest& request) {
  if (request.cache.empty()) return "at once";
  std::string text = "through a " + request.cache + " cache";
  if (!request.chunks.empty()) {
    text += fmt::format(", a prompt and chunks of [{}]", fmt::join(request.chunks, ", "));
  }
  if (!request.parents.empty()) text += ", going on from items " + ListsText(request.parents);
  if (!request.decoy.empty()) text += ", beside another cache of " + ListsText(request.decoy);
  return text;
}

std::string SideText(const char* name, const LogitsSide& side) {
  const ModelRequest& request = side.request;
  std::string text = fmt::format("{}: {}, {}; position {} of item {} of\n", name, side.model,
                                 HowText(request), side.token, side.item);
  text += "  tokens = " + ListsText(request.tokens) + "\n";
  if (!request.sources.empty()) text += "  sources = " + ListsText(request.sources) + "\n";
  if (request.side != PaddingSide::kNone) {
    text += fmt::format("  padded on the {} with {}, {} beyond the longest\n", Name(request.side),
                        request.filler, request.extra);
  }
  if (!request.first_position.empty()) {
    text += fmt::format("  beginning at positions [{}]\n", fmt::join(request.first_position, ", "));
  }
  return text;
}

// The tokens to show, in order: all of a few, else those that differ most.
std::vector<size_t> Shown(const std::vector<double>& due, const std::vector<double>& observed) {
  constexpr size_t kMost = 16;
  std::vector<size_t> tokens(due.size());
  std::iota(tokens.begin(), tokens.end(), size_t{0});
  if (tokens.size() <= kMost) return tokens;
  const auto differs_by = [&](size_t v) {
    const double difference = std::abs(due[v] - observed[v]);
    return std::isnan(difference) ? INFINITY : difference;
  };
  std::ranges::sort(tokens, {}, [&](size_t v) { return std::pair(-differs_by(v), v); });
  tokens.resize(kMost);
  std::ranges::sort(tokens);
  return tokens;
}

}  // namespace

std::string SidesText(const std::pair<LogitsSide, LogitsSide>& sides) {
  const auto& [due, observed] = sides;
  std::string text = SideText("due", due) + SideText("observed", observed);
  text +=
      fmt::format("  {:>8}  {:>16}  {:>16}  {:>11}\n", "token", "due", "observed", "difference");
  for (const size_t v : Shown(due.logits, observed.logits)) {
    const double a = due.logits[v], b = observed.logits[v];
    text += fmt::format("  {:>8}  {:>16.9g}  {:>16.9g}  {:>11.3g}\n", v, a, b, b - a);
  }
  return text;
}

}  // namespace attest
