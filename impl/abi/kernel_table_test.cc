#include "impl/abi/kernel_table.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace attest {
namespace {

// Says what it is told to say.
class Parrot {
 public:
  static constexpr const char* kName = "parrot";
  static constexpr const char* kVersion = "7";

  static tl::expected<Parrot, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {"count", "throw"}); !ok) return tl::unexpected(ok.error());
    if (options.values.count("throw") != 0) throw std::runtime_error("thrown by create");
    const auto count = PositiveOption(options, "count", 3);
    if (!count) return tl::unexpected(count.error());
    return Parrot{*count};
  }
  std::string Contract() const { return "count " + std::to_string(count_); }
  tl::expected<void, CallError> Forward(const CallView& call) const {
    if (call.scale == 1) throw std::bad_alloc();
    if (call.scale == 2) throw 2;
    if (call.scale == 3) return tl::unexpected(CallError{ATTEST_UNSUPPORTED, "three"});
    return {};
  }

  int64_t count_;
};

struct Created {
  attest_status status;
  std::string message;
  void* kernel = nullptr;
};

Created Create(std::vector<attest_string_pair> options) {
  std::array<char, 64> message{};
  attest_create_info info{};
  info.struct_size = sizeof(info);
  info.num_options = static_cast<uint32_t>(options.size());
  info.options = options.data();
  info.message = message.data();
  info.message_size = message.size();
  Created made{};
  made.status = KernelTable<Parrot>()->create(&info, &made.kernel);
  made.message = message.data();
  return made;
}

// Runs an all-empty call whose scale tells the parrot what to do.
std::pair<attest_status, std::string> Forward(double scale, size_t message_size = 64) {
  const Created made = Create({});
  std::array<int64_t, 4> zeros{};
  DLTensor tensor{};
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 4;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = zeros.data();
  tensor.strides = zeros.data();
  const attest_argument arguments[] = {{ATTEST_ROLE_Q, &tensor},
                                       {ATTEST_ROLE_K, &tensor},
                                       {ATTEST_ROLE_V, &tensor},
                                       {ATTEST_ROLE_OUT, &tensor}};
  attest_option option{ATTEST_OPTION_SCALE, 1, {}};
  option.value.f = scale;
  std::array<char, 64> message{};
  attest_call call{sizeof(attest_call), 1, &option, 4, arguments, message.data(), message_size};
  const attest_status status = KernelTable<Parrot>()->forward(made.kernel, &call);
  KernelTable<Parrot>()->destroy(made.kernel);
  return {status, message.data()};
}

TEST(KernelTableTest, TableSaysWhatItIs) {
  const attest_kernel_table* table = KernelTable<Parrot>();
  EXPECT_EQ(table->abi_version, ATTEST_ABI_VERSION);
  EXPECT_EQ(table->struct_size, sizeof(attest_kernel_table));
  EXPECT_STREQ(table->name, "parrot");
  EXPECT_STREQ(table->version, "7");
}

TEST(KernelTableTest, OptionsReachTheKernel) {
  const Created made = Create({{"count", "12"}});
  ASSERT_EQ(made.status, ATTEST_OK) << made.message;
  EXPECT_STREQ(KernelTable<Parrot>()->contract(made.kernel), "count 12");
  KernelTable<Parrot>()->destroy(made.kernel);
}

TEST(KernelTableTest, BadOptionsAreRefusedInOneLine) {
  EXPECT_EQ(Create({{"size", "1"}}).message, "option size is unknown; known are count, throw");
  EXPECT_EQ(Create({{"count", "1"}, {"count", "1"}}).message, "create option count is given twice");
  EXPECT_EQ(Create({{"count", nullptr}}).message, "create option 0 has a null key or value");
  for (const char* text : {"0", "-3", "", "4x", " 4", "99999999999999999999"}) {
    const Created made = Create({{"count", text}});
    EXPECT_EQ(made.status, ATTEST_INVALID_ARGUMENT) << text;
    EXPECT_EQ(made.kernel, nullptr);
    EXPECT_EQ(made.message, "count=" + std::string(text) + " is not an integer of at least 1");
  }
}

TEST(KernelTableTest, ExceptionsBecomeFailures) {
  const Created made = Create({{"throw", "1"}});
  EXPECT_EQ(made.status, ATTEST_FAILED);
  EXPECT_EQ(made.message, "thrown by create");
  EXPECT_EQ(Forward(1), std::pair(ATTEST_FAILED, std::string("out of memory")));
  EXPECT_EQ(Forward(2), std::pair(ATTEST_FAILED, std::string("unknown exception")));
}

TEST(KernelTableTest, RefusalsKeepTheirStatusAndMessage) {
  EXPECT_EQ(Forward(3), std::pair(ATTEST_UNSUPPORTED, std::string("three")));
  EXPECT_EQ(Forward(4), std::pair(ATTEST_OK, std::string()));
}

TEST(KernelTableTest, PartsThatAreNotListedAreRefused) {
  constexpr CallPart kKnown[] = {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_OPTION_SCALE};
  const attest_option options[] = {{ATTEST_OPTION_SCALE, 1, {}}, {ATTEST_OPTION_CAUSAL, 0, {}}};
  const attest_argument arguments[] = {{ATTEST_ROLE_Q, nullptr}, {ATTEST_ROLE_MASK, nullptr}};
  attest_call call{sizeof(attest_call), 1, options, 1, arguments, nullptr, 0};
  EXPECT_TRUE(RefuseOtherParts(call, kKnown));
  call.num_options = 2;  // the number of causality is that of role k
  EXPECT_EQ(RefuseOtherParts(call, kKnown).error().message, "option 2 is not offered");
  call.num_arguments = 2;
  EXPECT_EQ(RefuseOtherParts(call, kKnown).error().message, "tensor role 4 is not offered");
}

TEST(KernelTableTest, MessagesAreCutToTheBuffer) {
  EXPECT_EQ(Forward(3, 4).second, "thr");
  EXPECT_EQ(Forward(3, 0).second, "");
}

}  // namespace
}  // namespace attest
