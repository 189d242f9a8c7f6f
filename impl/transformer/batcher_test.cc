#include "impl/transformer/batcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "impl/transformer/testing.h"

namespace attest::transformer {
namespace {

using Row = std::vector<int64_t>;

Row RowOf(const std::vector<int64_t>& plane, int64_t r, int64_t len) {
  return {plane.begin() + r * len, plane.begin() + (r + 1) * len};
}

Row Weights(const Lesson& lesson, int64_t r) {
  Row row;
  for (int64_t i = 0; i < lesson.inputs.len; ++i) {
    row.push_back(
        static_cast<int64_t>(lesson.weights[static_cast<size_t>(r * lesson.inputs.len + i)]));
  }
  return row;
}

TEST(BatcherTest, TargetsAreTheNextTokensOfTheirDocument) {
  const Lesson lesson = MakeLesson({{1, 2, 3}, {4}, {5, 6}}, 4, /*pack=*/false);
  ASSERT_EQ(lesson.inputs.batch, 3);
  EXPECT_EQ(RowOf(lesson.inputs.ids, 0, 4), (Row{1, 2, 3, 0}));
  EXPECT_EQ(RowOf(lesson.targets, 0, 4), (Row{2, 3, 0, 0}));
  EXPECT_EQ(Weights(lesson, 0), (Row{1, 1, 0, 0}));
  EXPECT_EQ(Weights(lesson, 1), (Row{0, 0, 0, 0})) << "one token has nothing to predict";
  EXPECT_EQ(lesson.inputs.End(2), 2);
}

TEST(BatcherTest, PackedDocumentsKnowNothingOfEachOther) {
  const Lesson lesson = MakeLesson({{1, 2}, {3, 4, 5}, {}, {6, 7, 8}}, 6, /*pack=*/true);
  ASSERT_EQ(lesson.inputs.batch, 2);
  EXPECT_EQ(RowOf(lesson.inputs.ids, 0, 6), (Row{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(RowOf(lesson.targets, 0, 6), (Row{2, 0, 4, 5, 0, 0}));
  EXPECT_EQ(Weights(lesson, 0), (Row{1, 0, 1, 1, 0, 0}));
  EXPECT_EQ(RowOf(lesson.inputs.documents, 0, 6), (Row{0, 0, 1, 1, 1, -1}));
}

TEST(BatcherTest, ALongDocumentKeepsItsTargetsAcrossTheCut) {
  const Lesson lesson = MakeLesson({{1, 2, 3, 4, 5}}, 2, /*pack=*/true);
  ASSERT_EQ(lesson.inputs.batch, 3);
  EXPECT_EQ(RowOf(lesson.targets, 0, 2), (Row{2, 3}));
  EXPECT_EQ(RowOf(lesson.targets, 1, 2), (Row{4, 5}));
  EXPECT_EQ(Weights(lesson, 2), (Row{0, 0}));
}

TEST(BatcherTest, AStreamGoesOnInTheNextDocumentAndDropsItsEnd) {
  const Lesson lesson = MakeStreamLesson({{2, 3}, {4}, {5, 6, 7}}, 4, 1);
  ASSERT_EQ(lesson.inputs.batch, 2);
  EXPECT_EQ(RowOf(lesson.inputs.ids, 0, 4), (Row{2, 3, 1, 4}));
  EXPECT_EQ(RowOf(lesson.targets, 0, 4), (Row{3, 1, 4, 1}));
  EXPECT_EQ(RowOf(lesson.inputs.ids, 1, 4), (Row{1, 5, 6, 7}));
  EXPECT_EQ(RowOf(lesson.targets, 1, 4), (Row{5, 6, 7, 1}));
  EXPECT_EQ(Weights(lesson, 1), (Row{1, 1, 1, 1}));
  EXPECT_EQ(MakeStreamLesson({{2, 3}, {4}}, 5, 1).inputs.batch, 0) << "a row needs a target each";
}

TEST(BatcherTest, ChunksLoseATargetAtEachEdgeAndDropTheirEnd) {
  const Lesson lesson = MakeChunkLesson({{2, 3}, {4}, {5, 6, 7}}, 4, 1);
  ASSERT_EQ(lesson.inputs.batch, 2);
  EXPECT_EQ(RowOf(lesson.inputs.ids, 0, 4), (Row{2, 3, 1, 4}));
  EXPECT_EQ(RowOf(lesson.targets, 0, 4), (Row{3, 1, 0, 0}));
  EXPECT_EQ(Weights(lesson, 0), (Row{1, 1, 0, 0}));
  EXPECT_EQ(RowOf(lesson.inputs.documents, 0, 4), (Row{0, 0, 0, 1}));
  EXPECT_EQ(RowOf(lesson.inputs.ids, 1, 4), (Row{1, 5, 6, 7}));
  EXPECT_EQ(RowOf(lesson.targets, 1, 4), (Row{0, 6, 7, 0}));
  EXPECT_EQ(Weights(lesson, 1), (Row{0, 1, 1, 0}));
  EXPECT_EQ(MakeChunkLesson({{2, 3}, {4}}, 6, 1).inputs.batch, 0) << "the end fills no row";
}

// In a model, too: the loss of packed documents is that of each alone.
TEST(BatcherTest, PackingChangesNoLoss) {
  for (const Base base : {Base::kGpt, Base::kDecoder, Base::kAlibi}) {
    const Config config = BaseConfig(base);
    const Model<double> model = MakeModel<double>(config);
    const auto documents = RandomSequences(1, {3, 5, 2, 4}, config.vocab);
    const Lesson packed = MakeLesson(documents, 8, true), apart = MakeLesson(documents, 8, false);
    ASSERT_EQ(packed.inputs.batch, 2);
    const double a = CrossEntropy(*Logits(model, packed.inputs), packed);
    const double b = CrossEntropy(*Logits(model, apart.inputs), apart);
    EXPECT_NEAR(a, b, 100 * 10 * 0x1p-52);
  }
}

TEST(BatcherTest, BytesComeBack) {
  const std::string text("a\0\xff z", 5);
  const Document tokens = EncodeBytes(text);
  EXPECT_EQ(tokens, (Document{'a', 0, 255, ' ', 'z', kEndOfText}));
  EXPECT_EQ(*DecodeBytes(tokens), text);
  EXPECT_EQ(DecodeBytes({65, 300}).error(), "token 300 is no byte");
}

}  // namespace
}  // namespace attest::transformer
