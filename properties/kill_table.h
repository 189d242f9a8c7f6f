// Which property kills which seeded fault, as properties/README.md says it and as runs leave it. Callers: the
// program that writes the README, and the gate that demands a kill of every property.
#ifndef ATTEST_PROPERTIES_KILL_TABLE_H_
#define ATTEST_PROPERTIES_KILL_TABLE_H_

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace attest {

using Kills = std::map<std::string, std::set<std::string>>;  // properties by mutant

// A file a mutant, with a property's id a line. Empty where there is no such folder.
Kills ReadKillsFolder(const std::filesystem::path& folder);

// The last columns of the tables of properties/README.md.
Kills ReadKillsOfReadme(const std::string& text);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_KILL_TABLE_H_
