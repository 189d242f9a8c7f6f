#include "properties/harness/cli/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace attest {
namespace {

void OpenAs(int descriptor, const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
}

}  // namespace

std::string BinFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

Program::Program(const std::vector<std::string>& arguments, const std::string& folder)
    : out_path_(folder + "/stdout"), err_path_(folder + "/stderr") {
  std::vector<std::string> words{BinFolder() + "/attest"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  OpenAs(STDOUT_FILENO, out_path_);
  OpenAs(STDERR_FILENO, err_path_);
  if (chdir(folder.c_str()) == 0) execv(argv[0], argv.data());
  _exit(127);
}

Program::~Program() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  Wait();
}

void Program::Signal(int signal) {
  kill(pid_, signal);
}

ProgramResult Program::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  ProgramResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = ReadText(out_path_);
  result.err = ReadText(err_path_);
  return result;
}

ProgramResult RunAttest(const std::vector<std::string>& arguments, const std::string& folder) {
  return Program(arguments, folder).Wait();
}

std::string ReadText(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<nlohmann::json> ReadJsonLines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  // eof after a line means that its end has not been written yet.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    lines.push_back(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
  return lines;
}

}  // namespace attest
