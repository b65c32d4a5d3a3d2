// Marks accesses in cells and compares them with the marks that it finds there.
#include "tests/support/races/launch_check.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "tests/support/races/place.h"

namespace flow::test {
namespace {

/// Marks keep the distance from here.
const std::byte* code_origin() { return reinterpret_cast<const std::byte*>(&place_of); }

const char* verb_of(Access kind) {
  return kind == Access::kRead ? "reads" : kind == Access::kWrite ? "writes" : "changes";
}

}  // namespace

LaunchCheck::LaunchCheck(const cuda::KernelCall& call, ShadowMemory& memory)
    : call_(call),
      memory_(memory),
      generation_(memory.next_generation()),
      clocks_(size_t{call.block.x} * call.block.y * call.block.z) {
  const uint64_t blocks = uint64_t{call.grid.x} * call.grid.y * call.grid.z;
  FLOW_CHECK(blocks <= UINT32_MAX && clocks_.size() <= UINT16_MAX, "{}", call.name);
}

void LaunchCheck::begin_block(std::span<const std::byte> shared) {
  if (!shared_)
    shared_.emplace(shared.data(), shared.size());
  else
    ++block_;
  shared_generation_ = memory_.next_generation();
  epoch_ = 0;
  pass_barrier();
}

void LaunchCheck::pass_barrier() {
  ++epoch_;
  if (clocks_moved_) clocks_.assign(clocks_.size(), {});
  clocks_moved_ = false;
}

void LaunchCheck::order_lanes(size_t first, unsigned mask) {
  constexpr uint16_t kLast = (1 << 15) - 1;  // that a Mark can hold
  clocks_moved_ = true;
  Clocks joined{};
  const auto for_lanes = [&](auto f) {
    for (size_t lane = 0; lane < kWarp; ++lane)
      if ((mask >> lane & 1) != 0) f(lane, clocks_[first + lane]);
  };
  for_lanes([&](size_t lane, Clocks& clocks) {
    ++clocks[lane];
    FLOW_CHECK(clocks[lane] <= kLast, "kernel {}: too many __syncwarp", call_.name);
    for (size_t other = 0; other < kWarp; ++other)
      joined[other] = std::max(joined[other], clocks[other]);
  });
  for_lanes([&](size_t, Clocks& clocks) { clocks = joined; });
}

void LaunchCheck::access(const void* memory, size_t bytes, Access kind, const void* code) {
  const auto* const at = static_cast<const std::byte*>(memory);
  if (stack_.data() <= at && at < stack_.data() + stack_.size()) return;
  const bool is_shared = shared_->holds(at);
  Shadow* const shadow = is_shared ? &*shared_ : memory_.find(at);
  if (!shadow || race_) return;
  const auto distance = static_cast<const std::byte*>(code) - code_origin();
  const Mark now{block_,
                 epoch_,
                 static_cast<uint16_t>(thread_),
                 static_cast<uint16_t>(clocks_[thread_][thread_ % kWarp] & 0x7FFF),
                 kind == Access::kAtomic,
                 static_cast<int32_t>(distance)};
  shadow->visit(at, bytes, is_shared ? shared_generation_ : generation_,
                [&](Cell& cell) { use(cell, now, kind, at); });
}

void LaunchCheck::use(Cell& cell, const Mark& now, Access kind, const std::byte* at) {
  (kind == Access::kRead ? cell.was_read : cell.was_written) = true;
  if (kind == Access::kAtomic) cell.was_read = true;
  if (cell.written && !precedes(cell.writer, now)) report(cell.writer, "writes", now, kind, at);
  for (size_t i = 0; i < cell.user_count; ++i) {
    const Mark& user = cell.users[i];
    const bool conflicts = kind == Access::kWrite || user.atomic != now.atomic;
    if (conflicts && !precedes(user, now))
      report(user, verb_of(user.atomic ? Access::kAtomic : Access::kRead), now, kind, at);
  }
  if (kind != Access::kWrite) return remember_user(cell, now);
  cell.writer = now;
  cell.written = true;
  cell.user_count = 0;
}

bool LaunchCheck::precedes(const Mark& earlier, const Mark& now) const {
  if (earlier.block != now.block) return false;
  if (earlier.thread == now.thread || earlier.epoch < now.epoch) return true;
  return earlier.thread / kWarp == now.thread / kWarp &&
         earlier.clock < clocks_[now.thread][earlier.thread % kWarp];
}

/// What a later write is not ordered with must stay; what comes before `now` need not.
void LaunchCheck::remember_user(Cell& cell, const Mark& now) const {
  for (size_t i = 0; i < cell.user_count;) {
    if (precedes(cell.users[i], now))
      cell.users[i] = cell.users[--cell.user_count];
    else
      ++i;
  }
  if (cell.user_count < 2) {
    cell.users[cell.user_count++] = now;
    return;
  }
  // No later write is ordered with a user of an earlier block.
  const auto is_of_warp = [&](const Mark& user) {
    return user.block == now.block && user.thread / kWarp == now.thread / kWarp;
  };
  if (is_of_warp(cell.users[0]) || cell.users[0].block != now.block) return;
  if (cell.users[0].thread / kWarp == cell.users[1].thread / kWarp) cell.users[1] = now;
}

std::string LaunchCheck::name_of(const Mark& mark) const {
  const auto [x, y, z] = call_.grid;
  return fmt::format("thread {} of block [{}, {}, {}]", mark.thread, mark.block % x,
                     mark.block / x % y, mark.block / x / y);
}

void LaunchCheck::report(const Mark& earlier, const char* did, const Mark& now, Access kind,
                         const std::byte* at) {
  if (race_) return;
  const Listening unheard;
  const Shadow& in = shared_->holds(at) ? *shared_ : *memory_.find(at);
  const auto where = [](const Mark& mark) { return place_of(code_origin() + mark.code); };
  race_ = fmt::format(
      "a race in kernel {}: {} {} byte {} of {} ({} bytes at {}) at {}; {} {} it at {}, and "
      "nothing orders them",
      call_.name, name_of(now), verb_of(kind), at - in.first(),
      &in == &*shared_ ? "shared memory" : "an allocation", in.bytes(),
      static_cast<const void*>(in.first()), where(now), name_of(earlier), did, where(earlier));
}

}  // namespace flow::test
