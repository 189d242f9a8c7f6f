#include "fuzz/findings.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "fuzz/status.h"
#include "properties/harness/case/shrink.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

// A kernel that is wrong throughout fits many a class by chance: more are one fault in many lights.
constexpr int kMaxClasses = 3;
// A search for the cause costs more than all else in a failing case.
constexpr int kMaxCausesSought = 8;
// Well below libFuzzer's own limit for an input.
constexpr std::chrono::seconds kShrinkTime{4};

std::string StemOf(const FuzzedKernel& kernel, const Signature& signature) {
  std::string stem = kernel.name + "-" + ToString(signature);
  std::ranges::replace_if(
      stem, [](char c) { return std::strchr("/?=:&", c) != nullptr; }, '-');
  return stem;
}

Signature WithoutClass(Signature signature) {
  signature.cause_class.clear();
  return signature;
}

std::string TextOf(const Case& c, const Signature& signature, const FuzzedKernel& kernel,
                   const std::string& sentence) {
  return ToToml({c, signature.property, kernel.name, sentence});
}

// The failure of this signature among what the property finds in the case.
std::optional<Failure> FailureIn(const Case& c, const Signature& signature, FuzzedKernel& kernel) {
  CaseResult result =
      RunCase(*FindProperty(signature.property), c, kernel.contract, *kernel.runner);
  for (Failure& failure : result.failures) {
    if (failure.signature == signature) return std::move(failure);
  }
  return std::nullopt;
}

}  // namespace

Findings::Findings() {
  const char* folder = std::getenv("ATTEST_FINDINGS");
  folder_ = folder != nullptr && *folder != '\0' ? folder : ATTEST_DEFAULT_FINDINGS;
}

bool Findings::WantsCause(const FuzzedKernel& kernel, const Signature& signature) {
  return ++sought_[StemOf(kernel, WithoutClass(signature))] <= kMaxCausesSought;
}

bool Findings::IsKnown(const FuzzedKernel& kernel, const Signature& signature) {
  const std::string name = StemOf(kernel, signature) + ".toml";
  if (passed_over_.contains(name)) return true;
  const std::string stem = StemOf(kernel, WithoutClass(signature));
  int classes = 0;
  bool known = fs::exists(folder_ / name);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(".toml") || !file.starts_with(stem)) continue;
    if (file[stem.size()] == '-' || file[stem.size()] == '.') ++classes;
  }
  // Without a class it is a failure of any kind that shares all else with it.
  known |= classes >= kMaxClasses || (signature.cause_class.empty() && classes > 0);
  if (known) passed_over_.insert(name);
  return known;
}

bool Findings::Claim(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(folder_, error);
  const fs::path written = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  if (!ReplaceFile(written, text)) {
    GiveUp(fmt::format("cannot write {}: set ATTEST_FINDINGS to a writable folder", path.string()));
  }
  // A link, unlike a rename, fails where the name is taken.
  fs::create_hard_link(written, path, error);
  const bool is_first = !error;
  std::error_code ignored;
  fs::remove(written, ignored);
  if (error && error != std::errc::file_exists) {
    GiveUp(fmt::format("cannot write {}: {}", path.string(), error.message()));
  }
  return is_first;
}

void Findings::Consider(const Failure& failure, FuzzedKernel& kernel) {
  if (folder_ == "none") {
    fmt::print(stderr, "\n{}",
               TextOf(failure.c, failure.signature, kernel, failure.verdict.sentence));
    std::abort();
  }
  if (IsKnown(kernel, failure.signature)) return;
  const fs::path path = folder_ / (StemOf(kernel, failure.signature) + ".toml");
  if (!Claim(path, TextOf(failure.c, failure.signature, kernel, failure.verdict.sentence))) return;
  ShrinkAndAbort(failure, kernel, path);
}

void Findings::ShrinkAndAbort(const Failure& failure, FuzzedKernel& kernel, const fs::path& path) {
  const Signature& signature = failure.signature;
  const auto stop = std::chrono::steady_clock::now() + kShrinkTime;
  std::string sentence = failure.verdict.sentence;
  const ShrinkResult shrunk = Shrink(failure.c, [&](const Case& smaller) {
    if (std::chrono::steady_clock::now() >= stop) return false;
    const auto again = FailureIn(smaller, signature, kernel);
    if (again) sentence = again->verdict.sentence;
    return again.has_value();
  });
  ReplaceFile(path, TextOf(shrunk.smallest, signature, kernel, sentence));
  fmt::print(stderr, "\n{} fails on {}: {}\nreplay: attest replay {} '{}'\n", ToString(signature),
             kernel.name, sentence, path.string(), kernel.name);
  ++Figures().findings;
  WriteStatus();
  std::abort();
}

}  // namespace attest
