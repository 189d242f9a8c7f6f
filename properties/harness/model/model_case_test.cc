#include "properties/harness/model/model_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace attest {
namespace {

using ::testing::HasSubstr;

ModelContract Contract(ModelKind kind) {
  ModelContract contract;
  contract.kind = kind;
  contract.vocab = 11;
  contract.max_len = contract.max_source_len = 24;
  contract.padding = {PaddingSide::kLeft, PaddingSide::kRight};
  contract.first_position = true;
  if (kind != ModelKind::kEncoder) contract.caches = {"contiguous", "ring"};
  if (kind == ModelKind::kDecoder) contract.batcher = BatcherContract{0, 1, std::nullopt, false};
  return contract;
}

constexpr uint32_t kAllButDocuments =
    kPartBatch | kPartOthers | kPartChunks | kPartBeams | kPartPosition;

template <typename Visit>
void ForEachDrawn(const Visit& visit) {
  for (const ModelKind kind :
       {ModelKind::kDecoder, ModelKind::kEncoder, ModelKind::kEncoderDecoder}) {
    const ModelContract contract = Contract(kind);
    for (uint64_t seed = 0; seed < 300; ++seed) {
      visit(DrawModelCase(seed, static_cast<int>(seed % 101), contract, kAllButDocuments),
            contract);
      if (!contract.batcher) continue;
      visit(DrawModelCase(seed, static_cast<int>(seed % 101), contract, kPartDocuments), contract);
    }
  }
}

TEST(ModelCaseTest, DrawnCasesAreValidAndOthersDiffer) {
  ForEachDrawn([](const ModelCase& c, const ModelContract& contract) {
    ASSERT_EQ(WhyInvalid(c, contract), "") << ToToml({c, "p", "", "", ""});
    for (size_t b = 0; b < c.tokens.size(); ++b) {
      for (size_t i = 0; i < c.tokens[b].size(); ++i) ASSERT_NE(c.tokens[b][i], c.others[b][i]);
    }
  });
}

TEST(ModelCaseTest, DrawnCasesMeetEveryKind) {
  int left = 0, ragged = 0, reordered = 0, later = 0, chunked = 0, together = 0;
  ForEachDrawn([&](const ModelCase& c, const ModelContract&) {
    left += c.side == PaddingSide::kLeft ? 1 : 0;
    const bool is_ragged = c.batch() > 1 && c.tokens[0].size() != c.tokens[1].size();
    ragged += is_ragged ? 1 : 0;
    reordered += c.parents.empty() ? 0 : 1;
    chunked += c.chunks.size() > 1 ? 1 : 0;
    later += c.first_position.empty() ? 0 : 1;
    together += is_ragged && !c.parents.empty() ? 1 : 0;
  });
  for (const int count : {left, ragged, reordered, later, chunked, together}) EXPECT_GT(count, 50);
}

TEST(ModelCaseTest, TextRoundTripKeepsEverything) {
  ForEachDrawn([](ModelCase c, const ModelContract&) {
    c.origin = "a \"quoted\" word";
    const ModelCaseFile file{c, "cache.bytes_are_linear", "python:my.py:model?a=b", "other",
                             "it\nfails"};
    const std::string text = ToToml(file);
    EXPECT_TRUE(IsModelCase(text));
    const auto back = ParseModelCase(text, "case.toml");
    ASSERT_TRUE(back) << back.error() << "\n" << text;
    if (!c.documents.empty()) c.filler = c.other_filler = 0;  // which mean nothing there
    ASSERT_TRUE(SameCase(back->c, c)) << text;
    EXPECT_EQ(back->c.origin, c.origin);
    EXPECT_EQ(back->model, file.model);
    EXPECT_EQ(back->against, file.against);
    EXPECT_EQ(back->property, file.property);
    EXPECT_EQ(back->finding, file.finding);
  });
}

// What shrinking lowers with every step.
int64_t Measure(const ModelCase& c) {
  int64_t sum = c.extra + c.row_len + std::ssize(c.chunks) +
                (c.side == PaddingSide::kNone ? 0 : 1) + c.filler + c.other_filler +
                (c.cache == "contiguous" ? 0 : 1);
  for (const auto* all : {&c.tokens, &c.others, &c.sources, &c.other_sources, &c.documents}) {
    for (const Sequence& s : *all) {
      sum += 100 + 20 * std::ssize(s) + std::accumulate(s.begin(), s.end(), int64_t{0});
    }
  }
  sum += std::accumulate(c.first_position.begin(), c.first_position.end(), int64_t{0}) + c.tail();
  for (const auto& parents : c.parents) {
    ++sum;
    for (size_t b = 0; b < parents.size(); ++b) {
      sum += parents[b] == static_cast<int64_t>(b) ? 0 : 1;
    }
  }
  return sum;
}

TEST(ModelCaseTest, CandidatesAreValidAndSmaller) {
  ForEachDrawn([](const ModelCase& c, const ModelContract& contract) {
    for (const ModelCase& smaller : ShrinkCandidates(c, contract)) {
      ASSERT_EQ(WhyInvalid(smaller, contract), "");
      ASSERT_LT(Measure(smaller), Measure(c))
          << ToToml({c, "p", "", "", ""}) << ToToml({smaller, "p", "", "", ""});
    }
  });
}

TEST(ModelCaseTest, CandidatesReachTheSmallestCase) {
  const ModelContract contract = Contract(ModelKind::kDecoder);
  ModelCase c = DrawModelCase(5, 60, contract, kAllButDocuments);
  for (auto next = ShrinkCandidates(c, contract); !next.empty();
       next = ShrinkCandidates(c, contract)) {
    c = next.front();
  }
  EXPECT_EQ(c.tokens, (std::vector<Sequence>{{0}}));
  EXPECT_EQ(c.others[0].size(), 1u);
  EXPECT_EQ(c.side, PaddingSide::kNone);
  EXPECT_TRUE(c.chunks.empty() && c.parents.empty());
}

TEST(ModelCaseTest, WhatAFileGetsWrongIsSaidWithItsLine) {
  const std::pair<std::string, const char*> wrong[] = {
      {"model_case = 1\nproperty = \"p\"\n", "case.toml"},
      {"model_case = 2\n", "case.toml:1"},
      {"model_case = 1\nproperty = \"p\"\n[case]\ntokens = [1]\n", "tokens holds lists"},
      {"model_case = 1\nproperty = \"p\"\n[case]\nside = \"top\"\n",
       "is none of none, left, right"},
      {"model_case = 1\nproperty = \"p\"\n[case]\nlength = 3\n", "length"},
  };
  for (const auto& [text, says] : wrong) {
    const auto file = ParseModelCase(text, "case.toml");
    ASSERT_FALSE(file) << text;
    EXPECT_THAT(file.error(), HasSubstr(says));
  }
}

TEST(ModelCaseTest, WhatTheContractDoesNotTakeIsNamed) {
  const ModelContract contract = Contract(ModelKind::kDecoder);
  const auto why = [&](auto change) {
    ModelCase c;
    c.tokens = {{1, 2, 3}, {4, 5, 6}};
    change(c);
    return WhyInvalid(c, contract);
  };
  EXPECT_EQ(why([](ModelCase&) {}), "");
  EXPECT_THAT(why([](ModelCase& c) { c.tokens[0][0] = 11; }),
              HasSubstr("outside the vocabulary of 11"));
  EXPECT_THAT(why([](ModelCase& c) { c.tokens[1].pop_back(); }), HasSubstr("need padding"));
  EXPECT_THAT(why([](ModelCase& c) { c.others = {{1}}; }), HasSubstr("of the shape"));
  EXPECT_THAT(why([](ModelCase& c) { c.chunks = {1}; }), HasSubstr("cache: is missing"));
  EXPECT_THAT(why([](ModelCase& c) {
                c.cache = "ring";
                c.chunks = {3};
              }),
              HasSubstr("leave no token to the prompt"));
  EXPECT_THAT(why([](ModelCase& c) { c.cache = "paged"; }), HasSubstr("no cache that is paged"));
  EXPECT_THAT(why([](ModelCase& c) {
                c.first_position = {22, 0};
              }),
              HasSubstr("reaches beyond the 24"));
  EXPECT_THAT(why([](ModelCase& c) { c.sources = {{1}, {2}}; }), HasSubstr("takes none"));
}

}  // namespace
}  // namespace attest
