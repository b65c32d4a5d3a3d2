// Sums over pieces of arrays, added in the order of the pieces. Each rank sums the pieces of its
// slice of an array, and then every rank adds the sums of all pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu {

/// The pieces that this rank sums, and the order in which the sums of all pieces are added. A slice
/// never ends within a piece.
class PieceOrder {
 public:
  /// Covers the operands [first, end) of the request. Each sum takes `sum_size` bytes.
  PieceOrder(const Request& request, size_t first, size_t end, size_t sum_size);

  /// Return the bytes of all sums, and the bytes of the sums that ranks gather.
  size_t bytes() const { return order_.size() * sum_size_; }
  size_t gathered_bytes() const;

 protected:
  /// The elements [first, end) of this rank's part of an operand.
  struct Piece {
    size_t operand;
    int64_t first, end;
    size_t place;  // where the sum is stored
  };
  /// Copies the sums of other ranks to their places.
  void gather(std::byte* sums) const;

  std::vector<Piece> pieces_;  // the pieces that this rank sums
  std::vector<size_t> order_;  // places of all sums, in the order in which they are added

 private:
  void add(const Request& request, size_t operand, std::vector<size_t>& places);

  size_t sum_size_;
  exec::Collectives* ranks_ = nullptr;   // null if nothing is gathered
  std::vector<size_t> offsets_, bytes_;  // indexed by rank: offset and size of its sums
};

template <typename Sum>
class PieceSums : public PieceOrder {
 public:
  PieceSums(const Request& request, size_t first, size_t end)
      : PieceOrder(request, first, end, sizeof(Sum)) {}

  /// Returns the total of sum_of(operand, first, end) over all pieces, computed on several threads.
  /// `memory` has room for bytes(). REQUIRES: all ranks make these calls in the same order.
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
