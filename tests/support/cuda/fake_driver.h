// A device that is not there: memory from malloc, streams that run on the CPU, kernels on
// run_on_cpu. Records what is called and tells what a real driver would suffer in silence.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "tests/support/cuda/block.h"
#include "tests/support/cuda/fake_work.h"
#include "tests/support/races/shadow.h"
#include "tests/support/races/stream_order.h"

namespace flow::test {

class KeptCall;

/// When the work of a stream is done. A real one may do it at any time between these.
enum class Timing {
  kEager,   // at once
  kLazy,    // when somebody waits for it
  kBeside,  // when somebody waits for any: that of other streams first, as far as it may come first
};

struct FakeDevice {
  LaneOrder lanes = LaneOrder::kForward;
  Timing timing = Timing::kLazy;
  GraphOrder graphs = GraphOrder::kCaptured;
  size_t memory = size_t{1} << 32;  // bytes
  /// Looks for races, also with the host. Code that is not instrumented must not touch its memory.
  bool watched = true;
  /// Must kernels be loaded before they are captured?
  bool loads_first = false;
};

/// Are accesses of kernels heard of? Not where other sanitizers watch them.
inline constexpr bool kKernelsAreWatched =
#ifdef FLOW_WATCH_RACES
    true;
#else
    false;
#endif

/// Misuse throws Defect, which no product code catches, and is kept for problems(): bytes that lie
/// in no allocation, allocating or synchronizing while a stream captures, copies of pageable memory
/// in a capture, handles that were destroyed, races of threads of a kernel (launch_check.h), and of
/// operations in streams (stream_order.h).
class FakeDriver : public cuda::Driver {
 public:
  explicit FakeDriver(const FakeDevice& device = {});
  ~FakeDriver() override;

  /// A line a call: "launch relu stream 1", "copy 400 to device stream 1", "capture stream 1";
  /// what is captured starts with "captured ".
  const std::vector<std::string>& calls() const { return calls_; }
  void forget_calls() { calls_.clear(); }
  /// How many of calls() start with `text`.
  int64_t count(std::string_view text) const;

  /// The n-th call from now (1: the next one), of those that may fail, throws RunError.
  void fail_at(int64_t n) { failing_ = n; }
  /// Has the call come that fail_at names?
  bool has_failed() const { return failing_ == 0; }
  /// What was misused so far, and what is not destroyed at this moment.
  std::vector<std::string> problems() const;
  size_t allocated() const { return allocated_; }  // bytes of device memory
  /// Puts work of a stand-in for a library into the stream.
  void put_work(cuda::Stream stream, const std::string& line, Work work) {
    put(stream, line, std::move(work));
  }
  /// Does [memory, memory + bytes) lie in one allocation on the device?
  bool is_on_device(const void* memory, size_t bytes = 1) const;

  const cuda::DeviceProperties& properties() const override { return properties_; }
  size_t free_memory() override;
  std::byte* allocate(size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  std::byte* allocate_pinned(size_t bytes) override;
  void release_pinned(std::byte* memory) noexcept override;
  cuda::Stream create_stream() override;
  void destroy(cuda::Stream stream) noexcept override;
  cuda::Event create_event() override;
  cuda::Event create_timed_event() override;
  void destroy(cuda::Event event) noexcept override;
  void copy(void* to, const void* from, size_t bytes, cuda::Stream stream) override;
  void copy_rows(void* to, const void* from, const cuda::RowCopy& copy,
                 cuda::Stream stream) override;
  void clear(void* memory, size_t bytes, cuda::Stream stream) override;
  void launch(const cuda::KernelCall& call, cuda::Stream stream) override;
  void load(const cuda::KernelCall& call) override;
  void record(cuda::Event event, cuda::Stream stream) override;
  void wait(cuda::Stream stream, cuda::Event event) override;
  void synchronize(cuda::Event event) override;
  void synchronize(cuda::Stream stream) override;
  /// Does the work first, where nobody has waited for it.
  bool is_reached(cuda::Event event) override;
  /// One for each piece of work between them.
  double milliseconds_between(cuda::Event first, cuda::Event second) override;
  void begin_capture(cuda::Stream stream) override;
  cuda::Graph end_capture(cuda::Stream stream) override;
  void launch(cuda::Graph graph, cuda::Stream stream) override;
  void destroy(cuda::Graph graph) noexcept override;

 private:
  using Blocks = std::map<const std::byte*, size_t>;  // address -> bytes
  struct StreamState {
    std::deque<PutWork> queue;
    int64_t put = 0, done = 0;      // how many were ever put in, and done
    int captures_for = 0;           // id of the stream whose capture it is part of; 0: none
    bool joined = true;             // of one that takes part in another's capture
    std::vector<size_t> last = {};  // of the capture: the pieces that the next one comes after
  };
  /// A point in a stream: after its first `position` pieces of work.
  struct EventState {
    int stream = 0;  // 0: never recorded
    int64_t position = 0;
    int captured_for = 0;
    bool timed = false;
    std::vector<size_t> last = {};  // as the stream's
    Clock knows = {};
  };
  enum class Where { kDevice, kPinned, kPageable };

  static int id_of(const void* handle) {
    return static_cast<int>(reinterpret_cast<intptr_t>(handle));
  }
  static void* handle_of(int id) { return reinterpret_cast<void*>(static_cast<intptr_t>(id)); }
  [[noreturn]] void misuse(const std::string& what);
  void report_race(const std::string& race);
  void begin_call(const std::string& line);
  void require_no_capture(const std::string& what);
  StreamState& state_of(cuda::Stream stream);
  EventState& state_of(cuda::Event event);
  std::byte* take(Blocks& blocks, size_t bytes);
  void give_back(Blocks& blocks, std::byte* memory, const char* what) noexcept;
  Where where(const void* memory, size_t bytes);
  void put(cuda::Stream stream, const std::string& line, Work work);
  PutWork promised(Work work, OperationPtr operation) const;
  void run(const PutWork& put);
  void use(const OperationPtr& operation, const MemoryUse& memory);
  void finish() noexcept;
  void run_until(int stream, int64_t position);
  void run_others(int stream);
  void wait_for(cuda::Stream stream);
  void run_threads(KeptCall& call, const OperationPtr& operation);

  FakeDevice device_;
  cuda::DeviceProperties properties_;
  std::vector<std::string> calls_, misuses_;
  int64_t failing_ = 0;
  int last_id_ = 0;
  Blocks memory_, pinned_;
  ShadowMemory shadow_;  // of both
  StreamOrder order_;
  bool raced_ = false;
  size_t allocated_ = 0;
  std::map<int, StreamState> streams_;
  std::map<int, EventState> events_;
  std::map<int, std::shared_ptr<const FakeGraph>> graphs_;
  std::map<int, FakeGraph> captures_;  // by the stream that began one
  std::set<const void*> loaded_;       // kernels
};

}  // namespace flow::test
