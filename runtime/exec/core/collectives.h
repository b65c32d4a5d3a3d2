// Collective operations of the ranks of a distributed run. Ranks are the processes of one run,
// counted from 0. A library moves the bytes; flow does the additions, in an order that it defines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flow::exec {

/// Memory with one block for each rank. Blocks may be empty and do not overlap.
struct RankBlocks {
  std::byte* memory = nullptr;
  std::span<const size_t> offsets, bytes;  // indexed by rank; the arrays outlive the operation
};

/// A short text from another rank.
struct RankMessage {
  int from = 0;
  std::vector<std::byte> bytes;
};

/// Every rank starts each operation, and starting does not block. All ranks start the operations of
/// one kind in the same order; operations of different kinds may overtake each other. Until an
/// operation is complete, its buffers must not be touched, except that buffers being sent may be
/// read. All members may be called from any thread. They throw RunError if the library reports a
/// failure.
class Collectives {
 public:
  /// A started operation. It is valid until `test` returns true for it.
  using Operation = size_t;
  /// The most bytes in all blocks of an operation, and in a message.
  static constexpr size_t kMostBytes = size_t{1} << 30, kMostMessage = 4096;

  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The library and its version, such as "Open MPI 4.1.4", or "" if ranks are threads of one
  /// process.
  virtual std::string library() const = 0;

  /// Sends block r of `send` to rank r, which receives it in the block of this rank in its
  /// `receive`. Blocks of `send` may overlap.
  virtual Operation exchange(const RankBlocks& send, const RankBlocks& receive) = 0;
  /// Sends the block of each rank to all other ranks.
  virtual Operation gather(const RankBlocks& blocks) = 0;
  /// Sends the block of each rank to `root`. The other ranks need memory only for their block.
  virtual Operation gather_at(int root, const RankBlocks& blocks) = 0;
  virtual Operation broadcast(int root, std::span<std::byte> bytes) = 0;
  /// Returns true if the operation is complete. Also advances all operations in progress.
  virtual bool test(Operation operation) = 0;

  /// Sends a copy of at most kMostMessage bytes, independently of the operations. Does not wait for
  /// the receiver.
  virtual void post(int to, std::span<const std::byte> message) = 0;
  /// Returns a message that has arrived, if any. Messages from one rank arrive in the order in
  /// which they were sent.
  virtual std::optional<RankMessage> poll() = 0;

  /// Reports that this rank has failed while others depend on it. If ranks are threads of one
  /// process, the operations that other ranks start or wait for then throw `error`; if several
  /// ranks fail, the first error is thrown.
  virtual void fail(const std::exception_ptr& /*error*/) {}
  /// Throws the error of another rank that called `fail`. A rank calls this while it waits for
  /// something other than an operation.
  virtual void require_alive() {}

  /// Ends the use of the library. This is the last call of every rank; it may wait for the other
  /// ranks.
  virtual void finish() = 0;

  /// The number of threads that wait for other ranks. They neither compute nor hang.
  std::atomic<int> waiting = 0;
};

// Collectives in the form that most callers need: each sends whole values and waits for the result.

/// Returns when the operation is complete. Spins for some microseconds, then yields, then sleeps
/// for increasing times of up to a millisecond, because ranks may share a core.
void wait(Collectives& collectives, Collectives::Operation operation);

/// Returns the largest value that any rank passes.
uint8_t agree(Collectives& collectives, uint8_t mine);

/// Returns the texts of all ranks, indexed by rank, on every rank.
std::vector<std::string> gather_texts(Collectives& collectives, const std::string& mine);

/// Sends the blocks of all ranks, of any size, to `root`, at most `most` bytes in one operation.
void gather_at(Collectives& collectives, int root, const RankBlocks& blocks,
               size_t most = Collectives::kMostBytes);

/// Sends the bytes of `root` to all ranks, at most `most` bytes in one operation. Every rank passes
/// a span of the same size.
void broadcast(Collectives& collectives, int root, std::span<std::byte> bytes,
               size_t most = Collectives::kMostBytes);

/// Returns the text that `root` passes, on every rank.
std::string broadcast_text(Collectives& collectives, int root, const std::string& text);

}  // namespace flow::exec
