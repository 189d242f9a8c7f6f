#include "properties/harness/report/model_conditions.h"

#include <algorithm>
#include <iterator>

#include "properties/harness/report/condition_grammar.h"
#include "properties/harness/sandbox/model_roles.h"

namespace attest {
namespace {

using Words = ConditionWords<ModelCase>;
using C = const ModelCase&;
using V = const Verdict&;

int64_t Longest(const std::vector<Sequence>& all) {
  int64_t longest = 0;
  for (const Sequence& one : all) longest = std::max<int64_t>(longest, std::ssize(one));
  return longest;
}

// Whether some row has tokens that are none.
bool IsPadded(C c) {
  const auto is_ragged = [](const std::vector<Sequence>& all) {
    return std::ranges::any_of(all, [&](const auto& s) { return s.size() != all[0].size(); });
  };
  return c.extra > 0 || is_ragged(c.tokens) || is_ragged(c.sources);
}

// As case files name them.
constexpr Words::Flag kFlags[] = {{"padding", IsPadded},
                                  {"cache", [](C c) { return !c.cache.empty(); }},
                                  {"parents", [](C c) { return !c.parents.empty(); }},
                                  {"sources", [](C c) { return !c.sources.empty(); }},
                                  {"first_position", [](C c) { return !c.first_position.empty(); }},
                                  {"documents", [](C c) { return !c.documents.empty(); }}};

constexpr Words::Size kSizes[] = {
    {"batch", [](C c, V) { return static_cast<double>(c.batch()); }},
    {"len", [](C c, V) { return static_cast<double>(c.len()); }},  // padding counted
    {"source_len", [](C c, V) { return static_cast<double>(Longest(c.sources) + c.extra); }},
    {"chunks", [](C c, V) { return static_cast<double>(std::ssize(c.chunks)); }},
    {"largest_chunk",
     [](C c, V) {
       return c.chunks.empty() ? 0.0 : static_cast<double>(*std::ranges::max_element(c.chunks));
     }},
    {"prompt_len", [](C c, V) { return static_cast<double>(c.len() - c.tail()); }},
    {"documents", [](C c, V) { return static_cast<double>(std::ssize(c.documents)); }},
    {"row_len", [](C c, V) { return static_cast<double>(c.row_len); }},
    // Where the value lies that was wrong, counted from the first token; -1 without one.
    {"position", [](C, V v) { return v.witness ? static_cast<double>(v.witness->index[2]) : -1; }}};

constexpr Words::Name kNames[] = {
    {"side", [](C c) { return std::string(Name(c.side)); },
     [](const std::string& word) { return word == "none" || word == "left" || word == "right"; }},
    {"cache", [](C c) { return c.cache; },
     [](const std::string& word) {
       return std::ranges::find(kCacheKinds, word) != std::end(kCacheKinds);
     }}};

const Words kWords{kFlags, kSizes, kNames};

}  // namespace

tl::expected<ModelCondition, std::string> ParseModelCondition(std::string_view text) {
  return ConditionParser<ModelCase>(kWords).Parse(text);
}

}  // namespace attest
