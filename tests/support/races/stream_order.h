// Proves of what a program puts into streams that each operation is ordered with all others that
// touch its memory.
//
// Operations are copies, clears, kernels and groups of transfers in streams or in graphs, and what
// code of the host does with pinned memory. Two that touch a byte conflict if one writes it. They
// race if they conflict and neither happens before the other. One happens before another if
// - the same stream has both, and the first was put first;
// - both are of one captured stream of one launch of a graph, or a chain of waits was captured
//   from the one to the other;
// - a stream that has the second waited for an event that was recorded behind the first;
// - the host put the second after it waited for the first, or for an event behind it;
// - both are the host's. Its threads count as one, in the order in which they came;
// - a chain of these leads from the one to the other.
// The order in which the fake device does the work proves nothing and is not used.
//
// As with vector clocks of threads: each stream, each captured stream of a graph in a stream, and
// the host are timelines, and an operation knows how far each of them is done when it starts.
// Pageable memory is not looked at. Host code is heard of where it was compiled for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/races/hooks.h"

namespace flow::test {

/// By timeline: how many of its operations are done.
using Clock = std::vector<int64_t>;

struct Operation {
  std::string name;
  const void* code = nullptr;  // of the host's: where
  size_t timeline = 0;
  Clock knows = {};  // with itself

  bool precedes(const Operation& later) const;
};
using OperationPtr = std::shared_ptr<const Operation>;

/// Of a graph.
struct CapturedOperation {
  std::string name;
  int stream;                 // in which it was captured
  std::vector<size_t> after;  // operations of the graph
};

/// Threads may share it.
class StreamOrder : public AccessListener {
 public:
  OperationPtr put(int stream, const std::string& name);
  /// A launch of a graph: an operation for each of its own.
  std::vector<OperationPtr> put_graph(int stream, std::span<const CapturedOperation> graph);
  /// What an event knows that is recorded now.
  Clock recorded(int stream);
  /// What is put into the stream from now on comes after what the clock knows.
  void wait(int stream, const Clock& clock);
  /// The host has waited for that.
  void wait_by_host(const Clock& clock);
  /// The host has waited for all streams.
  void wait_for_all();

  void add_memory(const std::byte* first, size_t bytes);
  void remove_memory(const std::byte* first, size_t bytes);
  /// The operation uses memory. A race, if there is one. REQUIRES: an allocation holds it.
  std::optional<std::string> use(const OperationPtr& operation, const std::byte* first,
                                 size_t bytes, bool writes);
  /// The host uses memory.
  void access(const void* memory, size_t bytes, Access kind, const void* code) override;
  /// The first race of the host that was not taken.
  std::optional<std::string> race_of_host() const;
  std::optional<std::string> take_race_of_host();
  /// A number that grows with each use. How large was it when a stream last wrote there?
  int64_t uses() const;
  int64_t last_write_by_device(const std::byte* first, size_t bytes);

 private:
  /// Memory that operations used alike, up to `end`.
  struct Segment {
    const std::byte* end;
    OperationPtr writer = nullptr;
    std::vector<OperationPtr> readers = {};  // since then
    int64_t written = 0;                     // as uses(), by a stream
  };
  using Segments = std::map<const std::byte*, Segment>;
  struct Stream {
    size_t timeline;
    Clock clock;
  };

  /// What is done under it, nobody hears of.
  struct Lock {
    explicit Lock(std::mutex& mutex) : locked(mutex) {}
    Listening unheard;
    std::lock_guard<std::mutex> locked;
  };

  size_t new_timeline() { return timelines_++; }
  Stream& stream(int id);
  Clock clock_of(int id);
  Segments::iterator split(const std::byte* at);
  std::optional<std::string> use_segments(const OperationPtr& operation, const std::byte* first,
                                          size_t bytes, bool writes);

  static constexpr size_t kHost = 0;  // its timeline
  mutable std::mutex mutex_;
  size_t timelines_ = 1;
  Clock host_ = {1};
  OperationPtr of_host_;
  std::optional<std::string> race_of_host_;
  std::map<int, Stream> streams_;
  std::map<std::pair<int, int>, Stream>
      captured_;  // by the stream of the launch and of the capture
  Segments segments_;
  int64_t uses_ = 0;
};

}  // namespace flow::test
