#include "properties/harness/night/kernel_content.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

// Where a file is found by another name it is the same one.
std::string RealPath(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

uint64_t HashFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 1 << 16> buffer;
  uint64_t hash = 0;
  while (file) {
    buffer.fill(0);
    file.read(buffer.data(), buffer.size());
    const auto got = static_cast<size_t>(file.gcount());
    for (size_t at = 0; at < got; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, &buffer[at], sizeof word);
      hash = MixIn(hash, word);
    }
    hash = MixIn(hash, got);
  }
  return hash;
}

}  // namespace

std::string ContentOf(const KernelSpec& spec, const KernelIdentity& identity) {
  std::set<std::string> files = {RealPath(spec.library)};
  for (const std::string& file : identity.files) files.insert(RealPath(file));
  uint64_t sum = 0;  // in any order, for the order is that of names
  for (const std::string& file : files) sum += HashFile(file);
  return fmt::format("{:016x}", sum);
}

}  // namespace attest
