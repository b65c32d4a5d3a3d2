// The ids of pieces that were merged before.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace flow::data {

/// A table of fixed size, in which a new piece replaces another one with an equal hash.
class PieceCache {
 public:
  static constexpr size_t kLongestPiece = 22;  // bytes

  PieceCache() : entries_(kEntries) {}

  /// Returns the ids of a piece, or no ids if the table does not have it.
  std::span<const int32_t> find(std::string_view piece) const {
    const Entry& entry = entries_[slot_of(piece)];
    const std::string_view kept(entry.piece.data(), entry.bytes);
    return std::span(entry.ids).first(kept == piece ? entry.count : 0);
  }

  /// Keeps the ids of a piece. Does nothing if there are too many. REQUIRES: the piece has at most
  /// kLongestPiece bytes.
  void insert(std::string_view piece, std::span<const int32_t> ids) {
    Entry& entry = entries_[slot_of(piece)];
    if (ids.size() > entry.ids.size()) return;
    entry.bytes = static_cast<uint8_t>(piece.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::ranges::copy(piece, entry.piece.begin());
    std::ranges::copy(ids, entry.ids.begin());
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 15;  // 2 MiB, which second-level caches hold

  struct Entry {
    uint8_t bytes = 0, count = 0;
    std::array<char, kLongestPiece> piece;
    std::array<int32_t, 10> ids;
  };

  static size_t slot_of(std::string_view piece) {
    return XXH3_64bits(piece.data(), piece.size()) & (kEntries - 1);
  }

  std::vector<Entry> entries_;
};

/// Objects that threads take for a while: there are no more of them than threads used one at the
/// same time.
template <typename T>
class Pool {
 public:
  /// An object that returns to the pool at the end.
  class Lease {
   public:
    explicit Lease(Pool& pool) : pool_(pool), object_(pool.take()) {}
    ~Lease() { pool_.give(std::move(object_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    T* operator->() { return object_.get(); }
    T& operator*() { return *object_; }

   private:
    Pool& pool_;
    std::unique_ptr<T> object_;
  };

 private:
  std::unique_ptr<T> take() {
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<T> object = std::move(free_.back());
        free_.pop_back();
        return object;
      }
      free_.reserve(++objects_);  // so that `give` allocates nothing
    }
    return std::make_unique<T>();
  }

  void give(std::unique_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(object));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
  size_t objects_ = 0;
};

}  // namespace flow::data
