// How the fake driver does the work of its streams, and what it proves of it.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "tests/support/cuda/fake_blocks.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/kept_call.h"
#include "tests/support/races/launch_check.h"

namespace flow::test {

/// What a real driver does before it frees: all work that was put into streams.
void FakeDriver::finish() noexcept {
  try {
    for (auto& [id, stream] : streams_) run_until(id, stream.put);
  } catch (const std::exception& error) {
    misuses_.push_back(fmt::format("work that nobody waited for failed: {}", error.what()));
  }
}

/// The first `position` pieces of work of the stream.
void FakeDriver::run_until(int stream, int64_t position) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  StreamState& state = found->second;
  while (state.done < position) {
    const PutWork put = std::move(state.queue.front());
    state.queue.pop_front();
    ++state.done;
    run(put);
  }
}

void FakeDriver::run_others(int stream) {
  if (device_.timing != Timing::kBeside) return;
  for (auto& [other, state] : streams_)
    if (other != stream) run_until(other, state.put);
}

/// Which pinned memory the work reads, and what it holds.
PutWork FakeDriver::promised(Work work, OperationPtr operation) const {
  const Listening unheard;  // the host does not read it
  PutWork put{std::move(work), std::move(operation)};
  if (!device_.watched) return put;
  for (const auto& [memory, bytes, writes] : put.work.uses) {
    const auto* first = static_cast<const std::byte*>(memory);
    if (!writes && holds(pinned_, memory, bytes))
      put.promises.push_back({first, {first, first + bytes}, order_.uses()});
  }
  return put;
}

void FakeDriver::run(const PutWork& put) {
  const Listening unheard;  // what the device does is not the host's
  for (const MemoryUse& memory : put.work.uses) use(put.operation, memory);
  for (const auto& [memory, held, uses] : put.promises)
    if (std::memcmp(memory, held.data(), held.size()) != 0 &&
        order_.last_write_by_device(memory, held.size()) <= uses)
      report_race(
          fmt::format("a race: the host writes into {} bytes of pinned memory that `{}` is "
                      "still to read",
                      held.size(), put.operation->name));
  put.work.run(put.operation);
}

void FakeDriver::use(const OperationPtr& operation, const MemoryUse& use) {
  if (!kKernelsAreWatched || !device_.watched || where(use.memory, use.bytes) == Where::kPageable)
    return;
  if (const auto race =
          order_.use(operation, static_cast<const std::byte*>(use.memory), use.bytes, use.writes))
    report_race(*race);
}

/// Puts work into a stream, or into the capture that the stream is part of.
void FakeDriver::put(cuda::Stream stream, const std::string& line, Work work) {
  StreamState& state = state_of(stream);
  const int id = id_of(stream.handle);
  begin_call(fmt::format("{}{} stream {}", state.captures_for ? "captured " : "", line, id));
  if (state.captures_for != 0) {
    FakeGraph& graph = captures_.at(state.captures_for);
    graph.operations.push_back(
        {fmt::format("captured {} stream {}", line, id), id, std::move(state.last)});
    graph.works.push_back(std::move(work));
    state.last = {graph.works.size() - 1};
    state.joined = state.captures_for == id;
    return;
  }
  state.queue.push_back(
      promised(std::move(work), order_.put(id, fmt::format("{} stream {}", line, id))));
  ++state.put;
  if (device_.timing == Timing::kEager) run_until(id, state.put);
}

void FakeDriver::run_threads(KeptCall& kept, const OperationPtr& operation) {
  kept.run([&](const cuda::KernelCall& call) {
    if (!kKernelsAreWatched || !device_.watched) return run_on_cpu(call, device_.lanes);
    LaunchCheck check(call, shadow_);
    run_on_cpu(call, device_.lanes, &check);
    if (check.race()) report_race(*check.race());
    for (const UsedRange& used : check.used())
      use(operation, {used.first, static_cast<size_t>(used.end - used.first), used.written});
  });
}

}  // namespace flow::test
