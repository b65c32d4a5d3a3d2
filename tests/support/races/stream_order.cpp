// Vector clocks, and segments of memory that remember who used them.
#include "tests/support/races/stream_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/support/races/place.h"

namespace flow::test {
namespace {

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// Its next operation.
void advance(Clock& clock, size_t timeline) {
  if (clock.size() <= timeline) clock.resize(timeline + 1);
  ++clock[timeline];
}

std::string name_of(const Operation& operation) {
  if (!operation.code) return fmt::format("`{}`", operation.name);
  return fmt::format("the host at {}", place_of(operation.code));
}

std::string race(const Operation& now, bool writes, const Operation& earlier, bool wrote,
                 const std::byte* first, const std::byte* end) {
  return fmt::format("a race in bytes [{}, {}): {} {} them, {} {} them, and nothing orders the two",
                     static_cast<const void*>(first), static_cast<const void*>(end), name_of(now),
                     writes ? "writes" : "reads", name_of(earlier), wrote ? "writes" : "reads");
}

}  // namespace

bool Operation::precedes(const Operation& later) const {
  return timeline < later.knows.size() && knows[timeline] <= later.knows[timeline];
}

StreamOrder::Stream& StreamOrder::stream(int id) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) return found->second;
  return streams_.emplace(id, Stream{new_timeline(), {}}).first->second;
}

/// Where the next operation of the stream begins. What the host does from now on is later.
Clock StreamOrder::clock_of(int id) {
  Clock clock = stream(id).clock;
  join(clock, host_);
  ++host_[kHost];
  return clock;
}

OperationPtr StreamOrder::put(int id, const std::string& name) {
  const Lock lock(mutex_);
  Clock clock = clock_of(id);
  Stream& in = stream(id);
  advance(clock, in.timeline);
  in.clock = clock;
  return std::make_shared<Operation>(Operation{name, nullptr, in.timeline, std::move(clock)});
}

std::vector<OperationPtr> StreamOrder::put_graph(int id, std::span<const CapturedOperation> graph) {
  const Lock lock(mutex_);
  const Clock begin = clock_of(id);
  Stream& in = stream(id);
  in.clock = begin;
  std::vector<OperationPtr> operations;
  for (const CapturedOperation& captured : graph) {
    const std::pair key(id, captured.stream);
    auto lane = captured_.find(key);
    if (lane == captured_.end()) lane = captured_.emplace(key, Stream{new_timeline(), {}}).first;
    Clock& own = lane->second.clock;  // knows its own timeline alone
    const size_t timeline = lane->second.timeline;
    advance(own, timeline);
    Clock clock = begin;
    for (const size_t earlier : captured.after) join(clock, operations[earlier]->knows);
    join(clock, own);
    join(in.clock, clock);
    operations.push_back(
        std::make_shared<Operation>(Operation{captured.name, nullptr, timeline, std::move(clock)}));
  }
  advance(in.clock, in.timeline);
  return operations;
}

Clock StreamOrder::recorded(int id) {
  const Lock lock(mutex_);
  return stream(id).clock;
}

void StreamOrder::wait(int id, const Clock& clock) {
  const Lock lock(mutex_);
  join(stream(id).clock, clock);
}

void StreamOrder::wait_by_host(const Clock& clock) {
  const Lock lock(mutex_);
  join(host_, clock);
}

void StreamOrder::wait_for_all() {
  const Lock lock(mutex_);
  for (const auto& [id, stream] : streams_) join(host_, stream.clock);
}

void StreamOrder::add_memory(const std::byte* first, size_t bytes) {
  const Lock lock(mutex_);
  segments_.emplace(first, Segment{first + bytes});
}

void StreamOrder::remove_memory(const std::byte* first, size_t bytes) {
  const Lock lock(mutex_);
  segments_.erase(segments_.lower_bound(first), segments_.lower_bound(first + bytes));
}

/// The segment that begins at `at`, or the first one behind it.
StreamOrder::Segments::iterator StreamOrder::split(const std::byte* at) {
  const auto after = segments_.lower_bound(at);
  if (after == segments_.begin() || (after != segments_.end() && after->first == at)) return after;
  Segment& before = std::prev(after)->second;
  if (before.end <= at) return after;
  Segment rest = before;
  before.end = at;
  return segments_.emplace_hint(after, at, std::move(rest));
}

std::optional<std::string> StreamOrder::use_segments(const OperationPtr& now,
                                                     const std::byte* first, size_t bytes,
                                                     bool writes) {
  if (bytes == 0) return {};
  ++uses_;
  const auto begin = split(first), end = split(first + bytes);
  for (auto at = begin; at != end; ++at) {
    Segment& segment = at->second;
    const auto conflict = [&](const Operation& earlier, bool wrote) {
      return race(*now, writes, earlier, wrote, at->first, segment.end);
    };
    if (segment.writer && !segment.writer->precedes(*now)) return conflict(*segment.writer, true);
    for (const OperationPtr& reader : segment.readers)
      if (writes && !reader->precedes(*now)) return conflict(*reader, false);
    // What comes before `now` comes before all that must come after `now`.
    std::erase_if(segment.readers, [&](const OperationPtr& r) { return r->precedes(*now); });
    if (!writes) {
      segment.readers.push_back(now);
      continue;
    }
    segment.writer = now;
    if (!now->code) segment.written = uses_;
  }
  return {};
}

std::optional<std::string> StreamOrder::use(const OperationPtr& operation, const std::byte* first,
                                            size_t bytes, bool writes) {
  const Lock lock(mutex_);
  return use_segments(operation, first, bytes, writes);
}

void StreamOrder::access(const void* memory, size_t bytes, Access kind, const void* code) {
  const Lock lock(mutex_);
  if (!of_host_ || of_host_->code != code || of_host_->knows != host_)
    of_host_ = std::make_shared<Operation>(Operation{"", code, kHost, host_});
  auto race =
      use_segments(of_host_, static_cast<const std::byte*>(memory), bytes, kind != Access::kRead);
  if (race && !race_of_host_) race_of_host_ = std::move(race);
}

std::optional<std::string> StreamOrder::race_of_host() const {
  const Lock lock(mutex_);
  return race_of_host_;
}

std::optional<std::string> StreamOrder::take_race_of_host() {
  const Lock lock(mutex_);
  return std::exchange(race_of_host_, std::nullopt);
}

int64_t StreamOrder::uses() const {
  const Lock lock(mutex_);
  return uses_;
}

int64_t StreamOrder::last_write_by_device(const std::byte* first, size_t bytes) {
  const Lock lock(mutex_);
  int64_t last = 0;
  for (auto at = split(first), end = split(first + bytes); at != end; ++at)
    last = std::max(last, at->second.written);
  return last;
}

}  // namespace flow::test
