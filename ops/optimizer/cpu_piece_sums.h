// Sums over pieces of arrays, added in the order of pieces. Ranks that have a slice of an array
// each sum the pieces of their own, and all of them add the sums of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu {

/// Which pieces are summed here, and in which order all of them are added. Slices end where pieces
/// do.
class PieceOrder {
 public:
  /// Of operands [first, end) of the request; a sum takes `sum_size` bytes.
  PieceOrder(const Request& request, size_t first, size_t end, size_t sum_size);

  /// Bytes of all sums, and of those that are gathered from ranks.
  size_t bytes() const { return order_.size() * sum_size_; }
  size_t gathered_bytes() const;

 protected:
  /// Elements [first, end) of what is here of an operand.
  struct Piece {
    size_t operand;
    int64_t first, end;
    size_t place;  // of its sum
  };
  /// The sums of other ranks come to their places.
  void gather(std::byte* sums) const;

  std::vector<Piece> pieces_;  // of this rank
  std::vector<size_t> order_;  // places of all sums, in the order in which they are added

 private:
  void add(const Request& request, size_t operand, std::vector<size_t>& places);

  size_t sum_size_;
  exec::Collectives* ranks_ = nullptr;   // null: nothing is gathered
  std::vector<size_t> offsets_, bytes_;  // by rank: of its sums
};

template <typename Sum>
class PieceSums : public PieceOrder {
 public:
  PieceSums(const Request& request, size_t first, size_t end)
      : PieceOrder(request, first, end, sizeof(Sum)) {}

  /// The total of sum_of(operand, first, end) over all pieces, on many threads. `memory` has room
  /// for bytes(). REQUIRES: all ranks call it, in one order.
  template <typename SumOf>
  Sum operator()(int threads, std::byte* memory, SumOf sum_of) const {
    Sum* sums = reinterpret_cast<Sum*>(memory);
    parallel_for(threads, static_cast<int64_t>(pieces_.size()), [&](int64_t i, int) {
      const Piece& piece = pieces_[static_cast<size_t>(i)];
      sums[piece.place] = sum_of(piece.operand, piece.first, piece.end);
    });
    gather(memory);
    Sum total{};
    for (const size_t place : order_) total += sums[place];
    return total;
  }
};

}  // namespace flow::cpu
