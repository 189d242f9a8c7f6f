// The plug-in through its C table: contracts, calls, caches, batches, and what it says of bad ones.
#include "impl/transformer/model_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "impl/transformer/faults.h"

namespace attest::transformer {
namespace {

using ::testing::HasSubstr;

// An instance of a table, with what it last said.
class Instance {
 public:
  Instance(const attest_model_table* table, std::vector<attest_string_pair> options)
      : table_(*table) {
    attest_create_info info{};
    info.struct_size = sizeof(info);
    info.num_options = static_cast<uint32_t>(options.size());
    info.options = options.data();
    info.message = text_.data();
    info.message_size = text_.size();
    status_ = table_.create(&info, &model_);
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance() {
    if (model_ != nullptr) table_.destroy(model_);
  }

  attest_status status() const { return status_; }
  std::string message() const { return text_.data(); }
  std::string contract() const { return table_.contract(model_); }

  std::vector<float> Logits(const std::vector<int64_t>& tokens, void* cache = nullptr) {
    std::vector<float> logits(tokens.size() * 13, -1);
    const int64_t length = std::ssize(tokens);
    attest_logits_call call{};
    call.struct_size = sizeof(call);
    call.tokens = {1, length, tokens.data(), &length, ATTEST_PADDING_NONE};
    call.logits = logits.data();
    call.message = text_.data();
    call.message_size = text_.size();
    status_ =
        cache == nullptr ? table_.logits(model_, &call) : table_.cache_step(model_, cache, &call);
    return logits;
  }

  void* Open(const char* kind) {
    attest_cache_info info{};
    info.struct_size = sizeof(info);
    info.batch = 1;
    info.capacity = 8;
    info.kind = kind;
    info.message = text_.data();
    info.message_size = text_.size();
    void* cache = nullptr;
    status_ = table_.cache_open(model_, &info, &cache);
    return cache;
  }

  const attest_model_table& table() const { return table_; }
  void* model() const { return model_; }

 private:
  const attest_model_table& table_;
  void* model_ = nullptr;
  attest_status status_;
  std::array<char, 256> text_{};
};

TEST(ModelTableTest, EveryModelAndEveryMutantIsMade) {
  for (const char* variant :
       {"decoder", "gpt", "alibi", "windowed", "paged", "encoder", "encoder-decoder"}) {
    const Instance model(ModelTable(), {{"variant", variant}});
    EXPECT_EQ(model.status(), ATTEST_OK) << model.message();
    EXPECT_THAT(model.contract(), HasSubstr("\"kind\":")) << variant;
  }
  for (const Mutant& mutant : Mutants()) {
    const std::string id(mutant.id);
    const Instance model(MutantTable(), {{"variant", id.c_str()}});
    EXPECT_EQ(model.status(), ATTEST_OK) << model.message();
    EXPECT_EQ(FindMutant(id), &mutant);
  }
  EXPECT_GE(Mutants().size(), 25u);
}

TEST(ModelTableTest, StepsGiveWhatTheWholeGives) {
  Instance model(ModelTable(), {});
  const std::vector<float> whole = model.Logits({1, 2, 3});
  void* const cache = model.Open("contiguous");
  ASSERT_EQ(model.status(), ATTEST_OK);
  model.Logits({1, 2}, cache);
  const std::vector<float> last = model.Logits({3}, cache);
  EXPECT_EQ(last, std::vector<float>(whole.end() - 13, whole.end()));
  EXPECT_EQ(model.table().cache_bytes(model.model(), cache), 3 * 128);
  EXPECT_THAT(model.contract(), HasSubstr("\"per_token\":128"));
  model.table().cache_close(model.model(), cache);
}

TEST(ModelTableTest, DocumentsBecomeRows) {
  Instance model(ModelTable(), {});
  const std::vector<int64_t> lengths = {2, 3}, documents = {1, 2, 3, 4, 5};
  std::vector<int64_t> inputs(42), targets(42);
  std::vector<float> weights(42);
  int64_t used = 0;
  attest_batch_call call{};
  call.struct_size = sizeof(call);
  call.num_documents = 2;
  call.document_lengths = lengths.data();
  call.documents = documents.data();
  call.rows = 7;
  call.len = 6;
  call.inputs = inputs.data();
  call.targets = targets.data();
  call.weights = weights.data();
  call.rows_used = &used;
  ASSERT_EQ(model.table().batch(model.model(), &call), ATTEST_OK);
  EXPECT_EQ(used, 1);
  EXPECT_EQ(std::vector<int64_t>(targets.begin(), targets.begin() + 6),
            (std::vector<int64_t>{2, 0, 4, 5, 0, 0}));
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 6),
            (std::vector<float>{1, 0, 1, 1, 0, 0}));
}

TEST(ModelTableTest, BitsOfPaddingArePromisedWithinATile) {
  const Instance within(ModelTable(), {{"max_len", "64"}}),
      beyond(ModelTable(), {{"max_len", "65"}});
  EXPECT_THAT(within.contract(), HasSubstr("\"padding\",\"chunks\""));
  EXPECT_THAT(beyond.contract(), testing::Not(HasSubstr("\"chunks\"")));
}

TEST(ModelTableTest, SaysWhatIsWrong) {
  const std::pair<std::vector<attest_string_pair>, const char*> kBad[] = {
      {{{"variant", "bert"}}, "there is no model \"bert\"; there are decoder"},
      {{{"dtype", "f16"}}, "option dtype: \"f16\" is neither f32 nor f64"},
      {{{"heads", "3"}}, "heads = 3 does not divide dim = 16"},
      {{{"positions", "mixed"}}, "option positions: \"mixed\" is none of none, sinusoidal"},
      {{{"layers", "many"}}, "option layers: \"many\" is no integer up to 4096"},
      {{{"width", "3"}}, "option width is unknown; there are positions"},
      {{{"cache", "ring"}}, "a ring needs a window"}};
  for (const auto& [options, says] : kBad) {
    const Instance model(ModelTable(), options);
    EXPECT_EQ(model.status(), ATTEST_INVALID_ARGUMENT);
    EXPECT_THAT(model.message(), HasSubstr(says));
  }
  Instance model(ModelTable(), {});
  model.Logits({1, 13});
  EXPECT_EQ(model.status(), ATTEST_INVALID_ARGUMENT);
  EXPECT_EQ(model.message(), "token 1 of sequence 0 is 13; there are 13 tokens");
  EXPECT_EQ(model.Open("ring"), nullptr);
  EXPECT_EQ(model.status(), ATTEST_UNSUPPORTED);
  EXPECT_EQ(model.message(), "the cache is contiguous");
}

}  // namespace
}  // namespace attest::transformer
