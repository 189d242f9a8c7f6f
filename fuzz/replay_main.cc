// A plain main for fuzz targets, where libFuzzer is not built in: runs each file given and every file
// of each folder given, and without arguments a fixed stream of random records, so that the targets
// are compiled and run by every build. A folder without a file is an error: nothing would be tested.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

namespace fs = std::filesystem;

constexpr int kRandomRecords = 1000;  // some seconds
constexpr size_t kRecordBytes = 256;

bool RunFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz: %s: cannot be read\n", path.c_str());
    return false;
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return true;
}

bool Run(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return RunFile(path);
  bool all_read = true;
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    all_read &= RunFile(entry.path());
    ++files;
  }
  if (files == 0) std::fprintf(stderr, "fuzz: %s: holds no input\n", path.c_str());
  return all_read && files > 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  bool all_read = true;
  for (int i = 1; i < argc; ++i) all_read &= Run(argv[i]);
  if (argc > 1) return all_read ? 0 : 3;
  std::mt19937_64 engine(1);
  std::vector<uint8_t> record(kRecordBytes);
  for (int n = 0; n < kRandomRecords; ++n) {
    for (uint8_t& byte : record) byte = static_cast<uint8_t>(engine());
    LLVMFuzzerTestOneInput(record.data(), record.size());
  }
  std::printf("%d random records, no finding\n", kRandomRecords);
  return 0;
}
