#include "properties/harness/sandbox/protocol.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "properties/harness/sandbox/packed_calls.h"

namespace attest {
namespace {

TEST(Protocol, RunRequestIsTheDocumentedLine) {
  Call call;
  call.options = {{1, true, 0, 0.125},
                  {2, false, 1, 0},
                  {1, true, 0, -std::numeric_limits<double>::infinity()}};
  CallTensor tensor;
  tensor.role = 2;
  tensor.shape = {2, 3};
  tensor.strides = {3, 1};
  call.tensors.push_back(tensor);
  const PlacedCall placed{&call, std::byte{0}, {{&call.tensors[0], 0, 8168}}};
  EXPECT_EQ(RunRequest(7, {&placed, 1}),
            R"({"op":"run","id":7,"calls":[{"options":[{"id":1,"f":0.125},{"id":2,"i":1},)"
            R"({"id":1,"f":"-inf"}],"tensors":[{"role":2,"dtype":"f32","shape":[2,3],)"
            R"("strides":[3,1],"offset":8168}]}]})");
}

TEST(Protocol, ARunAtOnceSaysSo) {
  EXPECT_EQ(RunRequest(7, {}, /*at_once=*/true),
            R"({"op":"run","id":7,"concurrent":true,"calls":[]})");
}

TEST(Protocol, PackedRunRequestIsALineAndTheDocumentedWords) {
  Call call;
  call.options = {{1, true, 0, 0.125}, {2, false, 3, 0}};
  CallTensor tensor;
  tensor.role = 4;
  tensor.dtype = DType::kBF16;
  tensor.shape = {2, 3};
  tensor.strides = {3, 1};
  call.tensors.push_back(tensor);
  const PlacedCall placed{&call, std::byte{0}, {{&call.tensors[0], 0, 8168}}};
  const std::string request = PackedRunRequest(7, {&placed, 1}, /*at_once=*/true);
  const size_t end = request.find('\n');
  EXPECT_EQ(request.substr(0, end), R"({"op":"run","id":7,"concurrent":true,"packed":136})");
  WordReader words(std::string_view(request).substr(end + 1));
  EXPECT_EQ(words.Count(), 1u);
  EXPECT_EQ(words.Count(), 2u);
  EXPECT_EQ(words.Word(), 1);
  EXPECT_EQ(words.Word(), 1);
  EXPECT_EQ(words.Number(), 0.125);
  for (const int64_t word : {2, 0, 3, 1, 4, 3, 8168, 2, 2, 3, 3, 1}) EXPECT_EQ(words.Word(), word);
  EXPECT_THROW(words.Word(), std::out_of_range);
}

TEST(Protocol, APackedCountOfMoreThanThereIsIsRefused) {
  for (const int64_t count : {int64_t{-1}, int64_t{2}, std::numeric_limits<int64_t>::max()}) {
    WordWriter words;
    words.Add(count);
    words.Add(int64_t{0});
    EXPECT_THROW(WordReader(words.bytes()).Count(), std::out_of_range) << count;
  }
}

TEST(Protocol, AWorkerSaysWhatItCanDoBesidesOrNothing) {
  const auto mute = ParseLoadReply(R"({"id":1,"contract":"{}","threads":"yes"})", 1);
  ASSERT_TRUE(mute) << mute.error();
  EXPECT_FALSE(mute->can_run_at_once || mute->takes_threads || mute->takes_packed ||
               mute->maps_views);
  const auto able = ParseLoadReply(
      R"({"id":1,"contract":"{}","concurrent":true,"threads":true,"packed":true})", 1);
  ASSERT_TRUE(able) << able.error();
  EXPECT_TRUE(able->can_run_at_once && able->takes_threads && able->takes_packed);
}

TEST(Protocol, LoadRequestSurvivesTextThatIsNotUtf8) {
  KernelSpec spec{"x", "/lib/\xff.so", {{"variant", "a\nb"}}};
  const std::string line = LoadRequest(1, spec, {});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find(R"(["variant","a\nb"])"), std::string::npos) << line;
}

TEST(Protocol, AWellFormedCallReplyIsRead) {
  const auto reply = ParseCallReply(
      R"({"id":3,"call":1,"status":1,"message":"no","thrown":"x","out_of_memory":true})", 3, 1, 4);
  ASSERT_TRUE(reply) << reply.error();
  EXPECT_EQ(reply->status, 1);
  EXPECT_EQ(reply->message, "no");
  EXPECT_EQ(reply->thrown, "x");
  EXPECT_TRUE(reply->out_of_memory);
  EXPECT_EQ(reply->through, 1u);
}

TEST(Protocol, AReplyMayStandForCallsThatFollow) {
  const auto through = [](int last) {
    const auto line = fmt::format(R"({{"id":3,"call":1,"through":{},"status":0}})", last);
    const auto reply = ParseCallReply(line, 3, 1, 4);
    return reply ? static_cast<int>(reply->through) : -1;
  };
  for (const int last : {1, 2, 3}) EXPECT_EQ(through(last), last);
  for (const int last : {-1, 0, 4}) EXPECT_EQ(through(last), -1);
}

TEST(Protocol, EveryOtherReplyIsNonsense) {
  for (const char* line :
       {"", "garbage", "[]", "3", "{}", R"({"id":3})", R"({"id":3,"call":1})",
        R"({"id":2,"call":1,"status":0})", R"({"id":3,"call":0,"status":0})",
        R"({"id":3,"call":1,"status":"0"})", R"({"id":3,"call":1,"status":0,"message":1})",
        R"({"id":"3","call":1,"status":0})", R"({"id":3,"call":1,"status":0)",
        R"({"id":3,"call":1,"through":"2","status":0})",
        R"({"id":3,"call":1,"through":2.0,"status":0})"}) {
    const auto reply = ParseCallReply(line, 3, 1, 4);
    ASSERT_FALSE(reply) << line;
    EXPECT_EQ(reply.error().rfind("the worker answered nonsense: ", 0), 0u) << reply.error();
  }
}

TEST(Protocol, LoadAndMapRepliesCarryTheWorkersOwnError) {
  EXPECT_EQ(ParseLoadReply(R"({"id":1,"error":"no symbol"})", 1).error(), "no symbol");
  EXPECT_EQ(ParseMapReply(R"({"id":1,"error":"no memory"})", 1, 2).error(), "no memory");
}

TEST(Protocol, LoadReplyNamesTheFilesOfTheKernel) {
  const auto reply = [](const char* files) {
    return fmt::format(R"({{"id":1,"name":"n","version":"1","contract":"{{}}","files":{}}})",
                       files);
  };
  const auto identity = ParseLoadReply(reply(R"(["/a","/b"])"), 1);
  ASSERT_TRUE(identity) << identity.error();
  EXPECT_EQ(identity->files, (std::vector<std::string>{"/a", "/b"}));
  for (const char* files : {"3", "{}", "[3]", R"("/a")"}) {
    EXPECT_FALSE(ParseLoadReply(reply(files), 1)) << files;
  }
}

TEST(Protocol, MapReplyMustNameEverySlot) {
  EXPECT_TRUE(ParseMapReply(R"({"id":1,"addresses":[4096,8192]})", 1, 2));
  EXPECT_FALSE(ParseMapReply(R"({"id":1,"addresses":[4096]})", 1, 2));
  EXPECT_FALSE(ParseMapReply(R"({"id":1,"addresses":[4096,-1]})", 1, 2));
  EXPECT_FALSE(ParseMapReply(R"({"id":1})", 1, 0));
}

}  // namespace
}  // namespace attest
