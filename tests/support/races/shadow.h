// What the threads of a launch did with each byte of memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace flow::test {

/// An access, as a cell remembers it.
struct Mark {
  uint32_t block;       // in the order in which the blocks of a launch run
  uint32_t epoch;       // how many barriers the block had passed
  uint16_t thread;      // of the block
  uint16_t clock : 15;  // how many __syncwarp the thread had passed since the last barrier
  uint16_t atomic : 1;
  int32_t code;  // where: its distance from a function of the tests
};

/// Of a word of 4 bytes, or of one byte of a word whose bytes are used one by one. What an earlier
/// generation left is void.
struct Cell {
  uint64_t generation = 0;
  Mark writer{}, users[2]{};  // users: of reads or atomic operations since then
  uint8_t user_count = 0;
  bool written = false;                        // is there a writer?
  bool was_read = false, was_written = false;  // in this launch
  int32_t split = -1;                          // where the cells of its bytes are
};

/// Bytes [first, end) that a launch read or wrote.
struct UsedRange {
  const std::byte* first;
  const std::byte* end;
  bool read, written;
};

/// The cells of one allocation, made where they are first used.
class Shadow {
 public:
  Shadow(const std::byte* first, size_t bytes);

  bool holds(const std::byte* at) const { return at >= first_ && at < first_ + bytes_; }
  const std::byte* first() const { return first_; }
  size_t bytes() const { return bytes_; }

  /// Calls f(cell) for the cells of [at, at + bytes). REQUIRES: holds(at).
  template <typename F>
  void visit(const std::byte* at, size_t bytes, uint64_t generation, F f) {
    const auto offset = static_cast<size_t>(at - first_);
    const size_t end = std::min(offset + bytes, bytes_);
    for (size_t word = offset / kWord; word * kWord < end; ++word) {
      const size_t from = std::max(offset, word * kWord), to = std::min(end, (word + 1) * kWord);
      Cell& cell = cell_of(word, generation);
      if (to - from == kWord && cell.split < 0) {
        f(cell);
        continue;
      }
      if (cell.split < 0) split(cell);
      for (size_t i = from; i < to; ++i) f(split_[static_cast<size_t>(cell.split)][i % kWord]);
    }
  }
  /// What was used in `generation`, by address. Neighbors that were used alike are one range.
  std::vector<UsedRange> used(uint64_t generation);

 private:
  static constexpr size_t kWord = 4, kPage = 512;
  struct Page {
    uint64_t generation = 0;
    std::array<Cell, kPage> cells;
  };

  Cell& cell_of(size_t word, uint64_t generation) {
    std::unique_ptr<Page>& page = pages_[word / kPage];
    if (!page || page->generation != generation) open(word / kPage, generation);
    Cell& cell = page->cells[word % kPage];
    if (cell.generation != generation) {
      cell = {};
      cell.generation = generation;
    }
    return cell;
  }
  void open(size_t page, uint64_t generation);
  void split(Cell& cell);

  const std::byte* first_;
  size_t bytes_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<size_t> opened_;  // pages of `generation_`
  std::vector<std::array<Cell, kWord>> split_;
  uint64_t generation_ = 0;
};

/// The allocations of a device.
class ShadowMemory {
 public:
  void add(const std::byte* first, size_t bytes);
  void remove(const std::byte* first);
  /// Null where no allocation holds it.
  Shadow* find(const std::byte* at) {
    if (last_ && last_->holds(at)) return last_;
    return search(at);
  }
  /// A new one, for a launch, or for shared memory for a block.
  uint64_t next_generation() { return ++generation_; }
  /// By address.
  std::vector<UsedRange> used(uint64_t generation);

 private:
  Shadow* search(const std::byte* at);

  std::map<const std::byte*, Shadow> shadows_;
  Shadow* last_ = nullptr;
  uint64_t generation_ = 0;
};

}  // namespace flow::test
