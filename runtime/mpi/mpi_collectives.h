// What ranks do together, by MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/exec/core/collectives.h"
#include "runtime/mpi/messages.h"

namespace flow::mpi {

/// Calls MPI from one thread at a time, and only functions that return at once.
class MpiCollectives final : public exec::Collectives {
 public:
  /// REQUIRES: MPI is initialized. Destroying it leaves MPI alone: the process may be failing.
  MpiCollectives();

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return library_; }

  Operation exchange(const exec::RankBlocks& send, const exec::RankBlocks& receive) override;
  Operation gather(const exec::RankBlocks& blocks) override;
  Operation gather_at(int root, const exec::RankBlocks& blocks) override;
  Operation broadcast(int root, std::span<std::byte> bytes) override;
  bool test(Operation operation) override;

  void post(int to, std::span<const std::byte> message) override;
  std::optional<exec::RankMessage> poll() override;

  void finish() override;

 private:
  /// Blocks as MPI takes them, whose offsets are int: from the first byte that a block has.
  struct Layout {
    void set(const exec::RankBlocks& blocks);
    std::byte* memory = nullptr;
    std::vector<int> bytes = {}, offsets = {};
  };
  /// An operation, or room for one. MPI reads its arrays until it is complete.
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    bool started = false;
    Layout send = {}, receive = {};
  };

  template <typename Call>
  Operation start(const Call& call);
  template <typename Done>
  void receive_until(const Done& done);

  std::mutex mutex_;
  /// Operations of different kinds may overtake each other.
  MPI_Comm exchanges_ = MPI_COMM_NULL, gathers_ = MPI_COMM_NULL, gathers_at_ = MPI_COMM_NULL,
           broadcasts_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::string library_;
  std::deque<Slot> slots_;  // kept and used again
  Messages messages_;
};

}  // namespace flow::mpi
