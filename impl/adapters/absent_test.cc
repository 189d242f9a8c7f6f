// What stands in for an adapter that could not be built: a kernel whose name is known, and one line
// that says how to get it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/abi/testing/direct_call.h"
#include "impl/adapters/plugin_testing.h"

namespace attest {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(AbsentAdapter, SaysInOneLineHowToGetIt) {
  const attest_kernel_table* table = OpenPlugin(ATTEST_PLUGIN);
  ASSERT_NE(table, nullptr);
  EXPECT_STREQ(table->name, "example");
  const auto kernel = DirectKernel::Create(table, {{"variant", "any"}});
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error(), HasSubstr("example is not built, for a library was not there"));
  EXPECT_THAT(kernel.error(), HasSubstr("ci/setup --with example"));
  EXPECT_THAT(kernel.error(), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace attest
