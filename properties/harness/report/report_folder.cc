#include "properties/harness/report/report_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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
constexpr const char* kNotOursText =
    "--report {}: its file {}, in which attest notes what it writes, cannot be written ({}): name "
    "another folder";
constexpr const char* kTakenText =
    "--report {}: another run of attest is at work there: name another folder";

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

// Whoever holds the lock on the notes has the folder.
ReportFolder::Claim ReportFolder::TryToTake(const std::string& path) {
  const std::string notes = (fs::path(path) / kNotes).string();
  const int file =
      ::open(notes.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return Claim::kCannot;
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {  // a pipe would never end
    ::close(file);
    errno = EEXIST;
    return Claim::kCannot;
  }
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    const bool is_taken = errno == EWOULDBLOCK;
    ::close(file);
    return is_taken ? Claim::kTaken : Claim::kCannot;
  }
  notes_ = file;
  return Claim::kOurs;
}

// To the name of the next folder, where this run may take another.
bool ReportFolder::MoveOn() {
  if (if_taken_ == IfTaken::kRefuse) return false;
  const std::string end = number_ == 1 ? "" : fmt::format("-{}", number_);
  path_.resize(path_.size() - end.size());
  path_ += fmt::format("-{}", ++number_);
  return true;
}

tl::expected<void, std::string> ReportFolder::Begin() {
  is_noted_ = true;
  std::error_code ignored;
  // Who may not move on must know at once whether the folder is free.
  if (if_taken_ == IfTaken::kRefuse) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) return tl::unexpected("--report: " + CannotWrite(path_, error.value()));
  }
  while (fs::is_directory(path_, ignored)) {
    const Claim claim = TryToTake(path_);
    if (claim == Claim::kOurs) RemoveOld();
    if (claim == Claim::kCannot && if_taken_ == IfTaken::kRefuse) {
      return tl::unexpected(fmt::format(kNotOursText, path_, kNotes, std::strerror(errno)));
    }
    // Of a folder that the user did not ask for this is said with the first file.
    if (claim != Claim::kTaken) return {};
    if (!MoveOn()) return tl::unexpected(fmt::format(kTakenText, path_));
  }
  return {};
}

// A folder that was not there when the run began, and is now, is another run's.
tl::expected<void, std::string> ReportFolder::MakeOurs() {
  const fs::path parent = fs::path(path_).parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  while (!error) {
    const bool is_new = fs::create_directory(path_, error);
    if (error) break;
    const Claim claim = is_new || if_taken_ == IfTaken::kRefuse ? TryToTake(path_) : Claim::kTaken;
    if (claim == Claim::kOurs) return {};
    if (claim == Claim::kCannot) {
      return tl::unexpected(fmt::format(kNotOursText, path_, kNotes, std::strerror(errno)));
    }
    if (!MoveOn()) return tl::unexpected(fmt::format(kTakenText, path_));
  }
  return tl::unexpected(CannotWrite(path_, error.value()));
}

void ReportFolder::RemoveOld() const {
  std::error_code ignored;
  for (const auto& [name, hash] : NotesIn(path_)) {
    const fs::path file = fs::path(path_) / name;
    fs::remove(PartialOf(file.string()), ignored);  // of a run that was killed
    if (!fs::is_regular_file(fs::symlink_status(file, ignored))) continue;
    if (HashOf(ReadAll(file)) == hash) fs::remove(file, ignored);
  }
  [[maybe_unused]] const int kept = ::ftruncate(notes_, 0);  // what is noted twice does no harm
}

tl::expected<void, std::string> ReportFolder::Note(const std::string& name,
                                                   std::string_view text) const {
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

tl::expected<std::string, std::string> ReportFolder::Write(const std::string& name,
                                                           std::string_view text) {
  if (is_noted_) {
    if (auto ours = notes_ < 0 ? MakeOurs() : tl::expected<void, std::string>(); !ours) {
      return tl::unexpected(ours.error());
    }
    KeepWhatIsNotOurs(name);
    // First the note: a run killed in between leaves one that fits no file, which does no harm.
    if (auto noted = Note(name, text); !noted) return tl::unexpected(noted.error());
  }
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) return tl::unexpected(CannotWrite(path_, error.value()));
  const std::string path = (fs::path(path_) / name).string();
  return WriteFile(path, text).map([&] { return path; });
}

}  // namespace attest
