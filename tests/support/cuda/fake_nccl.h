// Stands in for NCCL in tests: ranks are threads, each with a device that is not there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/libraries/nccl.h"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {

/// Bytes move when the streams of all ranks that a group names have come to it; which of them
/// first, the seed decides with the threads' timing. Receiving memory holds garbage until then.
/// Misuse is kept for problems(): memory that is not on the device, ranks whose groups do not fit
/// each other, communicators that are left. Where one rank aborts, all work of the others ends and
/// they report a remote error.
class FakeNccl {
 public:
  explicit FakeNccl(int ranks, unsigned seed = 0);
  ~FakeNccl();

  /// Those of `cuda::open_nccl`, for threads that are ranks.
  static const cuda::NcclCalls& calls();
  /// Makes this thread a rank; outlives its communicator.
  class Thread {
   public:
    Thread(FakeNccl& nccl, int rank);
    ~Thread();
    /// Whose streams the communicator uses.
    void use(FakeDriver& driver);
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
  };

  /// The n-th call of `rank` (1: the first one) fails.
  void fail_at(int rank, int64_t n);
  bool has_failed(int rank) const;
  /// Of a rank: "init", "group of 2", "abort".
  const std::vector<std::string>& calls_of(int rank) const;
  std::vector<std::string> problems() const;

  struct World;

 private:
  std::unique_ptr<World> world_;
};

}  // namespace flow::test
