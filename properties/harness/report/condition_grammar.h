// The grammar of `when` in a waiver, over cases of any type: a word ("causal"), its opposite ("no causal"), or a size
// or name compared ("q_len = 1", "kv_len > q_len", "dtype = f16"). What the words mean is a table for each type of case.
// Callers: waiver_conditions.cc, model_conditions.cc.
#ifndef ATTEST_HARNESS_REPORT_CONDITION_GRAMMAR_H_
#define ATTEST_HARNESS_REPORT_CONDITION_GRAMMAR_H_

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "properties/harness/judge/verdict.h"

namespace attest {

// The words for cases of type C. The tables outlive every condition that is made of them.
template <typename C>
struct ConditionWords {
  struct Flag {
    std::string_view word;
    bool (*holds)(const C&);
  };
  struct Size {
    std::string_view word;
    double (*of)(const C&, const Verdict&);
  };
  struct Name {
    std::string_view word;
    std::string (*of)(const C&);
    bool (*is_value)(const std::string&);
  };
  std::span<const Flag> flags;
  std::span<const Size> sizes;
  std::span<const Name> names;

  // All of them, with commas between.
  std::string All() const {
    std::string words;
    const auto add = [&](std::string_view word) {
      words += fmt::format("{}{}", words.empty() ? "" : ", ", word);
    };
    for (const Flag& flag : flags) add(flag.word);
    for (const Size& size : sizes) {
      if (Find(flags, size.word) == nullptr) add(size.word);
    }
    for (const Name& name : names) add(name.word);
    return words;
  }

  template <typename Row>
  static const Row* Find(std::span<const Row> table, std::string_view word) {
    const auto found =
        std::ranges::find_if(table, [&](const Row& row) { return row.word == word; });
    return found == table.end() ? nullptr : &*found;
  }
};

template <typename C>
class ConditionParser {
 public:
  using Condition = std::function<bool(const C&, const Verdict&)>;
  using Parsed = tl::expected<Condition, std::string>;
  using Words = ConditionWords<C>;

  explicit ConditionParser(const Words& words) : words_(words) {}

  // The error says what is wrong, in one line without a place.
  Parsed Parse(std::string_view text) const {
    std::istringstream stream{std::string(text)};
    std::vector<std::string> parts;
    for (std::string part; stream >> part;) parts.push_back(part);
    if (parts.size() == 1) return FlagCondition(parts[0], true);
    if (parts.size() == 2 && parts[0] == "no") return FlagCondition(parts[1], false);
    if (parts.size() != 3) {
      return tl::unexpected(fmt::format(
          "'{}' is no condition; write \"causal\", \"no mask\", \"q_len = 1\" or \"dtype = f16\"",
          text));
    }
    if (const auto* name = Words::Find(words_.names, parts[0])) {
      return NameCondition(*name, parts[1], parts[2]);
    }
    if (const auto* size = Words::Find(words_.sizes, parts[0])) {
      return SizeCondition(*size, parts[1], parts[2]);
    }
    return NoWord(parts[0]);
  }

 private:
  using Compare = bool (*)(double, double);

  static std::optional<Compare> FindOperator(std::string_view text) {
    const std::pair<std::string_view, Compare> operators[] = {
        {"=", [](double a, double b) { return a == b; }},
        {"!=", [](double a, double b) { return a != b; }},
        {"<", [](double a, double b) { return a < b; }},
        {"<=", [](double a, double b) { return a <= b; }},
        {">", [](double a, double b) { return a > b; }},
        {">=", [](double a, double b) { return a >= b; }}};
    for (const auto& [sign, compare] : operators) {
      if (sign == text) return compare;
    }
    return std::nullopt;
  }

  static std::optional<double> ParseNumber(const std::string& text) {
    std::istringstream stream(text);
    double number = 0;
    stream >> number;
    return stream && stream.eof() ? std::optional(number) : std::nullopt;
  }

  Parsed NoWord(const std::string& word) const {
    return tl::unexpected(fmt::format("'{}' is no word; known are {}", word, words_.All()));
  }

  Parsed FlagCondition(const std::string& word, bool wanted) const {
    const auto* flag = Words::Find(words_.flags, word);
    if (flag == nullptr) return NoWord(word);
    return Condition(
        [flag, wanted](const C& c, const Verdict&) { return flag->holds(c) == wanted; });
  }

  static Parsed NameCondition(const typename Words::Name& name, const std::string& sign,
                              const std::string& value) {
    if ((sign != "=" && sign != "!=") || !name.is_value(value)) {
      return tl::unexpected(fmt::format("'{0} {1} {2}': of {0} write = or != and one of its values",
                                        name.word, sign, value));
    }
    return Condition([&name, value, wanted = sign == "="](const C& c, const Verdict&) {
      return (name.of(c) == value) == wanted;
    });
  }

  Parsed SizeCondition(const typename Words::Size& size, const std::string& sign,
                       const std::string& value) const {
    const auto compare = FindOperator(sign);
    if (!compare)
      return tl::unexpected(fmt::format("'{}' is no operator; write = != < <= > >=", sign));
    if (const auto* other = Words::Find(words_.sizes, value)) {
      return Condition([&size, other, compare](const C& c, const Verdict& v) {
        return (*compare)(size.of(c, v), other->of(c, v));
      });
    }
    const auto number = ParseNumber(value);
    if (!number) return tl::unexpected(fmt::format("'{}' is no number and no size", value));
    return Condition([&size, number, compare](const C& c, const Verdict& v) {
      return (*compare)(size.of(c, v), *number);
    });
  }

  const Words& words_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_CONDITION_GRAMMAR_H_
