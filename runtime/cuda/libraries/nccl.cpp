// Opens NCCL and calls it without blocking. Every wait ends when a rank fails.
#include "runtime/cuda/libraries/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/module.h"

namespace flow::cuda {
namespace {

constexpr const char* kNccl = "libnccl.so.2";
constexpr int kOldest = 21400;  // the first version with non-blocking calls
constexpr const char* kInstall =
    "install NCCL (package libnccl2, or the Python package nvidia-nccl-cu13), or add its directory "
    "to LD_LIBRARY_PATH; or use one GPU";

[[noreturn]] void refuse(const std::string& found) {
  throw RequestError(fmt::format("several GPUs require NCCL; {}", found), kInstall);
}

/// Opens the library that the loader finds, or else the one in the usual folders of NVIDIA's
/// libraries.
void* open_library() {
  if (void* handle = ::dlopen(kNccl, RTLD_NOW | RTLD_LOCAL)) return handle;
  const std::string said = ::dlerror();
  const bool missing = said.starts_with(fmt::format("{}: cannot open", kNccl));
  if (missing && exec::open_from(exec::nvidia_folders(), kNccl))
    return ::dlopen(kNccl, RTLD_NOW | RTLD_LOCAL);
  if (missing) refuse(fmt::format("{} is missing", kNccl));
  refuse(fmt::format("cannot load {}: {}", kNccl, said));
}

/// Formats a version: 22803 -> "2.28.3".
std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

class NcclLibrary {
 public:
  NcclLibrary() : handle_(open_library()) {
    find("ncclGetVersion", calls_.get_version);
    require_version();
    find("ncclGetUniqueId", calls_.get_unique_id);
    find("ncclCommInitRankConfig", calls_.comm_init_rank_config);
    find("ncclCommGetAsyncError", calls_.comm_get_async_error);
    find("ncclCommAbort", calls_.comm_abort);
    find("ncclGroupStart", calls_.group_start);
    find("ncclGroupEnd", calls_.group_end);
    find("ncclSend", calls_.send);
    find("ncclRecv", calls_.receive);
    find("ncclGetErrorString", calls_.get_error_string);
  }

  const NcclCalls& calls() const { return calls_; }

 private:
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    if (!function) refuse(fmt::format("{} has no {}", kNccl, name));
  }

  void require_version() const {
    int version = 0;
    calls_.get_version(&version);
    if (version < kOldest)
      refuse(fmt::format("{} is version {}, expected {} or newer", kNccl,
                         nccl_version_text(version), nccl_version_text(kOldest)));
  }

  void* handle_;
  NcclCalls calls_{};
};

/// Calls `done` until it returns true, as long as all ranks are alive, and lets other threads run
/// meanwhile.
template <typename Done>
void poll(exec::Collectives& ranks, Done done) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  const auto start = Clock::now();
  while (!done()) {
    ranks.require_alive();
    const auto waited = Clock::now() - start;
    if (waited < 2ms)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::min<Clock::duration>(waited / 500, 1ms));
  }
}

}  // namespace

const NcclCalls& open_nccl() {
  static const NcclLibrary kLibrary;
  return kLibrary.calls();
}

Communicator::Communicator(const NcclCalls& nccl, Driver& driver, exec::Collectives& ranks)
    : nccl_(nccl), driver_(driver), ranks_(ranks) {}

std::string Communicator::version() const {
  int version = 0;
  nccl_.get_version(&version);
  return nccl_version_text(version);
}

void Communicator::connect() {
  constexpr const char* kWhat = "connecting the GPUs of the ranks";
  if (comm_) return;
  NcclId id{};
  if (ranks_.rank() == 0) require(nccl_.get_unique_id(&id), kWhat);
  exec::broadcast(ranks_, 0, std::as_writable_bytes(std::span(&id, 1)));
  NcclConfig config;
  settle(nccl_.comm_init_rank_config(&comm_, ranks_.size(), id, ranks_.rank(), &config), kWhat);
}

void Communicator::transfer(std::span<const Transfer> sends, std::span<const Transfer> receives,
                            Stream stream) {
  constexpr const char* kWhat = "an exchange between GPUs";
  if (sends.empty() && receives.empty()) return;
  if (!comm_) throw RunError("the GPUs of the ranks are not connected any more");
  require(nccl_.group_start(), kWhat);
  const NcclResult put_result = put(sends, receives, stream);
  const NcclResult ended = nccl_.group_end();
  settle(put_result == NcclResult::kSuccess ? ended : put_result, kWhat);
}

/// Enqueues the transfers within a group, which the caller ends regardless of the result.
NcclResult Communicator::put(std::span<const Transfer> sends, std::span<const Transfer> receives,
                             Stream stream) {
  const auto goes_on = [](NcclResult result) {
    return result == NcclResult::kSuccess || result == NcclResult::kInProgress;
  };
  NcclResult result = NcclResult::kSuccess;
  for (size_t i = 0; i < sends.size() && goes_on(result); ++i)
    result = nccl_.send(sends[i].memory, sends[i].bytes, kNcclBytes, sends[i].peer, comm_,
                        stream.handle);
  for (size_t i = 0; i < receives.size() && goes_on(result); ++i)
    result = nccl_.receive(receives[i].memory, receives[i].bytes, kNcclBytes, receives[i].peer,
                           comm_, stream.handle);
  return goes_on(result) ? NcclResult::kSuccess : result;
}

/// A non-blocking call is complete when its communicator reports so.
void Communicator::settle(NcclResult result, const char* what) {
  if (result == NcclResult::kInProgress)
    poll(ranks_, [&] {
      result = asynchronous_result();
      return result != NcclResult::kInProgress;
    });
  require(result, what);
}

void Communicator::require(NcclResult result, const char* what) {
  if (result == NcclResult::kSuccess) return;
  abort();
  ranks_.require_alive();  // if another rank failed, that failure is the cause
  throw RunError(fmt::format("{} failed: {}", what, nccl_.get_error_string(result)),
                 "NCCL_DEBUG=WARN makes NCCL print the reason");
}

NcclResult Communicator::asynchronous_result() const {
  NcclResult error = NcclResult::kSuccess;
  const NcclResult result = nccl_.comm_get_async_error(comm_, &error);
  return result == NcclResult::kSuccess ? error : result;
}

void Communicator::check() {
  if (comm_) require(asynchronous_result(), "a call on several GPUs");
}

/// Checks for an error even after the event is reached, because the kernels of an aborted
/// communicator simply end.
void Communicator::wait(Event event) {
  poll(ranks_, [&] {
    const bool reached = driver_.is_reached(event);
    check();
    return reached;
  });
}

/// Replaces ncclCommDestroy, which waits for all ranks of the host, although they may still be
/// waiting for an order from rank 0. Nothing is lost, because a call ends only when it is complete
/// on all ranks.
void Communicator::abort() noexcept {
  if (comm_) nccl_.comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace flow::cuda
