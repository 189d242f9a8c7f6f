// The cache of keys and values that generation goes on from: contiguous, in pages, or a ring of the
// last tokens. It holds tokens without padding: entry e of an item is its token at position e,
// whatever batch it came in. A pass begins with Begin, writes each layer's keys and values, and
// reads them by Rows.
#ifndef ATTEST_TRANSFORMER_CACHE_H_
#define ATTEST_TRANSFORMER_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "impl/transformer/attention.h"
#include "impl/transformer/config.h"
#include "impl/transformer/tokens.h"

namespace attest::transformer {

template <typename T>
class Cache {
 public:
  Cache(const Config& config, int64_t batch)
      : config_(config),
        layers_(static_cast<size_t>(config.layers)),
        before_(static_cast<size_t>(batch), 0),
        count_(static_cast<size_t>(batch), 0),
        pages_(static_cast<size_t>(batch)) {
    Grow();
  }

  int64_t batch() const { return std::ssize(count_); }
  bool empty() const { return Longest() == 0; }
  // Tokens of each item, [batch], and as they were before the last Begin.
  const std::vector<int64_t>& count() const { return count_; }
  const std::vector<int64_t>& before() const { return before_; }
  // The entry of an item that stands first in Rows: those before it are forgotten.
  int64_t FirstEntry(int64_t b) const {
    return is_ring() ? std::max<int64_t>(0, Count(b) - config_.window) : 0;
  }

  // Makes room for the tokens of `places` in every layer. A ring takes one token an item at a time.
  void Begin(const Places& places) {
    if (config_.fault == Fault::kCacheLastTokenTwice) RepeatLastToken();
    before_ = count_;
    for (int64_t b = 0; b < batch(); ++b) count_[static_cast<size_t>(b)] += places.Length(b);
    Grow();
  }

  // Keys and values of the tokens of `places`, [batch * len, kv_dim]; padding is passed over.
  void Write(int64_t layer, const Places& places, const Matrix<T>& k, const Matrix<T>& v) {
    Layer& to = layers_[static_cast<size_t>(layer)];
    for (int64_t b = 0; b < places.batch; ++b) {
      for (int64_t i = places.Begin(b); i < places.End(b); ++i) {
        const int64_t entry = before_[static_cast<size_t>(b)] + i - places.Begin(b);
        const int64_t from = places.Row(b, i) * width(), at = Slot(b, entry) * width();
        std::copy_n(k.data() + from, width(), to.k.begin() + at);
        std::copy_n(v.data() + from, width(), to.v.begin() + at);
      }
    }
  }

  // The keys and values of a layer, from FirstEntry on; those at or beyond the count are none.
  KvRows<T> Rows(int64_t layer) const {
    const Layer& from = layers_[static_cast<size_t>(layer)];
    KvRows<T> rows;
    rows.k = from.k.data();
    rows.v = from.v.data();
    rows.rows = std::ssize(from.k) / width();
    rows.len = is_ring() ? config_.window : Longest();
    rows.item_rows = config_.fault == Fault::kCacheOfItem0 ? 0 : rows.len;
    if (is_paged()) AddPageTable(rows);
    for (int64_t b = 0; is_ring() && b < batch(); ++b) {
      rows.ring_start.push_back(FirstEntry(b) % config_.window);
    }
    return rows;
  }

  // Item n of the cache is from now on a copy of what item parents[n] was. There may be more or
  // fewer parents than items: who is no one's parent is evicted.
  void Reorder(std::span<const int64_t> parents) {
    if (config_.fault == Fault::kReorderForgotten) return;
    Cache next(config_, std::ssize(parents));
    std::vector<int64_t> sources(parents.begin(), parents.end());
    for (int64_t n = 0; n < next.batch(); ++n) {
      auto& source = sources[static_cast<size_t>(n)];
      if (config_.fault == Fault::kReorderInPlace && source < n) {
        source = sources[static_cast<size_t>(source)];
      }
      next.count_[static_cast<size_t>(n)] = Count(source);
    }
    next.Grow();
    next.repeated_ = repeated_;
    for (int64_t n = 0; n < next.batch(); ++n) {
      next.CopyItem(n, *this, sources[static_cast<size_t>(n)]);
    }
    *this = std::move(next);
  }

  // Of keys and values in use: contiguous, the longest item's tokens for each item; in pages, whole
  // ones; of a ring, the slots that have been written.
  int64_t bytes() const {
    int64_t rows = batch() * Longest();
    if (is_paged()) rows = num_pages_ * config_.page_size;
    if (is_ring()) rows = batch() * std::min(Longest(), config_.window);
    return 2 * config_.layers * rows * width() * static_cast<int64_t>(sizeof(T));
  }

 private:
  struct Layer {
    std::vector<T> k, v;  // [rows, width]
  };

  bool is_ring() const { return config_.cache == CacheKind::kRing; }
  bool is_paged() const { return config_.cache == CacheKind::kPaged; }
  int64_t width() const { return config_.kv_dim(); }
  int64_t Count(int64_t b) const { return count_[static_cast<size_t>(b)]; }
  int64_t Longest() const {
    return count_.empty() ? 0 : *std::max_element(count_.begin(), count_.end());
  }

  // The row that an entry is stored in.
  int64_t Slot(int64_t b, int64_t entry) const {
    if (is_paged()) {
      const int64_t page =
          pages_[static_cast<size_t>(b)][static_cast<size_t>(entry / config_.page_size)];
      return page * config_.page_size + entry % config_.page_size;
    }
    if (!is_ring()) return b * stored_ + entry;
    const bool late = config_.fault == Fault::kRingEvictsWrongSlot && entry >= config_.window;
    return b * config_.window + (entry + (late ? 1 : 0)) % config_.window;
  }

  void AddPageTable(KvRows<T>& rows) const {
    rows.page_size = config_.page_size;
    rows.pages_per_item = (Longest() + config_.page_size - 1) / config_.page_size;
    for (int64_t b = 0; b < batch(); ++b) {
      const auto& own = pages_[static_cast<size_t>(b)];
      for (size_t page = 0; page < static_cast<size_t>(rows.pages_per_item); ++page) {
        const bool of_first = config_.fault == Fault::kPagesOfItem0 && page < pages_[0].size();
        rows.page_table.push_back(page >= own.size() ? -1 : of_first ? pages_[0][page] : own[page]);
      }
    }
  }

  // Room for count() tokens of each item.
  void Grow() {
    int64_t rows = batch() * (is_ring() ? config_.window : Longest());
    if (is_paged()) rows = GrowPages() * config_.page_size;
    const int64_t longest = Longest();
    for (Layer& layer : layers_) {
      for (std::vector<T>* values : {&layer.k, &layer.v}) {
        if (is_ring() || is_paged()) {
          values->resize(static_cast<size_t>(rows * width()));
        } else {
          *values = Spread(*values, longest);
        }
      }
    }
    stored_ = longest;
  }

  // Items of stored_ rows each as items of `longest` rows.
  std::vector<T> Spread(const std::vector<T>& values, int64_t longest) const {
    std::vector<T> wider(static_cast<size_t>(batch() * longest * width()));
    const int64_t kept = values.empty() ? 0 : std::min(stored_, longest) * width();
    for (int64_t b = 0; b < batch(); ++b) {
      std::copy_n(values.begin() + b * stored_ * width(), kept,
                  wider.begin() + b * longest * width());
    }
    return wider;
  }

  // Gives items the pages that they need; returns how many there are in all.
  int64_t GrowPages() {
    for (int64_t b = 0; b < batch(); ++b) {
      auto& pages = pages_[static_cast<size_t>(b)];
      while (std::ssize(pages) * config_.page_size < Count(b)) pages.push_back(num_pages_++);
    }
    return num_pages_;
  }

  void CopyItem(int64_t to, const Cache& from, int64_t source) {
    const bool values_stay = config_.fault == Fault::kReorderOfKeysAlone && to < from.batch() &&
                             from.Count(to) >= from.Count(source);
    for (size_t l = 0; l < layers_.size(); ++l) {
      for (int64_t e = from.FirstEntry(source); e < from.Count(source); ++e) {
        const int64_t at = Slot(to, e) * width(), k_at = from.Slot(source, e) * width();
        const int64_t v_at = values_stay ? from.Slot(to, e) * width() : k_at;
        std::copy_n(from.layers_[l].k.begin() + k_at, width(), layers_[l].k.begin() + at);
        std::copy_n(from.layers_[l].v.begin() + v_at, width(), layers_[l].v.begin() + at);
      }
    }
  }

  void RepeatLastToken() {
    if (empty() || repeated_) return;
    repeated_ = true;
    for (int64_t& count : count_) ++count;
    Grow();
    for (int64_t b = 0; b < batch(); ++b) {
      const int64_t from = Slot(b, std::max<int64_t>(0, Count(b) - 2)) * width();
      const int64_t to = Slot(b, Count(b) - 1) * width();
      for (Layer& layer : layers_) {
        std::copy_n(layer.k.begin() + from, width(), layer.k.begin() + to);
        std::copy_n(layer.v.begin() + from, width(), layer.v.begin() + to);
      }
    }
  }

  Config config_;
  std::vector<Layer> layers_;
  std::vector<int64_t> before_, count_;      // [batch]
  std::vector<std::vector<int64_t>> pages_;  // of each item
  int64_t num_pages_ = 0;
  int64_t stored_ = 0;     // rows of an item, contiguous
  bool repeated_ = false;  // of kCacheLastTokenTwice
};

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_CACHE_H_
