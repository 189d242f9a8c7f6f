// The other half of the mutation gate: every property kills some mutant by what it claims. properties/README.md,
// which `attest power` fills, says which; one of those, the one that fewest others kill first, must still be.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"
#include "properties/harness/power/kill.h"
#include "properties/harness/report/json_read.h"
#include "properties/kill_table.h"
#include "properties/property.h"

namespace attest {

// Or GoogleTest prints the bytes.
void PrintTo(const Property& property, std::ostream* out) {
  *out << property.id;
}

namespace {

// A kernel's exp may differ in the last bits from that of the machine where the table was made, so that a kill at
// the edge is none here.
constexpr size_t kMostTried = 4;

const Kills& Table() {
  static const Kills kKills = [] {
    std::stringstream text;
    text << std::ifstream(ATTEST_PROPERTY_README).rdbuf();
    return ReadKillsOfReadme(text.str());
  }();
  return kKills;
}

// The kernels that the property is said to kill, the one that fewest others kill first.
std::vector<std::string> KilledBy(std::string_view property) {
  std::vector<std::string> killed;
  for (const auto& [mutant, properties] : Table()) {
    if (properties.count(std::string(property)) != 0) killed.push_back(mutant);
  }
  std::ranges::stable_sort(killed, {}, [](const std::string& m) { return Table().at(m).size(); });
  return killed;
}

bool IsKilled(const std::string& id, const std::string& property) {
  const bool is_kernel = id.starts_with("hostile:");
  std::string folder = testing::TempDir() + "attest_property_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return false;
  RunAttest({"check", is_kernel ? id : "mutant:" + id, "--property", property, "--plan", "quick",
             "--seed", "1", "--max-findings", "0", "--json", "run.json"},
            folder);
  const auto lines = ReadJsonLinesOf(folder + "/run.json");
  std::filesystem::remove_all(folder);
  if (!lines) return false;
  const Kill kill = KillOf({}, lines->report.kernels.front());
  return std::ranges::any_of(
      kill.by, [&](const PropertyKill& by) { return by.property == property && IsOwnKill(by); });
}

class PropertyGate : public testing::TestWithParam<Property> {};

TEST_P(PropertyGate, KillsAMutantByItsClaim) {
  const std::string property(GetParam().id);
  std::vector<std::string> killed = KilledBy(property);
  // The rarest may need more cases of one property than a plan has; the commonest does not.
  if (killed.size() > kMostTried) {
    killed[kMostTried - 1] = killed.back();
    killed.resize(kMostTried);
  }
  EXPECT_TRUE(std::ranges::any_of(killed, [&](const auto& id) { return IsKilled(id, property); }))
      << property << " kills none of: " << fmt::format("{}", fmt::join(killed, " "));
}

std::string TestName(const testing::TestParamInfo<Property>& info) {
  std::string name(info.param.id);
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Properties, PropertyGate,
                         testing::ValuesIn(AllProperties().begin(), AllProperties().end()),
                         TestName);

}  // namespace
}  // namespace attest
