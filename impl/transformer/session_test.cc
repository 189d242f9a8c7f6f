// Generation with a cache against the whole sequence at once: the same bits, whatever the kind of
// cache, the chunks, the padding of the prompt, the beams and the kernel.
#include "impl/transformer/session.h"

#include <gtest/gtest.h>

#include <vector>

#include "impl/tiled/tiled.h"
#include "impl/transformer/kernel_attention.h"
#include "impl/transformer/testing.h"

namespace attest::transformer {
namespace {

using Sequences = std::vector<std::vector<int64_t>>;

KernelAttention Tiled() {
  auto kernel = KernelAttention::Create(TiledKernelTable());
  EXPECT_TRUE(kernel) << kernel.error();
  return std::move(*kernel);
}

template <typename T>
Attend<T> By(const KernelAttention& kernel) {
  return [&kernel](const AttentionTask<T>& task, Matrix<T>& out) { return kernel.Run(task, out); };
}

std::vector<int64_t> Slice(const std::vector<int64_t>& s, int64_t first, int64_t count) {
  return {s.begin() + first, s.begin() + first + count};
}

// The last rows of `logits` for item b are those of the whole sequence `whole`, computed alone.
template <typename T>
void ExpectEndOf(const Model<T>& model, const std::vector<int64_t>& whole, int64_t count,
                 const Attend<T>& attend, const Matrix<T>& logits, const Tokens& tokens,
                 int64_t b) {
  const auto due = Logits<T>(model, Pad({whole}), nullptr, attend);
  ASSERT_TRUE(due) << due.error();
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_TRUE(SameBits(*due, std::ssize(whole) - count + i, logits,
                         tokens.Row(b, tokens.End(b) - count + i)))
        << "item " << b << ", " << i << " of " << count;
  }
}

// A prompt of ragged lengths and then chunks; every row as in the whole sequence.
template <typename T>
void ExpectChunksEqualOneShot(const Config& config, Side side, const Attend<T>& attend) {
  const Model<T> model = MakeModel<T>(config);
  const Sequences all = RandomSequences(1, {9, 6, 11}, config.vocab);
  Session<T> session(model, 3, {}, attend);
  int64_t tail = 5;
  for (const int64_t chunk : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1}}) {
    Sequences now;
    for (const auto& s : all) {
      const int64_t before = std::ssize(s) - tail;
      now.push_back(chunk == 0 ? Slice(s, 0, before) : Slice(s, before, chunk));
    }
    tail -= chunk;
    const Tokens tokens = Pad(now, side);
    const auto logits = session.Append(tokens);
    ASSERT_TRUE(logits) << logits.error();
    for (size_t b = 0; b < all.size(); ++b) {
      ExpectEndOf(model, Slice(all[b], 0, std::ssize(all[b]) - tail), std::ssize(now[b]), attend,
                  *logits, tokens, static_cast<int64_t>(b));
    }
  }
}

TEST(SessionTest, ChunksHaveTheBitsOfOneShot) {
  const KernelAttention tiled = Tiled();
  for (const auto& [name, config] : DecoderConfigs()) {
    SCOPED_TRACE(name);
    for (const Side side : {Side::kRight, Side::kLeft}) {
      ExpectChunksEqualOneShot<float>(config, side, By<float>(tiled));
      ExpectChunksEqualOneShot<double>(config, side, PlainAttend<double>());
    }
  }
}

TEST(SessionTest, PaddedBatchesHaveTheBitsOfEachAlone) {
  const KernelAttention tiled = Tiled();
  for (const auto& [name, config] : AllConfigs()) {
    if (config.kind == Kind::kEncoderDecoder) continue;
    SCOPED_TRACE(name);
    const Model<float> model = MakeModel<float>(config);
    const Sequences all = RandomSequences(2, {5, 9, 1}, config.vocab);
    for (const Side side : {Side::kRight, Side::kLeft}) {
      const Tokens tokens = Pad(all, side, /*padding=*/3, /*len=*/10);
      const auto logits = Logits<float>(model, tokens, nullptr, By<float>(tiled));
      ASSERT_TRUE(logits);
      for (size_t b = 0; b < all.size(); ++b) {
        ExpectEndOf(model, all[b], std::ssize(all[b]), By<float>(tiled), *logits, tokens,
                    static_cast<int64_t>(b));
      }
    }
  }
}

TEST(SessionTest, BeamsGoOnFromTheirParents) {
  for (const auto& [name, config] : DecoderConfigs()) {
    SCOPED_TRACE(name);
    const Model<double> model = MakeModel<double>(config);
    Sequences beams = RandomSequences(3, {6, 4, 5}, config.vocab);
    Session<double> session(model, 3);
    ASSERT_TRUE(session.Append(Pad(beams)));
    // One parent twice and one evicted, a swap, one beam more, and all but one evicted.
    for (const std::vector<int64_t>& parents :
         {std::vector<int64_t>{2, 2, 0}, {1, 0, 2}, {0, 1, 2, 1}, {3}}) {
      session.Reorder(parents);
      Sequences next, last;
      for (const int64_t parent : parents) {
        next.push_back(beams[static_cast<size_t>(parent)]);
        last.push_back(RandomSequence(Mix(next.size()), 1, config.vocab));
        next.back().push_back(last.back()[0]);
      }
      beams = next;
      const Tokens tokens = Pad(last);
      const auto logits = session.Append(tokens);
      ASSERT_TRUE(logits) << logits.error();
      for (size_t b = 0; b < beams.size(); ++b) {
        ExpectEndOf(model, beams[b], 1, PlainAttend<double>(), *logits, tokens,
                    static_cast<int64_t>(b));
      }
    }
  }
}

TEST(SessionTest, SourcesGoWithTheirBeams) {
  const Config config = BaseConfig(Base::kEncoderDecoder);
  const Model<double> model = MakeModel<double>(config);
  const Sequences sources = RandomSequences(4, {3, 5}, config.vocab);
  const Sequences prompts = RandomSequences(5, {4, 2}, config.vocab);
  for (const Side side : {Side::kRight, Side::kLeft}) {
    Session<double> session(model, 2, *Encode(model, Pad(sources, side)));
    ASSERT_TRUE(session.Append(Pad(prompts, side)));
    session.Reorder(std::vector<int64_t>{1, 0});
    const auto logits = session.Append(Pad({{7}, {7}}));
    ASSERT_TRUE(logits);
    for (const size_t parent : {0, 1}) {
      auto whole = prompts[parent];
      whole.push_back(7);
      const auto memory = *Encode(model, Pad({sources[parent]}));
      const auto due = Logits(model, Pad({whole}), &memory);
      ASSERT_TRUE(due);
      EXPECT_TRUE(SameBits(*due, std::ssize(whole) - 1, *logits, static_cast<int64_t>(1 - parent)));
    }
  }
}

TEST(SessionTest, TheCacheGrowsAsComputed) {
  for (const Base base : {Base::kDecoder, Base::kPaged, Base::kWindowed}) {
    const Config config = BaseConfig(base);
    const Model<float> model = MakeModel<float>(config);
    Session<float> session(model, 2);
    const int64_t per_token = 2 * 2 * 2 * 4 * 4;  // k and v, layers, kv_heads, head_dim, bytes
    for (int64_t tokens = 1; tokens <= 9; ++tokens) {
      ASSERT_TRUE(session.Append(Pad({{1}, {2}})));
      int64_t held = tokens;
      if (base == Base::kPaged) held = (tokens + 3) / 4 * 4;
      if (base == Base::kWindowed) held = std::min<int64_t>(tokens, 4);
      EXPECT_EQ(session.cache_bytes(), 2 * held * per_token) << tokens;
    }
  }
}

TEST(SessionTest, GeneratesTheSameTokensWithAndWithoutCache) {
  for (const auto& [name, config] : DecoderConfigs()) {
    SCOPED_TRACE(name);
    const Model<float> model = MakeModel<float>(config);
    const Sequences prompts = RandomSequences(6, {3, 5}, config.vocab);
    const auto with = Generate(model, prompts, 6, /*with_cache=*/true);
    const auto without = Generate(model, prompts, 6, /*with_cache=*/false);
    ASSERT_TRUE(with && without);
    EXPECT_EQ(*with, *without);
    EXPECT_EQ(with->at(0).size(), 9u);
  }
}

TEST(SessionTest, SaysWhatIsOutOfRange) {
  const Model<double> model = MakeModel<double>(BaseConfig(Base::kGpt));
  EXPECT_EQ(Logits(model, Pad({{1, 13}})).error(),
            "token 1 of sequence 0 is 13; there are 13 tokens");
  Session<double> session(model, 1);
  ASSERT_TRUE(session.Append(Pad({RandomSequence(1, 16, 13)})));
  EXPECT_EQ(session.Append(Pad({{1}})).error(),
            "token 0 of sequence 0 stands at 16; max_len is 16");
}

// A kernel that refuses is heard.
TEST(SessionTest, TheKernelsErrorComesThrough) {
  const Model<double> model = MakeModel<double>(BaseConfig(Base::kDecoder));
  const Attend<double> refusing = [](const AttentionTask<double>&, Matrix<double>&) {
    return tl::expected<void, std::string>(tl::unexpect, "it takes no mask");
  };
  EXPECT_EQ(Logits<double>(model, Pad({{1, 2}}), nullptr, refusing).error(), "it takes no mask");
}

}  // namespace
}  // namespace attest::transformer
