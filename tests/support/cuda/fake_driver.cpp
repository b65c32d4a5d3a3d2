// Streams as queues of work, graphs as lists of it.
#include "tests/support/cuda/fake_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/base/error.h"
#include "tests/support/cuda/fake_blocks.h"
#include "tests/support/cuda/kept_call.h"

namespace flow::test {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

FakeDriver::FakeDriver(const FakeDevice& device) : device_(device) {
  properties_ = {"Fake Device", "GPU-0", 0, 9, 0, 4, "13.0", "13.0", device.memory, 232448};
}

FakeDriver::~FakeDriver() {
  for (const auto& [memory, bytes] : pinned_) forget_host_memory(memory);
  for (const Blocks* blocks : {&memory_, &pinned_})
    for (const auto& [memory, bytes] : *blocks) std::free(const_cast<std::byte*>(memory));
}

void FakeDriver::misuse(const std::string& what) {
  misuses_.push_back(what);
  throw Defect("misuse of the driver: " + what);
}

/// Only the first one throws: destructors wait for streams, too.
void FakeDriver::report_race(const std::string& race) {
  misuses_.push_back(race);
  if (!std::exchange(raced_, true)) throw Defect("misuse of the driver: " + race);
}

/// Every call that may fail starts with this.
void FakeDriver::begin_call(const std::string& line) {
  calls_.push_back(line);
  if (const auto race = order_.take_race_of_host()) report_race(*race);
  if (failing_ > 0 && --failing_ == 0) throw RunError("the fake device fails at " + line);
}

void FakeDriver::require_no_capture(const std::string& what) {
  if (!captures_.empty()) misuse(what + " while a stream is captured");
}

FakeDriver::StreamState& FakeDriver::state_of(cuda::Stream stream) {
  const auto found = streams_.find(id_of(stream.handle));
  if (found == streams_.end()) misuse("no such stream");
  return found->second;
}

FakeDriver::EventState& FakeDriver::state_of(cuda::Event event) {
  const auto found = events_.find(id_of(event.handle));
  if (found == events_.end()) misuse("no such event");
  return found->second;
}

int64_t FakeDriver::count(std::string_view text) const {
  return std::ranges::count_if(calls_, [=](const auto& line) { return line.starts_with(text); });
}

std::vector<std::string> FakeDriver::problems() const {
  std::vector<std::string> all = misuses_;
  if (const auto race = order_.race_of_host()) all.push_back(*race);
  const auto add = [&](size_t n, const char* what) {
    if (n > 0) all.push_back(fmt::format("{} {} left", n, what));
  };
  add(memory_.size(), "device allocations");
  add(pinned_.size(), "pinned allocations");
  add(streams_.size(), "streams");
  add(events_.size(), "events");
  add(graphs_.size(), "graphs");
  add(captures_.size(), "captures");
  return all;
}

bool FakeDriver::is_on_device(const void* memory, size_t bytes) const {
  return holds(memory_, memory, bytes);
}

size_t FakeDriver::free_memory() {
  begin_call("free memory");
  return device_.memory - allocated_;
}

std::byte* FakeDriver::take(Blocks& blocks, size_t bytes) {
  if (bytes == 0) misuse("0 bytes allocated");
  // The end of the block is the end of what was asked for, so that AddressSanitizer sees overruns.
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes) != 0)
    throw RunError("the host has no more memory");
  std::memset(memory, 0xA5, bytes);
  blocks.emplace(static_cast<std::byte*>(memory), bytes);
  shadow_.add(static_cast<std::byte*>(memory), bytes);
  order_.add_memory(static_cast<std::byte*>(memory), bytes);
  return static_cast<std::byte*>(memory);
}

void FakeDriver::give_back(Blocks& blocks, std::byte* memory, const char* what) noexcept {
  calls_.push_back(what);
  const auto found = blocks.find(memory);
  if (found == blocks.end()) {
    misuses_.push_back(fmt::format("{} of what is not allocated", what));
    return;
  }
  shadow_.remove(memory);
  order_.remove_memory(memory, found->second);
  blocks.erase(found);
  std::free(memory);
}

std::byte* FakeDriver::allocate(size_t bytes) {
  begin_call(fmt::format("allocate {}", bytes));
  require_no_capture("allocation");
  if (bytes > device_.memory - allocated_)
    throw RunError(fmt::format("the fake device has no {} bytes", bytes));
  allocated_ += bytes;
  return take(memory_, bytes);
}

void FakeDriver::release(std::byte* memory) noexcept {
  finish();
  order_.wait_for_all();
  if (const auto found = memory_.find(memory); found != memory_.end()) allocated_ -= found->second;
  give_back(memory_, memory, "release");
}

std::byte* FakeDriver::allocate_pinned(size_t bytes) {
  begin_call(fmt::format("allocate pinned {}", bytes));
  require_no_capture("allocation");
  std::byte* const memory = take(pinned_, bytes);
  if (device_.watched) watch_host_memory(memory, bytes, order_);
  return memory;
}

void FakeDriver::release_pinned(std::byte* memory) noexcept {
  finish();
  order_.wait_for_all();
  forget_host_memory(memory);
  give_back(pinned_, memory, "release pinned");
}

cuda::Stream FakeDriver::create_stream() {
  begin_call("create stream");
  streams_.emplace(++last_id_, StreamState{});
  return {handle_of(last_id_)};
}

void FakeDriver::destroy(cuda::Stream stream) noexcept {
  calls_.push_back("destroy stream");
  finish();
  if (streams_.erase(id_of(stream.handle)) == 0) misuses_.push_back("no such stream to destroy");
}

cuda::Event FakeDriver::create_event() {
  begin_call("create event");
  events_.emplace(++last_id_, EventState{});
  return {handle_of(last_id_)};
}

cuda::Event FakeDriver::create_timed_event() {
  begin_call("create timed event");
  events_.emplace(++last_id_, EventState{.timed = true});
  return {handle_of(last_id_)};
}

void FakeDriver::destroy(cuda::Event event) noexcept {
  calls_.push_back("destroy event");
  if (events_.erase(id_of(event.handle)) == 0) misuses_.push_back("no such event to destroy");
}

void FakeDriver::destroy(cuda::Graph graph) noexcept {
  calls_.push_back("destroy graph");
  if (graphs_.erase(id_of(graph.handle)) == 0) misuses_.push_back("no such graph to destroy");
}

FakeDriver::Where FakeDriver::where(const void* memory, size_t bytes) {
  for (const auto& [blocks, kind] :
       {std::pair{&memory_, Where::kDevice}, {&pinned_, Where::kPinned}})
    if (holds(*blocks, memory, 0)) {
      if (!holds(*blocks, memory, bytes))
        misuse(fmt::format("{} bytes run out of their block", bytes));
      return kind;
    }
  return Where::kPageable;
}

void FakeDriver::copy(void* to, const void* from, size_t bytes, cuda::Stream stream) {
  const Where target = where(to, bytes), source = where(from, bytes);
  if (target != Where::kDevice && source != Where::kDevice)
    misuse("a copy with no end on the device");
  const bool pageable = target == Where::kPageable || source == Where::kPageable;
  if (pageable && state_of(stream).captures_for != 0) misuse("pageable memory in a capture");
  const std::string line = fmt::format("copy {} {}", bytes,
                                       source != Where::kDevice   ? "to device"
                                       : target != Where::kDevice ? "to host"
                                                                  : "on device");
  if (source == Where::kPageable) {  // which the driver takes before it returns
    const auto* first = static_cast<const std::byte*>(from);
    put(stream, line,
        {[to, staged = std::vector<std::byte>(first, first + bytes)](const OperationPtr&) {
           std::memcpy(to, staged.data(), staged.size());
         },
         {{to, bytes, true}}});
    return;
  }
  put(stream, line,
      {[=](const OperationPtr&) { std::memmove(to, from, bytes); },
       {{from, bytes, false}, {to, bytes, true}}});
  if (target == Where::kPageable) wait_for(stream);
}

/// Each row is a piece of the one copy.
void FakeDriver::copy_rows(void* to, const void* from, const cuda::RowCopy& copy,
                           cuda::Stream stream) {
  const size_t reach = (copy.rows - 1) * copy.distance + copy.bytes;
  if (where(to, reach) != Where::kPinned || where(from, copy.rows * copy.bytes) != Where::kDevice)
    misuse("rows that are not copied from the device to pinned memory");
  if (copy.bytes > copy.distance) misuse("rows that overlap");
  Work work;
  for (size_t i = 0; i < copy.rows; ++i) {
    work.uses.push_back({static_cast<std::byte*>(to) + i * copy.distance, copy.bytes, true});
    work.uses.push_back({static_cast<const std::byte*>(from) + i * copy.bytes, copy.bytes, false});
  }
  work.run = [=](const OperationPtr&) {
    for (size_t i = 0; i < copy.rows; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * copy.distance,
                  static_cast<const std::byte*>(from) + i * copy.bytes, copy.bytes);
  };
  put(stream, fmt::format("copy {} rows of {} to host", copy.rows, copy.bytes), std::move(work));
}

void FakeDriver::clear(void* memory, size_t bytes, cuda::Stream stream) {
  if (where(memory, bytes) != Where::kDevice) misuse("clearing what is not on the device");
  put(stream, fmt::format("clear {}", bytes),
      {[=](const OperationPtr&) { std::memset(memory, 0, bytes); }, {{memory, bytes, true}}});
}

void FakeDriver::launch(const cuda::KernelCall& call, cuda::Stream stream) {
  if (call.grid.y > 65535 || call.grid.z > 65535 || call.grid.x == 0 || call.grid.y == 0 ||
      call.grid.z == 0 || call.grid.x > 0x7FFFFFFF)
    misuse(fmt::format("kernel {}: a grid of [{}, {}, {}]", call.name, call.grid.x, call.grid.y,
                       call.grid.z));
  const size_t threads = size_t{call.block.x} * call.block.y * call.block.z;
  size_t parameters = 0;
  for (const size_t size : call.sizes) parameters += size;
  if (threads == 0 || threads > 1024 || call.shared_bytes > 48 * 1024 || parameters > 4096)
    misuse(fmt::format("kernel {}: {} threads, {} bytes shared, {} of parameters", call.name,
                       threads, call.shared_bytes, parameters));
  if (loaded_.insert(call.function).second && device_.loads_first && !captures_.empty())
    misuse(fmt::format("kernel {} is loaded while a stream is captured", call.name));
  put(stream, fmt::format("launch {}", call.name),
      {[this, kept = std::make_shared<KeptCall>(call)](const OperationPtr& operation) {
        run_threads(*kept, operation);
      }});
}

void FakeDriver::load(const cuda::KernelCall& call) {
  begin_call(fmt::format("load {}", call.name));
  require_no_capture("loading a kernel");
  loaded_.insert(call.function);
}

void FakeDriver::record(cuda::Event event, cuda::Stream stream) {
  EventState& point = state_of(event);
  const StreamState& state = state_of(stream);
  begin_call(fmt::format("{}record stream {}", state.captures_for ? "captured " : "",
                         id_of(stream.handle)));
  point = {id_of(stream.handle), state.put,  state.captures_for,
           point.timed,          state.last, order_.recorded(id_of(stream.handle))};
}

void FakeDriver::wait(cuda::Stream stream, cuda::Event event) {
  const EventState point = state_of(event);
  StreamState& state = state_of(stream);
  if (point.captured_for != 0 && captures_.contains(point.captured_for)) {
    begin_call(fmt::format("captured wait stream {}", id_of(stream.handle)));
    if (state.captures_for != 0 && state.captures_for != point.captured_for)
      misuse("one capture waits for another");
    if (state.captures_for == 0) state.joined = false;
    state.captures_for = point.captured_for;
    state.last.insert(state.last.end(), point.last.begin(), point.last.end());
    if (id_of(stream.handle) == point.captured_for) streams_.at(point.stream).joined = true;
    return;
  }
  if (state.captures_for != 0 && point.stream != 0)
    misuse("a capture that waits for an event from outside it");
  put(stream, "wait",
      {[this, point](const OperationPtr&) { run_until(point.stream, point.position); }});
  order_.wait(id_of(stream.handle), point.knows);
}

void FakeDriver::synchronize(cuda::Event event) {
  const EventState point = state_of(event);
  begin_call("synchronize event");
  if (point.captured_for != 0) misuse("waiting for an event of a capture");
  run_others(point.stream);
  run_until(point.stream, point.position);
  order_.wait_by_host(point.knows);
}

void FakeDriver::synchronize(cuda::Stream stream) {
  const StreamState& state = state_of(stream);
  begin_call(fmt::format("synchronize stream {}", id_of(stream.handle)));
  if (state.captures_for != 0) misuse("waiting for a stream that is captured");
  run_others(id_of(stream.handle));
  wait_for(stream);
}

/// All that was put into the stream.
void FakeDriver::wait_for(cuda::Stream stream) {
  const int id = id_of(stream.handle);
  run_until(id, state_of(stream).put);
  order_.wait_by_host(order_.recorded(id));
}

bool FakeDriver::is_reached(cuda::Event event) {
  synchronize(event);
  return true;
}

double FakeDriver::milliseconds_between(cuda::Event first, cuda::Event second) {
  const EventState &from = state_of(first), &to = state_of(second);
  if (!from.timed || !to.timed) misuse("the time of an event that keeps none");
  for (const EventState& point : {from, to})
    if (point.stream == 0 || streams_.at(point.stream).done < point.position)
      misuse("the time of an event that is not reached");
  return static_cast<double>(to.position - from.position);
}

void FakeDriver::begin_capture(cuda::Stream stream) {
  StreamState& state = state_of(stream);
  begin_call(fmt::format("capture stream {}", id_of(stream.handle)));
  if (state.captures_for != 0) misuse("a capture within a capture");
  state.captures_for = id_of(stream.handle);
  captures_.emplace(id_of(stream.handle), FakeGraph());
}

cuda::Graph FakeDriver::end_capture(cuda::Stream stream) {
  const int id = id_of(stream.handle);
  if (!captures_.contains(id)) misuse("the end of a capture that was not begun");
  FakeGraph graph = std::move(captures_.at(id));
  captures_.erase(id);
  bool joined = true;
  for (auto& [other, state] : streams_)
    if (state.captures_for == id) {
      joined = joined && (other == id || state.joined);
      state.captures_for = 0;
      state.joined = true;
      state.last.clear();
    }
  begin_call(fmt::format("end capture stream {}", id));
  // No misuse, since it is how a capture that failed halfway is ended.
  if (!joined) throw RunError("a capture ends before its other streams join");
  graph.set_order(device_.graphs);
  graphs_.emplace(++last_id_, std::make_shared<const FakeGraph>(std::move(graph)));
  return {handle_of(last_id_)};
}

void FakeDriver::launch(cuda::Graph graph, cuda::Stream stream) {
  const int id = id_of(graph.handle);
  if (!graphs_.contains(id)) misuse("no such graph to launch");
  if (state_of(stream).captures_for != 0) misuse("a graph launched into a capture");
  // A graph may be destroyed once it is launched: the work is the launch's own.
  const std::shared_ptr<const FakeGraph> launched = graphs_.at(id);
  const std::vector<OperationPtr> operations =
      order_.put_graph(id_of(stream.handle), launched->operations);
  std::vector<PutWork> works;
  for (const size_t i : launched->order)
    works.push_back(promised(launched->works[i], operations[i]));
  put(stream, "launch graph", {[this, works = std::move(works)](const OperationPtr&) {
        for (const PutWork& one : works) run(one);
      }});
}

}  // namespace flow::test
