// Calls as words instead of JSON, for workers that take them so ("packed" in impl/abi/PROTOCOL.md): a small
// call costs less to compute than its JSON to read. The harness writes them, attest_worker reads them.
#ifndef ATTEST_HARNESS_SANDBOX_PACKED_CALLS_H_
#define ATTEST_HARNESS_SANDBOX_PACKED_CALLS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace attest {

// Words of 64 bits in the machine's order.
class WordWriter {
 public:
  WordWriter() { words_.reserve(512); }  // as many as two or three calls have
  void Add(int64_t word) { words_.push_back(word); }
  void Add(double number) { words_.push_back(std::bit_cast<int64_t>(number)); }
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(int64_t)};
  }

 private:
  std::vector<int64_t> words_;
};

// Reads them back in order. Throws std::out_of_range behind the last.
class WordReader {
 public:
  explicit WordReader(std::string_view bytes) : rest_(bytes) {}
  int64_t Word() { return Next<int64_t>(); }
  double Number() { return Next<double>(); }
  // A count of things that are each a word at least, so that a wrong one cannot claim much memory.
  size_t Count() {
    const int64_t count = Word();
    if (count < 0 || static_cast<uint64_t>(count) > rest_.size() / sizeof count) {
      throw std::out_of_range("more packed words are announced than have come");
    }
    return static_cast<size_t>(count);
  }

 private:
  template <typename T>
  T Next() {
    T value;
    if (rest_.size() < sizeof value) throw std::out_of_range("packed words end too early");
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }

  std::string_view rest_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_PACKED_CALLS_H_
