#include "properties/harness/night/kernel_content.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace attest {
namespace {

class KernelContent : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_content_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
  }
  std::string Of(const std::string& library, std::vector<std::string> files = {}) const {
    KernelSpec spec;
    spec.library = Path(library);
    KernelIdentity identity;
    for (const std::string& file : files) identity.files.push_back(Path(file));
    return ContentOf(spec, identity);
  }

  std::string folder_;
};

TEST_F(KernelContent, ChangesWithAnyByteOfAnyFile) {
  const std::string text(100000, 'x');
  Write("a.so", text);
  Write("b.so", "b");
  const std::string before = Of("a.so", {"b.so"});
  EXPECT_EQ(Of("a.so", {"b.so"}), before);
  EXPECT_NE(Of("a.so"), before);
  for (const size_t at : {size_t{0}, size_t{65535}, size_t{65536}, text.size() - 1}) {
    std::string changed = text;
    changed[at] = 'y';
    Write("a.so", changed);
    EXPECT_NE(Of("a.so", {"b.so"}), before) << at;
  }
  Write("a.so", text + std::string(1, '\0'));
  EXPECT_NE(Of("a.so", {"b.so"}), before);
  Write("a.so", text);
  Write("b.so", "c");
  EXPECT_NE(Of("a.so", {"b.so"}), before);
}

TEST_F(KernelContent, IsTheSameWhereverTheFilesLieAndHoweverOftenTheyAreNamed) {
  Write("a.so", "a");
  Write("b.so", "b");
  Write("z.so", "a");
  std::filesystem::create_symlink(Path("b.so"), Path("link.so"));
  EXPECT_EQ(Of("a.so", {"b.so"}), Of("z.so", {"link.so", "b.so", "z.so"}));
}

}  // namespace
}  // namespace attest
