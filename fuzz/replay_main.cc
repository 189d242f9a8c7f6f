// A plain main for fuzz targets, where libFuzzer is not built in: runs each file given, and without
// files a fixed stream of random records, so that the targets are compiled and run by every build.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kRandomRecords = 1000;  // some seconds
constexpr size_t kRecordBytes = 256;

bool RunFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "fuzz: %s: cannot be read\n", path);
    return false;
  }
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  bool all_read = true;
  for (int i = 1; i < argc; ++i) all_read &= RunFile(argv[i]);
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
