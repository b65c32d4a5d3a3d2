// The parts of NCCL, which moves bytes between GPUs, that flow calls. They are declared here
// because the library is opened only if a run uses several GPUs, and some systems ship it without
// headers.
#pragma once

#include <climits>
#include <cstddef>
#include <span>
#include <string>

#include "runtime/cuda/driver/driver.h"
#include "runtime/exec/core/collectives.h"

namespace flow::cuda {

/// The values of ncclResult_t that flow or its tests use.
enum class NcclResult : int {
  kSuccess = 0,
  kSystemError = 2,
  kInvalidArgument = 4,
  kRemoteError = 6,
  kInProgress = 7
};

struct NcclComm;  // defined by NCCL

struct NcclId {  // ncclUniqueId
  char bytes[128];
};

/// ncclConfig_t of NCCL 2.14. Newer versions use their defaults for options that it lacks.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
  int unset = INT_MIN;  // the next option in newer versions
};

constexpr int kNcclBytes = 1;  // ncclUint8

/// The functions of NCCL. Streams are of type cudaStream_t.
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

/// Opens libnccl.so.2, which stays open until the process ends. Throws RequestError if the library
/// is missing or too old.
const NcclCalls& open_nccl();

/// Connects the GPUs of all ranks; each rank has one GPU. A failure is a RunError with NCCL's
/// message. It ends the communicator on this rank and on the ranks that wait for it.
class Communicator {
 public:
  /// A block of device memory that is sent to or received from another rank.
  struct Transfer {
    std::byte* memory;
    size_t bytes;
    int peer;
  };

  /// All arguments outlive the communicator.
  Communicator(const NcclCalls& nccl, Driver& driver, exec::Collectives& ranks);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { abort(); }

  /// Returns the version of NCCL, such as "2.28.3".
  std::string version() const;

  /// Connects the ranks. All ranks call it before the first transfer; later calls do nothing.
  /// REQUIRES: The driver is the last one that this thread used.
  void connect();
  /// Puts transfers into the stream. All ranks must put matching transfers in the same order.
  void transfer(std::span<const Transfer> sends, std::span<const Transfer> receives, Stream stream);
  /// Returns when all work before the event is done.
  void wait(Event event);
  /// Ends pending work without a result. No transfer is possible afterwards.
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
