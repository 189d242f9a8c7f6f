#include "properties/harness/cli/output_paths.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "properties/harness/report/output_file.h"
#include "properties/harness/sandbox/session.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> TargetsOf(const OutputPath& output) {
  if (!output.is_folder) return {output.path};
  std::vector<std::string> targets;
  for (const std::string& name : output.names) {
    targets.push_back((fs::path(output.path) / name).string());
  }
  return targets;
}

// Every path that writing the output touches.
std::vector<std::string> FilesOf(const OutputPath& output) {
  std::vector<std::string> files;
  for (const std::string& target : TargetsOf(output)) {
    files.push_back(target);
    files.push_back(PartialOf(target));
  }
  return files;
}

// One spelling for each place; `path` itself where the system cannot say.
std::string PlaceOf(const std::string& path) {
  std::error_code error;
  const fs::path place = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : place.string();
}

bool IsInside(const std::string& place, const std::string& folder) {
  return place.size() > folder.size() && place.starts_with(folder) && place[folder.size()] == '/';
}

// Whether `file`, which is there, is what `input` is or holds. Devices may be read and written.
bool IsReadFrom(const std::string& file, const std::string& input) {
  std::error_code ignored;
  if (fs::is_directory(input, ignored)) {
    return fs::is_regular_file(file, ignored) && IsInside(PlaceOf(file), PlaceOf(input));
  }
  return fs::is_regular_file(file, ignored) && fs::equivalent(file, input, ignored);
}

tl::expected<void, std::string> CheckNotRead(const std::vector<std::string>& reads,
                                             const OutputPath& output) {
  for (const std::string& file : FilesOf(output)) {
    const auto input = std::ranges::find_if(
        reads, [&](const std::string& read) { return IsReadFrom(file, read); });
    if (input == reads.end()) continue;
    return tl::unexpected(fmt::format("{} {}: {} would be read and written: name another {}",
                                      output.option, output.path, *input,
                                      output.is_folder ? "folder" : "file"));
  }
  return {};
}

tl::expected<void, std::string> CheckApart(const std::vector<OutputPath>& writes) {
  for (const OutputPath& folder : writes) {
    const std::string place = PlaceOf(folder.path);
    for (const OutputPath& file : writes) {
      if (!folder.is_folder || file.is_folder) continue;
      if (place != PlaceOf(file.path) && !IsInside(place, PlaceOf(file.path))) continue;
      return tl::unexpected(fmt::format("{} {}: {} makes a folder of that name: name another file",
                                        file.option, file.path, folder.option));
    }
  }
  std::map<std::string, std::string> options;  // by place
  for (const OutputPath& output : writes) {
    for (const std::string& file : FilesOf(output)) {
      const auto [other, is_new] = options.emplace(PlaceOf(file), output.option);
      if (is_new) continue;
      return tl::unexpected(fmt::format("{} and {} would both write {}: name two files",
                                        other->second, output.option, file));
    }
  }
  return {};
}

// 0, or why nothing can be made in the folder. A made name tells more than permission bits do: of a
// full disk, of a folder that is only shown.
int WhyNotMakeIn(const fs::path& folder) {
  std::string name = (folder / ".attest_XXXXXX").string();
  if (::mkdtemp(name.data()) != nullptr) {
    ::rmdir(name.c_str());
    return 0;
  }
  const int error = errno;
  std::error_code ignored;
  // What such a folder says where it is no disk's: it is there itself.
  return error == ENOENT && fs::is_directory(folder, ignored) ? EACCES : error;
}

// 0, or why a file of this name cannot be written.
int WhyNotWriteFile(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return EISDIR;
    if (!S_ISREG(status.st_mode)) return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  } else if (errno != ENOENT) {
    return errno;
  }
  const fs::path folder = fs::path(path).parent_path();
  return WhyNotMakeIn(folder.empty() ? "." : folder);
}

// Likewise of a folder, and of those above it that have to be made for it.
int WhyNotMakeFolder(const std::string& path) {
  for (fs::path folder = path;; folder = folder.parent_path()) {
    if (folder.empty()) return WhyNotMakeIn(".");
    struct stat status {};
    if (::stat(folder.c_str(), &status) == 0) {
      return S_ISDIR(status.st_mode) ? WhyNotMakeIn(folder) : ENOTDIR;
    }
    if (errno != ENOENT) return errno;
  }
}

tl::expected<void, std::string> CheckFolder(const OutputPath& output) {
  const int error = WhyNotMakeFolder(output.path);
  if (error == ENOTDIR) {
    return tl::unexpected(fmt::format("{} {}: is no folder, or lies in none: choose another name",
                                      output.option, output.path));
  }
  if (error != 0) {
    return tl::unexpected(fmt::format("{}: {}", output.option, CannotWrite(output.path, error)));
  }
  return {};
}

tl::expected<void, std::string> CheckWritable(const OutputPath& output) {
  if (output.path.empty()) {
    return tl::unexpected(
        fmt::format("{}: names nothing: give it a name, or leave it out", output.option));
  }
  if (output.is_folder) {
    if (auto done = CheckFolder(output); !done) return done;
  }
  for (const std::string& file : TargetsOf(output)) {
    std::error_code ignored;
    const bool is_planned = output.is_folder && !fs::exists(file, ignored);  // goes with its folder
    if (const int error = is_planned ? 0 : WhyNotWriteFile(file); error != 0) {
      return tl::unexpected(fmt::format("{}: {}", output.option, CannotWrite(file, error)));
    }
  }
  return {};
}

}  // namespace

tl::expected<void, std::string> CheckOutputs(const std::vector<std::string>& reads,
                                             const std::vector<OutputPath>& writes) {
  for (const OutputPath& output : writes) {
    if (auto done = CheckNotRead(reads, output); !done) return done;
  }
  if (auto done = CheckApart(writes); !done) return done;
  for (const OutputPath& output : writes) {
    if (auto done = CheckWritable(output); !done) return done;
  }
  return {};
}

std::vector<std::string> FilesOfKernels(const std::vector<std::string>& kernels,
                                        const std::vector<std::string>& optional_kernels) {
  std::vector<std::string> files;
  for (const auto* names : {&kernels, &optional_kernels}) {
    for (const std::string& name : *names) {
      if (const auto spec = ResolveKernel(name)) files.push_back(spec->library);
    }
  }
  return files;
}

}  // namespace attest
