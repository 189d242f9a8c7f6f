#include "properties/harness/report/report_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/report/output_file.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNotes = ".attest";

std::string HashOf(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = MixIn(hash, static_cast<unsigned char>(c));
  return fmt::format("{:016x}", hash);
}

std::string ReadAll(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Hashes by name; the last note on a name holds.
std::map<std::string, std::string> NotesIn(const fs::path& folder) {
  std::map<std::string, std::string> notes;
  std::ifstream file(folder / kNotes);
  for (std::string line; std::getline(file, line);) {
    const size_t space = line.find(' ');
    if (space == line.npos) continue;
    const std::string name = line.substr(space + 1);
    const bool is_name = fs::path(name).filename() == name && name != "." && name != "..";
    if (is_name) notes[name] = line.substr(0, space);
  }
  return notes;
}

}  // namespace

ReportFolder::~ReportFolder() {
  if (notes_ >= 0) ::close(notes_);
}

bool ReportFolder::OpenNotes() {
  if (notes_ >= 0) return true;
  const std::string path = (fs::path(path_) / kNotes).string();
  notes_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  return notes_ >= 0;
}

void ReportFolder::RemoveOld() {
  is_noted_ = true;
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored) || !OpenNotes()) return;
  if (::flock(notes_, LOCK_EX | LOCK_NB) == 0) {
    for (const auto& [name, hash] : NotesIn(path_)) {
      const fs::path file = fs::path(path_) / name;
      fs::remove(PartialOf(file.string()), ignored);  // of a run that was killed
      if (!fs::is_regular_file(fs::symlink_status(file, ignored))) continue;
      if (HashOf(ReadAll(file)) == hash) fs::remove(file, ignored);
    }
    if (::ftruncate(notes_, 0) != 0) return;  // what is noted twice does no harm
  }
  ::flock(notes_, LOCK_SH);
}

tl::expected<void, std::string> ReportFolder::Note(const std::string& name, std::string_view text) {
  const bool is_new = notes_ < 0;
  if (!OpenNotes()) return tl::unexpected(CannotWrite(path_ + "/" + kNotes, errno));
  if (is_new) ::flock(notes_, LOCK_SH);
  const std::string note = fmt::format("{} {}\n", HashOf(text), name);
  if (::write(notes_, note.data(), note.size()) == static_cast<ssize_t>(note.size())) return {};
  return tl::unexpected(CannotWrite(path_ + "/" + kNotes, errno));
}

// A file of this name that no run has written as it is now is somebody's: it is put aside, as NAME.kept.
void ReportFolder::KeepWhatIsNotOurs(const std::string& name) const {
  std::error_code ignored;
  const fs::path file = fs::path(path_) / name;
  if (!fs::is_regular_file(fs::symlink_status(file, ignored))) return;
  const auto notes = NotesIn(path_);
  const auto noted = notes.find(name);
  if (noted != notes.end() && noted->second == HashOf(ReadAll(file))) return;
  fs::path kept = file.string() + ".kept";
  for (int n = 2; fs::exists(kept, ignored); ++n) kept = fmt::format("{}.kept{}", file.string(), n);
  fs::rename(file, kept, ignored);
}

tl::expected<void, std::string> ReportFolder::Write(const std::string& name,
                                                    std::string_view text) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) return tl::unexpected(CannotWrite(path_, error.value()));
  if (is_noted_) KeepWhatIsNotOurs(name);
  // First the note: a run killed in between leaves one that fits no file, which does no harm.
  if (auto done = is_noted_ ? Note(name, text) : tl::expected<void, std::string>(); !done) {
    return done;
  }
  return WriteFile((fs::path(path_) / name).string(), text);
}

}  // namespace attest
