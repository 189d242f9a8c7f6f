#include "properties/seed_statements.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "properties/property.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

// The text of all tests of the Transformer.
std::string TestTexts() {
  std::ostringstream text;
  for (const char* folder : {"/impl/transformer", "/properties/transformer"}) {
    for (const auto& entry : fs::directory_iterator(ATTEST_SOURCE_DIR + std::string(folder))) {
      if (entry.path().string().ends_with("_test.cc")) text << std::ifstream(entry.path()).rdbuf();
    }
  }
  return text.str();
}

TEST(SeedStatementsTest, NameOnlyWhatIsThere) {
  const std::string tests = TestTexts();
  for (const SeedStatement& row : SeedStatements()) {
    std::istringstream witnesses{std::string(row.witnesses)};
    int count = 0;
    for (std::string name; witnesses >> name; ++count) {
      const size_t dot = name.find('.');
      ASSERT_NE(dot, name.npos) << name;
      if (std::islower(static_cast<unsigned char>(name[0])) != 0) {
        EXPECT_TRUE(FindProperty(name) != nullptr || FindModelProperty(name) != nullptr) << name;
        continue;
      }
      const std::string call = "(" + name.substr(0, dot) + ", " + name.substr(dot + 1) + ")";
      EXPECT_NE(tests.find(call), tests.npos) << name;
    }
    EXPECT_GT(count, 0) << row.statement;
  }
}

TEST(SeedStatementsTest, EverySubjectIsThere) {
  std::set<std::string_view> subjects;
  for (const SeedStatement& row : SeedStatements()) subjects.insert(row.subject);
  EXPECT_EQ(subjects.size(), 15u);
}

}  // namespace
}  // namespace attest
