#include "properties/kill_table.h"

#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace attest {

Kills ReadKillsFolder(const std::filesystem::path& folder) {
  Kills kills;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    std::ifstream file(entry.path());
    std::string property;
    while (file >> property) kills[entry.path().filename().string()].insert(property);
  }
  return kills;
}

Kills ReadKillsOfReadme(const std::string& text) {
  Kills kills;
  std::istringstream lines(text);
  std::string line, family;
  while (std::getline(lines, line)) {
    if (line.starts_with("## ")) family = line.substr(3);
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.size() < 7 || cells[1] == " property " || cells[1] == "---") continue;
    std::istringstream name(cells[1]), mutants(cells[6]);
    std::string property, mutant;
    name >> property;
    while (mutants >> mutant) kills[mutant].insert(family + "." + property);
  }
  return kills;
}

}  // namespace attest
