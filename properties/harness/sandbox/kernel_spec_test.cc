#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "properties/harness/sandbox/session.h"

namespace attest {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Pair;

// A folder of installed kernels of its own.
class KernelSpecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "attest-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char* file : {"attest_kernel_tiled.so", "attest_kernel_mutant.so",
                             "attest_kernel_.so", "attest_kernel_old.so.bak", "libother.so"})
      std::ofstream(folder_ / file) << "";
    ::setenv("ATTEST_KERNELS_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("ATTEST_KERNELS_DIR");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

std::string ErrorOf(std::string_view text) {
  const auto spec = ResolveKernel(text);
  return spec ? "resolved" : spec.error();
}

TEST_F(KernelSpecTest, InstalledKernelsAreNamedAndSorted) {
  EXPECT_THAT(InstalledKernels(), ElementsAre("mutant", "tiled"));
}

TEST_F(KernelSpecTest, ANameWithOptionsIsAnInstalledPlugin) {
  const auto spec = ResolveKernel("tiled?tile=16&order=a=b");
  ASSERT_TRUE(spec) << spec.error();
  EXPECT_EQ(spec->text, "tiled?tile=16&order=a=b");
  EXPECT_EQ(spec->library, (folder_ / "attest_kernel_tiled.so").string());
  EXPECT_THAT(spec->options, ElementsAre(Pair("tile", "16"), Pair("order", "a=b")));
}

TEST_F(KernelSpecTest, TheVariantComesFirst) {
  const auto spec = ResolveKernel("mutant:wrong-kv-head?seed=");
  ASSERT_TRUE(spec) << spec.error();
  EXPECT_THAT(spec->options, ElementsAre(Pair("variant", "wrong-kv-head"), Pair("seed", "")));
}

TEST_F(KernelSpecTest, APathMayHoldColonsAndAnOptionSlashes) {
  const auto spec = ResolveKernel("./a:b/lib.so:flash?model=/x/y:z");
  ASSERT_TRUE(spec) << spec.error();
  EXPECT_THAT(spec->library, EndsWith("/a:b/lib.so"));
  EXPECT_EQ(spec->library.front(), '/');
  EXPECT_THAT(spec->options, ElementsAre(Pair("variant", "flash"), Pair("model", "/x/y:z")));
}

TEST_F(KernelSpecTest, UnknownNamesListWhatIsInstalled) {
  EXPECT_EQ(ErrorOf("tilde"), "unknown kernel 'tilde'; installed: mutant, tiled");
  EXPECT_EQ(
      ErrorOf("lib.so"),
      "unknown kernel 'lib.so'; installed: mutant, tiled; write ./ before the name of a file");
  ::setenv("ATTEST_KERNELS_DIR", "/nowhere/at/all", 1);
  EXPECT_EQ(ErrorOf("tiled"),
            "unknown kernel 'tiled'; no kernels are installed in /nowhere/at/all");
  EXPECT_THAT(InstalledKernels(), IsEmpty());
}

TEST_F(KernelSpecTest, MalformedSpecsSayWhatIsWrong) {
  EXPECT_EQ(ErrorOf(""), "kernel '': no name before the options");
  EXPECT_EQ(ErrorOf("?a=b"), "kernel '?a=b': no name before the options");
  EXPECT_EQ(ErrorOf("./folder/"), "kernel './folder/': no name before the options");
  EXPECT_EQ(ErrorOf("tiled:"), "kernel 'tiled:': no variant after ':'");
  EXPECT_EQ(ErrorOf("tiled?tile"), "kernel 'tiled?tile': 'tile' is not key=value");
  EXPECT_EQ(ErrorOf("tiled?"), "kernel 'tiled?': '' is not key=value");
  EXPECT_EQ(ErrorOf("../mine.py"),
            "kernel '../mine.py': no shared library: write python:../mine.py:FUNCTION");
  EXPECT_EQ(ErrorOf("tiled?a=1&"), "kernel 'tiled?a=1&': '' is not key=value");
  EXPECT_EQ(ErrorOf("tiled?=1"), "kernel 'tiled?=1': '=1' is not key=value");
  EXPECT_EQ(ErrorOf("tiled?a=1&a=2"), "kernel 'tiled?a=1&a=2': option 'a' is given twice");
  EXPECT_EQ(ErrorOf("tiled?variant=x"),
            "kernel 'tiled?variant=x': write the variant as NAME:VARIANT");
}

}  // namespace
}  // namespace attest
