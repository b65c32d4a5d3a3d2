// NCCL moves bytes between GPUs. What flow calls of it is declared here, since the library is
// opened only where a run has several GPUs, and systems ship it without headers.
#pragma once

#include <climits>
#include <cstddef>
#include <span>
#include <string>

#include "runtime/cuda/driver/driver.h"
#include "runtime/exec/core/collectives.h"

namespace flow::cuda {

/// ncclResult_t, as far as flow or its tests name results.
enum class NcclResult : int {
  kSuccess = 0,
  kSystemError = 2,
  kInvalidArgument = 4,
  kRemoteError = 6,
  kInProgress = 7
};

struct NcclComm;  // NCCL's own

struct NcclId {  // ncclUniqueId
  char bytes[128];
};

/// ncclConfig_t of NCCL 2.14: newer versions use their defaults for what this one lacks.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
  int unset = INT_MIN;  // the next option of newer versions
};

constexpr int kNcclBytes = 1;  // ncclUint8

/// Streams are cudaStream_t.
struct NcclCalls {
  NcclResult (*get_version)(int* version);
  NcclResult (*get_unique_id)(NcclId* id);
  NcclResult (*comm_init_rank_config)(NcclComm** comm, int ranks, NcclId id, int rank,
                                      NcclConfig* config);
  NcclResult (*comm_get_async_error)(NcclComm* comm, NcclResult* error);
  NcclResult (*comm_abort)(NcclComm* comm);
  NcclResult (*group_start)();
  NcclResult (*group_end)();
  NcclResult (*send)(const void* memory, size_t count, int type, int peer, NcclComm* comm,
                     void* stream);
  NcclResult (*receive)(void* memory, size_t count, int type, int peer, NcclComm* comm,
                        void* stream);
  const char* (*get_error_string)(NcclResult result);
};

/// Opens libnccl.so.2, which stays open until the process ends. RequestError where it is missing or
/// too old.
const NcclCalls& open_nccl();

/// Connects the GPUs of all ranks, one a rank. What fails is a RunError with NCCL's text; it ends
/// the communicator, on this rank and on those that wait for it.
class Communicator {
 public:
  /// On the device, to or from another rank.
  struct Transfer {
    std::byte* memory;
    size_t bytes;
    int peer;
  };

  /// All of these outlive it.
  Communicator(const NcclCalls& nccl, Driver& driver, exec::Collectives& ranks);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { abort(); }

  /// Of NCCL: "2.28.3"
  std::string version() const;

  /// All ranks together, before the first transfer; later calls do nothing. REQUIRES: this thread
  /// used the driver last.
  void connect();
  /// Puts transfers into the stream. All ranks put the ones that belong together in one order.
  void transfer(std::span<const Transfer> sends, std::span<const Transfer> receives, Stream stream);
  /// Returns when all work before the event is done.
  void wait(Event event);
  /// What is under way ends without a result. Afterwards nothing can be transferred.
  void abort() noexcept;

 private:
  NcclResult put(std::span<const Transfer> sends, std::span<const Transfer> receives,
                 Stream stream);
  void settle(NcclResult result, const char* what);
  void check();
  void require(NcclResult result, const char* what);
  NcclResult asynchronous_result() const;

  const NcclCalls& nccl_;
  Driver& driver_;
  exec::Collectives& ranks_;
  NcclComm* comm_ = nullptr;
};

}  // namespace flow::cuda
