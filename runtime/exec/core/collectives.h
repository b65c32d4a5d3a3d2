// What the ranks of a distributed run do together. Ranks are the processes of one run, counted from
// 0. A library moves the bytes; flow adds, in its own order.
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

/// Memory with a block for each rank. Blocks may be empty and do not overlap.
struct RankBlocks {
  std::byte* memory = nullptr;
  std::span<const size_t> offsets, bytes;  // by rank; they outlive the operation
};

/// A short text from another rank.
struct RankMessage {
  int from = 0;
  std::vector<std::byte> bytes;
};

/// An operation is started by every rank and does not block. Those of one kind are started in the
/// same order by all ranks; those of different kinds may overtake each other. Buffers may not be
/// touched before it is complete, but those that are sent may be read. All members may be called
/// from any thread. RunError where the library reports a failure.
class Collectives {
 public:
  /// A started operation. Valid until `test` says that it is complete.
  using Operation = size_t;
  /// The bytes of all blocks of an operation, and of a message.
  static constexpr size_t kMostBytes = size_t{1} << 30, kMostMessage = 4096;

  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "Open MPI 4.1.4"; "" where ranks are threads of one process
  virtual std::string library() const = 0;

  /// Block r of `send` goes to rank r, where it is the block of this rank in `receive`. Blocks of
  /// `send` may overlap.
  virtual Operation exchange(const RankBlocks& send, const RankBlocks& receive) = 0;
  /// Each rank's own block goes to all others.
  virtual Operation gather(const RankBlocks& blocks) = 0;
  /// Each rank's own block goes to `root`. The others have no memory for more than their own.
  virtual Operation gather_at(int root, const RankBlocks& blocks) = 0;
  virtual Operation broadcast(int root, std::span<std::byte> bytes) = 0;
  /// Is the operation complete? Moves all that are under way on.
  virtual bool test(Operation operation) = 0;

  /// Sends at most kMostMessage bytes, which are copied, beside the operations. Does not wait for
  /// the receiver.
  virtual void post(int to, std::span<const std::byte> message) = 0;
  /// A message that has arrived; those of one rank in their order.
  virtual std::optional<RankMessage> poll() = 0;

  /// This rank fails while the others count on it: where ranks are threads of one process, what
  /// the others start or wait for throws `error`, the first one where there are several.
  virtual void fail(const std::exception_ptr& /*error*/) {}
  /// Throws the error of another rank that called `fail`. Ranks that wait for something else than
  /// an operation call it.
  virtual void require_alive() {}

  /// Ends the use of the library: the last call of every rank. May wait for the others.
  virtual void finish() = 0;

  /// Counts those who wait for other ranks: they neither compute nor hang.
  std::atomic<int> waiting = 0;
};

// Collectives as most callers need them: whole values, for which they wait.

/// Returns when the operation is complete. Spins for some microseconds, then yields, then sleeps
/// for longer and longer, up to a millisecond: ranks may share a core.
void wait(Collectives& collectives, Collectives::Operation operation);

/// The largest of what the ranks say.
uint8_t agree(Collectives& collectives, uint8_t mine);

/// The text of each rank, on every rank.
std::vector<std::string> gather_texts(Collectives& collectives, const std::string& mine);

/// The blocks of all ranks come to `root`, of any size.
void gather_at(Collectives& collectives, int root, const RankBlocks& blocks,
               size_t most = Collectives::kMostBytes);

/// The bytes of `root`, of any number. Every rank knows how many. `most` go in one operation.
void broadcast(Collectives& collectives, int root, std::span<std::byte> bytes,
               size_t most = Collectives::kMostBytes);

/// The text of `root`.
std::string broadcast_text(Collectives& collectives, int root, const std::string& text);

}  // namespace flow::exec
