#include "properties/harness/case/toml.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/test_contracts.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

CaseFile FileOf(const Case& c) {
  return CaseFile{c, std::nullopt, std::nullopt, std::nullopt};
}

void ExpectRoundTrip(const Case& c) {
  const std::string text = ToToml(FileOf(c));
  const auto parsed = ParseToml(text, "x.toml");
  ASSERT_TRUE(parsed) << parsed.error() << "\n" << text;
  ASSERT_TRUE(SameCase(parsed->c, c)) << text;
  ASSERT_EQ(ToToml(*parsed), text);
}

TEST(TomlTest, TextRoundTripKeepsThreeThousandDrawnCases) {
  for (const Contract& contract : TestContracts()) {
    for (uint64_t seed = 0; seed < 750; ++seed) {
      ExpectRoundTrip(DrawCase(seed, static_cast<int>(seed % 101), contract));
    }
  }
}

TEST(TomlTest, TextRoundTripKeepsEveryBitOfLiteralsAndOverrides) {
  Case c;
  c.problem.dtype = DType::kF64;
  c.problem.q_len = 2;
  c.problem.kv_len = 3;
  c.problem.scale = 0.1;
  c.problem.bias = BitPlane{{1, 1, 2, 3}, 2, {1, 0, 1, 1, 1, 1}};
  Array k({1, 1, 3, 1});
  k.values = {std::nan(""), -0.0, 5e-324};
  c.literals[DataTensor::kK] = k;
  Array bias({1, 1, 2, 3});
  bias.values = {0.1, -kInf, 1e308, kInf, 123456789.0, -1.0 / 3};
  c.literals[DataTensor::kBias] = bias;
  c.overrides = {{DataTensor::kQ, {0, 0, 1, 0}, kInf}, {DataTensor::kV, {0, 0, 2, 0}, -0.0}};
  c.recipe.seed = ~uint64_t{0};
  ExpectRoundTrip(c);
}

Case OfEverything() {
  Case c;
  Problem& p = c.problem;
  p.batch = 2;
  p.q_heads = 2;
  p.q_len = 2;
  p.kv_len = 3;
  p.dtype = DType::kBF16;
  p.bias = BitPlane{{1, 1, 1, 3}, 4, {1, 0, 1}};
  p.bias_dtype = DType::kF32;
  p.fp8 = Fp8{DType::kE5M2, 0.5, 1, 2};
  p.softcap = 30;
  p.alibi_slopes = {0.5, -0.0};
  p.sinks = {-1, 131072};
  p.causal = true;
  p.query_lengths = {0, 2};
  p.prefix_lengths = {3, 1};
  p.want_scores = ScoreMode::kCapped;
  p.documents = Documents{{0, -1, 7, 7}, {0, 0, INT64_MAX, 7, 7, INT64_MIN}};
  p.block_mask = BlockMask{16, 2, {{1, 2, 1, 2}, 4, {1, 0, 0, 1}}};
  p.dropout = Dropout{0.1, {{2, 2, 2, 3}, 4, std::vector<uint8_t>(24, 1)}};
  p.dropout->keep.bits[5] = 0;
  c.layouts = {Layout::kPackedQkv, Layout::kSharedHead, Layout::kSharedHead, Layout::kPackedQkv};
  c.storage.past = 2;
  c.storage.without_present = true;
  return c;
}

TEST(TomlTest, TextRoundTripKeepsEveryFeature) {
  ExpectRoundTrip(OfEverything());
  Case packed;
  packed.problem.query_lengths = packed.problem.key_lengths = {1};
  packed.storage.packed = true;
  ExpectRoundTrip(packed);
  Case pages;
  pages.storage.page_size = 16;
  ExpectRoundTrip(pages);
  Case ring;
  ring.storage.ring = true;
  ExpectRoundTrip(ring);
  Case empty;
  empty.problem.batch = empty.problem.q_heads = empty.problem.kv_heads = 0;
  empty.problem.documents.emplace();
  empty.problem.sinks.emplace();
  empty.problem.query_lengths.emplace();
  empty.problem.dropout = Dropout{0.5, {{0, 0, 1, 1}, 4, {}}};
  empty.problem.block_mask = BlockMask{1, 1, {{1, 1, 1, 1}, 4, {0}}};
  ExpectRoundTrip(empty);
}

TEST(TomlTest, FeaturesReadAsTheyAreWritten) {
  const std::string text = ToToml(FileOf(OfEverything()));
  for (const char* line :
       {"bias_dtype = \"f32\"\n",
        "fp8 = {format = \"e5m2\", q_scale = 0.5, k_scale = 1.0, v_scale = 2.0}",
        "softcap = 30.0  # s becomes softcap * tanh(s / softcap)\n",
        "alibi_slopes = [0.5, -0.0]  # adds -slope[h] * |i + offset - j|\n",
        "sinks = [-1.0, 131072.0]  #", "prefix_lengths = [3, 1]  #", "query_lengths = [0, 2]  #",
        "want_scores = \"capped\"\n", "query = [\n  [0, -1],\n  [7, 7],\n]\n",
        "block_q = 16\nblock_k = 2\nshape = [1, 2, 1, 2]\n", "probability = 0.1\n",
        "q = \"packed_qkv\"\nk = \"shared_head\"\n", "[storage]  #", "past = 2  #",
        "\nwithout_present = true\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(TomlTest, LiteralsOfEmptyTensorsRoundTrip) {
  Case c;
  c.problem.batch = 2;
  c.problem.kv_len = 0;
  c.problem.mask = BitPlane{{2, 1, 1, 0}, 4, {}};
  c.literals[DataTensor::kK] = Array(c.problem.KShape());
  ExpectRoundTrip(c);
  c.problem.batch = 0;
  c.problem.mask = BitPlane{{0, 1, 1, 0}, 4, {}};
  c.literals[DataTensor::kK] = Array(c.problem.KShape());
  ExpectRoundTrip(c);
}

TEST(TomlTest, WhatStandsBesideTheCaseRoundTrips) {
  CaseFile file{Case{}, "causal.future", "mutant:\"x\"\n", "tab\tand \\ and \x7F and \xC3\xA9"};
  file.c.origin = "line one\nline two";
  const auto parsed = ParseToml(ToToml(file), "x.toml");
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->property, file.property);
  EXPECT_EQ(parsed->kernel, file.kernel);
  EXPECT_EQ(parsed->finding, file.finding);
  EXPECT_EQ(parsed->c.origin, file.c.origin);
}

TEST(TomlTest, CallsThatAreMadeBeforeRoundTrip) {
  CaseFile file = FileOf(Case{});
  Case masked, literal;
  masked.problem.q_len = 5;
  masked.problem.mask = BitPlane{{1, 1, 1, masked.problem.kv_len}, 4, {}};
  masked.problem.mask->bits.assign(static_cast<size_t>(masked.problem.kv_len), 1);
  literal.literals[DataTensor::kK] = Array(literal.problem.KShape());
  literal.storage.past = 1;
  file.before = {masked, literal};
  const auto parsed = ParseToml(ToToml(file), "x.toml");
  ASSERT_TRUE(parsed) << parsed.error();
  ASSERT_EQ(parsed->before.size(), 2u);
  EXPECT_TRUE(SameCase(parsed->before[0], masked));
  EXPECT_TRUE(SameCase(parsed->before[1], literal));
  EXPECT_TRUE(SameCase(parsed->c, file.c));
}

TEST(TomlTest, AFaultInACallBeforeIsNamedWithItsLine) {
  const std::string text = ToToml(FileOf(Case{}));
  const auto lines = std::count(text.begin(), text.end(), '\n');
  const auto error = ParseToml(text + "[[before]]\nversion = 2\n", "x.toml");
  ASSERT_FALSE(error);
  EXPECT_THAT(error.error(), testing::StartsWith(fmt::format("x.toml:{}: ", lines + 2)));
  EXPECT_FALSE(ParseToml("before = 1\n" + text, "x.toml"));
}

TEST(TomlTest, BytesThatAreNotTextDoNotBreakTheFile) {
  Case c;
  c.origin = "\xFF\xC0\xAF\xED\xA0\x80 end\xE2\x82";
  const auto parsed = ParseToml(ToToml(FileOf(c)), "x.toml");
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_THAT(parsed->c.origin, HasSubstr("? end?"));
}

constexpr char kMinimal[] =
    "version = 1\n"
    "[problem]\n"
    "batch = 1\n"
    "q_heads = 8\n"
    "kv_heads = 2\n"
    "q_len = 2\n"
    "kv_len = 3\n"
    "head_dim = 1\n"
    "value_dim = 1\n";

std::string ErrorOf(const std::string& text) {
  const auto parsed = ParseToml(text, "x.toml");
  if (parsed) return "no error";
  EXPECT_EQ(parsed.error().find('\n'), std::string::npos) << parsed.error();
  return parsed.error();
}

std::string Replaced(std::string from, std::string to) {
  std::string text = kMinimal;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(TomlTest, AMinimalFileIsACase) {
  const auto parsed = ParseToml(kMinimal, "x.toml");
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->c.problem.q_heads, 8);
  EXPECT_FALSE(parsed->c.problem.scale);
}

TEST(TomlTest, ErrorsInTheProblemNameTheirLine) {
  EXPECT_EQ(ErrorOf(Replaced("kv_heads = 2", "kv_heads = 3")),
            "x.toml:5: kv_heads = 3 does not divide q_heads = 8");
  EXPECT_THAT(ErrorOf(Replaced("q_len = 2", "q_len = -2")), HasSubstr("x.toml:6: q_len = -2"));
  EXPECT_THAT(ErrorOf(Replaced("q_len = 2", "q_len = 2.0")), HasSubstr("x.toml:6: q_len must be"));
  EXPECT_THAT(ErrorOf(Replaced("q_len = 2", "q_leng = 2")), HasSubstr("x.toml:6: unknown key"));
  EXPECT_THAT(ErrorOf(Replaced("q_len = 2\n", "")), HasSubstr("x.toml:2: q_len is missing"));
  EXPECT_THAT(ErrorOf(Replaced("version = 1", "version = 2")), HasSubstr("x.toml:1: version = 2"));
  EXPECT_THAT(ErrorOf(Replaced("q_len = 2", "q_len = ")), HasSubstr("x.toml:6: "));
  EXPECT_THAT(ErrorOf(""), HasSubstr("version is missing"));
}

TEST(TomlTest, ErrorsInTheSectionsNameTheirLine) {
  const std::string m = kMinimal;  // nine lines
  EXPECT_THAT(ErrorOf(m + "dtype = \"f8\""),
              HasSubstr("x.toml:10: dtype = \"f8\" is not known; known are f32, f64, f16, bf16"));
  EXPECT_THAT(ErrorOf(m + "dtype = \"bool\""), HasSubstr("x.toml:10: dtype bool"));
  EXPECT_THAT(ErrorOf(m + "scale = nan"), HasSubstr("x.toml:10: scale"));
  EXPECT_THAT(ErrorOf(m + "causal = 1"), HasSubstr("x.toml:10: causal must be true or false"));
  EXPECT_THAT(ErrorOf(m + "window = {left = -1}"), HasSubstr("x.toml:10: left = -1"));
  EXPECT_THAT(ErrorOf(m + "window = {lft = 1}"), HasSubstr("unknown key \"lft\""));
  EXPECT_THAT(ErrorOf(m + "key_lengths = [4]"), HasSubstr("x.toml:10: key_lengths"));
  EXPECT_THAT(ErrorOf(m + "key_lengths = [1, 1]"), HasSubstr("x.toml:10: key_lengths has 2"));
  EXPECT_THAT(ErrorOf(m + "diagonal_offset = [1, 1]"), HasSubstr("x.toml:10: diagonal_offset"));
  EXPECT_THAT(ErrorOf(m + "[mask]\nshape=[1,1,2]\nrows=[]"), HasSubstr("x.toml:11: shape"));
  EXPECT_THAT(ErrorOf(m + "[mask]\nshape=[1,1,2,4]\nrows=[]"), HasSubstr("x.toml:11: shape[3]"));
  EXPECT_THAT(ErrorOf(m + "[mask]\nshape=[1,1,2,3]\nrows=[\"111\"]"), HasSubstr("x.toml:12: rows"));
  EXPECT_THAT(ErrorOf(m + "[mask]\nshape=[1,1,2,3]\nrows=[\"111\",\n\"121\"]"),
              HasSubstr("x.toml:13: a row"));
  EXPECT_THAT(ErrorOf(m + "[mask]\nshape=[1,8,2,3]\nrank=2\nrows=[" +
                      [] {
                        std::string rows;
                        for (int n = 0; n < 16; ++n) rows += "\"111\",";
                        return rows;
                      }() +
                      "]"),
              HasSubstr("x.toml:11: mask.shape[1]"));
}

TEST(TomlTest, ErrorsInTheFeaturesNameTheirLine) {
  const std::string m = kMinimal;  // nine lines
  EXPECT_THAT(ErrorOf(m + "softcap = -1"), HasSubstr("x.toml:10: softcap = -1"));
  EXPECT_THAT(ErrorOf(m + "sinks = [1]"), HasSubstr("x.toml:10: sinks has 1 entries"));
  EXPECT_THAT(ErrorOf(m + "sinks = [\"1\"]"), HasSubstr("x.toml:10: sinks must be a number"));
  EXPECT_THAT(ErrorOf(m + "alibi_slopes = 1"), HasSubstr("x.toml:10: alibi_slopes must be"));
  EXPECT_THAT(ErrorOf(m + "query_lengths = [3]"), HasSubstr("x.toml:10: query_lengths holds 3"));
  EXPECT_THAT(ErrorOf(m + "prefix_lengths = [4]"), HasSubstr("x.toml:10: prefix_lengths holds 4"));
  EXPECT_THAT(ErrorOf(m + "fp8 = {format = \"f16\"}"), HasSubstr("x.toml:10: fp8.format = f16"));
  EXPECT_THAT(ErrorOf(m + "fp8 = {format = \"e4m3\", q_scale = 0}"),
              HasSubstr("x.toml:10: fp8.q_scale = 0"));
  EXPECT_THAT(ErrorOf(m + "fp8 = {scale = 1}"), HasSubstr("x.toml:10: unknown key"));
  EXPECT_THAT(ErrorOf(m + "bias_dtype = \"f16\""), HasSubstr("x.toml:10: bias_dtype = f16"));
  EXPECT_THAT(ErrorOf(m + "bias_dtype = \"f32\""), HasSubstr("x.toml:10: bias_dtype"));
  EXPECT_THAT(ErrorOf(m + "prefix_lengths = [1]"), HasSubstr("without causal = true"));
  EXPECT_EQ(ErrorOf(m + "causal = true\nprefix_lengths = [1]"), "no error");
  EXPECT_THAT(ErrorOf(m + "diagonal_offset = [1]"), HasSubstr("says nothing without"));
  EXPECT_THAT(ErrorOf(m + "fp8 = {q_scale = 2.0}"), HasSubstr("format is missing"));
  EXPECT_THAT(ErrorOf(m + "want_scores = \"all\""),
              HasSubstr("x.toml:10: want_scores = \"all\" is not known; known are raw, capped"));
  EXPECT_THAT(ErrorOf(m + "[documents]\nkey = [[1, 1, 1]]"), HasSubstr("query is missing"));
  EXPECT_THAT(ErrorOf(m + "[documents]\nquery = [[1]]\nkey = [[1, 1, 1]]"),
              HasSubstr("x.toml:11: query: a batch item must be an array of 2"));
  EXPECT_THAT(ErrorOf(m + "[documents]\nquery = []\nkey = []"),
              HasSubstr("x.toml:11: query must hold an array for each of 1"));
  EXPECT_THAT(ErrorOf(m + "[block_mask]\nblock_q = 0\nblock_k = 1"),
              HasSubstr("x.toml:11: block_q = 0"));
  EXPECT_THAT(
      ErrorOf(m + "[block_mask]\nblock_q = 2\nblock_k = 2\nshape=[1,1,1,3]\nrows=[\"111\"]"),
      HasSubstr("x.toml:13: shape[3] = 3"));
  EXPECT_THAT(ErrorOf(m + "[dropout]\nprobability = 1\nshape=[1,1,1,1]\nrows=[\"1\"]"),
              HasSubstr("x.toml:11: dropout.probability = 1"));
  EXPECT_THAT(ErrorOf(m + "[dropout]\nprobability = 0\nshape=[1,1,1,1]\nrows=[\"1\"]"),
              HasSubstr("x.toml:10: dropout.keep"));
  EXPECT_THAT(ErrorOf(m + "[storage]\npast = 4"), HasSubstr("x.toml:11: storage.past = 4"));
  EXPECT_THAT(ErrorOf(m + "[storage]\nfirst_call = \"cold\""), HasSubstr("past_absent"));
  EXPECT_THAT(ErrorOf(m + "[storage]\npaged = true"), HasSubstr("x.toml:11: unknown key"));
  EXPECT_THAT(ErrorOf(m + "[storage]\npacked = true"),
              HasSubstr("x.toml:11: storage.packed needs"));
  EXPECT_THAT(ErrorOf(m + "[layout]\nq = \"shared_head\""), HasSubstr("x.toml:11: layout.q"));
}

TEST(TomlTest, ErrorsInTheDataNameTheirLine) {
  const std::string m = std::string(kMinimal) + "[data]\n";
  EXPECT_THAT(ErrorOf(m + "scores = \"zeros\""), HasSubstr("x.toml:11: scores = \"zeros\""));
  EXPECT_THAT(ErrorOf(m + "seed = -1"), HasSubstr("x.toml:11: seed"));
  EXPECT_THAT(ErrorOf(m + "seed = \"0x1g\""), HasSubstr("x.toml:11: seed"));
  EXPECT_THAT(ErrorOf(m + "recipe_version = 7"), HasSubstr("x.toml:11: recipe_version = 7"));
  EXPECT_THAT(ErrorOf(m + "hash = \"0x1\""), HasSubstr("x.toml:11: hash = 0x1"));
  EXPECT_THAT(ErrorOf(m + "set = [[\"q\", 0, 0, 0, 0]]"), HasSubstr("x.toml:11: set takes"));
  EXPECT_THAT(ErrorOf(m + "set = [[\"w\", 0, 0, 0, 0, 1]]"), HasSubstr("\"w\" is not"));
  EXPECT_THAT(ErrorOf(m + "set = [[\"q\", 0, 0, 2, 0, 1]]"), HasSubstr("x.toml:11: set: index 2"));
  EXPECT_THAT(ErrorOf(m + "set = [[\"bias\", 0, 0, 2, 0, 1]]"), HasSubstr("no bias"));
  EXPECT_THAT(ErrorOf(m + "[literals]\nk = [[[[1]]]]"),
              HasSubstr("x.toml:12: literals.k: level 1"));
  EXPECT_THAT(ErrorOf(m + "[literals]\nk = [[[[0.1],[1],[1]],[[1],[1],[1]]]]"),
              HasSubstr("x.toml:12: literals.k: 0.1"));
  EXPECT_THAT(ErrorOf(m + "[layout]\nq = \"bsd\""), HasSubstr("x.toml:12: q = \"bsd\""));
  EXPECT_THAT(ErrorOf(m + "[layout]\nplacement = \"mid\""), HasSubstr("x.toml:12: placement"));
  EXPECT_THAT(ErrorOf("data = 1\n" + std::string(kMinimal)), HasSubstr("x.toml:1: data must be"));
}

TEST(TomlTest, HostileSizesAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_THAT(ErrorOf(Replaced("kv_len = 3", "kv_len = 9223372036854775807")),
              HasSubstr("x.toml:7"));
  EXPECT_THAT(ErrorOf(Replaced("kv_len = 3", "kv_len = 1048576") + "[mask]\nshape=[1,8,2,1048576]"),
              HasSubstr("elements"));
  // Empty tensors with rows without end.
  std::string empty = Replaced("head_dim = 1\nvalue_dim = 1", "head_dim = 0\nvalue_dim = 0");
  empty.replace(empty.find("q_len = 2"), 9, "q_len = 1048576");
  empty.replace(empty.find("kv_len = 3"), 10, "kv_len = 0");
  empty.replace(empty.find("batch = 1"), 9, "batch = 1048576");
  EXPECT_THAT(ErrorOf(empty), HasSubstr("elements"));
  EXPECT_THAT(ErrorOf(kMinimal + std::string("x = ") + std::string(5000, '[')),
              HasSubstr("x.toml"));
}

// Damaged files come back as a case or as a line, never as a crash.
TEST(TomlTest, DamagedTextNeverCrashes) {
  Draw draw(1);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = ToToml(FileOf(DrawCase(seed, 20, EverythingContract())));
    for (int n = 0; n < 10; ++n) {
      std::string damaged = text;
      const auto at = static_cast<size_t>(draw.Below(static_cast<int64_t>(text.size())));
      if (draw.OneIn(2)) damaged[at] = static_cast<char>(draw.Below(256));
      if (draw.OneIn(3)) damaged.erase(at, static_cast<size_t>(draw.Below(20)));
      const auto parsed = ParseToml(damaged, "x.toml");
      if (parsed) {
        EXPECT_EQ(Validate(parsed->c), std::nullopt);
      } else {
        EXPECT_THAT(parsed.error(), ::testing::StartsWith("x.toml"));
      }
    }
  }
}

TEST(TomlTest, AnUnreadableFileIsOneLine) {
  for (const std::string& path :
       {::testing::TempDir() + "/no-such-case.toml", ::testing::TempDir()}) {
    const auto file = ReadCaseFile(path);
    ASSERT_FALSE(file) << path;
    EXPECT_THAT(file.error(), ::testing::StartsWith(path));
    EXPECT_THAT(file.error(), HasSubstr("cannot read"));
  }
}

}  // namespace
}  // namespace attest
