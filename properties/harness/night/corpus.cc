#include "properties/harness/night/corpus.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

namespace fs = std::filesystem;

bool IsInput(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_regular_file(ignored) && entry.path().extension() != ".tmp";
}

std::vector<fs::directory_entry> InputsIn(const std::string& folder) {
  std::vector<fs::directory_entry> inputs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (IsInput(entry)) inputs.push_back(entry);
  }
  return inputs;
}

void RemoveAll(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

int64_t CountInputs(const std::string& folder) {
  return std::ssize(InputsIn(folder));
}

tl::expected<Corpus, std::string> Corpus::Open(const std::string& folder, int jobs) {
  Corpus corpus(folder);
  std::error_code error, ignored;
  // FinishMerge was cut off between its two renames: what was merged is whole then.
  if (!fs::exists(corpus.shared(), ignored) && fs::exists(corpus.merging(), ignored)) {
    fs::rename(corpus.merging(), corpus.shared(), ignored);
  }
  RemoveAll(folder + "/old");
  corpus.AbandonMerge();
  fs::create_directories(corpus.shared(), error);
  for (int i = 0; i < jobs && !error; ++i) fs::create_directories(corpus.job(i), error);
  if (error) {
    return tl::unexpected(fmt::format("cannot make the folder {}: {}: choose another with --corpus",
                                      folder, error.message()));
  }
  return corpus;
}

std::vector<std::string> Corpus::Folders() const {
  std::vector<std::string> folders{shared()};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().starts_with("job-") && CountInputs(path) > 0) {
      folders.push_back(path);
    }
  }
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

int64_t Corpus::Size() const {
  int64_t size = 0;
  for (const std::string& folder : Folders()) size += CountInputs(folder);
  return size;
}

void Corpus::StartMerge() const {
  AbandonMerge();
  std::error_code ignored;
  fs::create_directories(merging(), ignored);
}

void Corpus::FinishMerge() const {
  const std::vector<std::string> merged = Folders();
  const std::string old = folder_ + "/old";
  std::error_code error;
  fs::rename(shared(), old, error);
  if (!error) fs::rename(merging(), shared(), error);
  if (error) return AbandonMerge();
  RemoveAll(old);
  for (const std::string& folder : merged) {
    if (folder == shared()) continue;
    for (const fs::directory_entry& input : InputsIn(folder)) RemoveAll(input.path().string());
  }
  RemoveAll(control());
}

void Corpus::AbandonMerge() const {
  RemoveAll(merging());
  RemoveAll(control());
}

void Corpus::Trim(int64_t most) const {
  for (const std::string& folder : Folders()) {
    if (folder == shared()) continue;
    std::vector<fs::directory_entry> inputs = InputsIn(folder);
    if (std::ssize(inputs) <= most) continue;
    std::ranges::sort(inputs, std::greater(), [](const fs::directory_entry& input) {
      std::error_code ignored;
      return input.last_write_time(ignored);
    });
    for (auto i = inputs.begin() + most; i != inputs.end(); ++i) RemoveAll(i->path().string());
  }
}

}  // namespace attest
