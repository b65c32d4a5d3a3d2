// Short messages between ranks, beside the operations.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/exec/core/collectives.h"

namespace flow::mpi {

/// No member waits for another rank. Receiving is always under way: a rank that stops in the middle
/// of sending blocks nothing.
class Messages {
 public:
  explicit Messages(MPI_Comm world);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Dropped where many earlier ones to this rank are still under way: it may be dead.
  void post(int to, std::span<const std::byte> message);
  std::optional<exec::RankMessage> poll();
  bool all_sent();
  /// The number of messages sent to each rank, and received from each.
  const std::vector<int>& sent() const { return sent_; }
  const std::vector<int>& received() const { return received_counts_; }
  void stop_receiving();

 private:
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    int to = 0;
    std::vector<std::byte> bytes = {};
  };

  void receive();
  Sending& free_sending();

  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::vector<int> sent_, received_counts_;  // by rank
  std::deque<Sending> sendings_;             // kept and used again
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::vector<std::byte> received_;
};

}  // namespace flow::mpi
