// A set of a few words, or of pairs of them, in 64 bits: what a contract mostly consists of. Copied with no
// allocation, unlike std::set, whose names it goes by.
#ifndef ATTEST_ATTENTION_ENUM_SET_H_
#define ATTEST_ATTENTION_ENUM_SET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace attest {

// Where in the 64 bits a value stands.
template <typename E>
struct EnumBit {
  static constexpr int Of(E value) { return static_cast<int>(value); }
  static constexpr E At(int bit) { return static_cast<E>(bit); }
};
// Of pairs: the second has at most eight values, the first too.
template <typename A, typename B>
struct EnumBit<std::pair<A, B>> {
  static constexpr int Of(const std::pair<A, B>& value) {
    return static_cast<int>(value.first) * 8 + static_cast<int>(value.second);
  }
  static constexpr std::pair<A, B> At(int bit) {
    return {static_cast<A>(bit / 8), static_cast<B>(bit % 8)};
  }
};

template <typename T>
class EnumSet {
 public:
  using value_type = T;

  // In ascending order.
  class iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = T;
    using pointer = void;
    using iterator_category = std::forward_iterator_tag;

    iterator() = default;
    explicit iterator(uint64_t rest) : rest_(rest) {}
    T operator*() const { return EnumBit<T>::At(std::countr_zero(rest_)); }
    iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    iterator operator++(int) {
      const iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const iterator&, const iterator&) = default;

   private:
    uint64_t rest_ = 0;  // from the present value on
  };
  using const_iterator = iterator;

  EnumSet() = default;
  EnumSet(std::initializer_list<T> values) {
    for (const T& value : values) insert(value);
  }

  iterator begin() const { return iterator(bits_); }
  iterator end() const { return iterator(0); }
  bool empty() const { return bits_ == 0; }
  size_t size() const { return static_cast<size_t>(std::popcount(bits_)); }
  size_t count(const T& value) const { return (bits_ & Mask(value)) != 0 ? 1 : 0; }
  bool contains(const T& value) const { return count(value) != 0; }
  // Whether it was not there yet.
  bool insert(const T& value) { return std::exchange(bits_, bits_ | Mask(value)) != bits_; }
  // Whether it was there.
  bool erase(const T& value) { return std::exchange(bits_, bits_ & ~Mask(value)) != bits_; }
  void clear() { bits_ = 0; }

  friend bool operator==(const EnumSet&, const EnumSet&) = default;
  // What is in both.
  friend EnumSet operator&(const EnumSet& a, const EnumSet& b) {
    EnumSet both;
    both.bits_ = a.bits_ & b.bits_;
    return both;
  }

 private:
  static uint64_t Mask(const T& value) { return uint64_t{1} << EnumBit<T>::Of(value); }

  uint64_t bits_ = 0;
};

}  // namespace attest

#endif  // ATTEST_ATTENTION_ENUM_SET_H_
