// Proves of one launch that its threads do not race, whatever the order in which they run.
//
// Two accesses to a byte conflict if at least one writes and they are not both atomic. They race if
// they conflict and nothing orders them. Order is
// - of one thread: its program;
// - of the threads of one block: what comes before a __syncthreads comes before what follows it;
// - of the lanes of one warp: likewise a __syncwarp, for the lanes of its mask. Shuffles and votes
//   exchange values and order no memory (CUDA Programming Guide, "Warp Shuffle Functions");
// - of different blocks: nothing.
// Two writes of the same value race, too. Each block has shared memory of its own.
//
// Threads run one after another, and cells remember what earlier ones did, so a race is found in
// any order of lanes, also where results are right. The proof holds for the paths that were taken.
// Of reads of a byte that nothing orders, two are kept, of two blocks or warps where there are.
// So of three lanes of one warp and a __syncwarp of some of them, a race may be missed.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "tests/support/races/hooks.h"
#include "tests/support/races/shadow.h"

namespace flow::test {

class LaunchCheck : public AccessListener {
 public:
  /// Borrows both. Memory that is in no allocation, such as stacks, is a thread's own.
  LaunchCheck(const cuda::KernelCall& call, ShadowMemory& memory);

  // What runs the threads says what it does.
  void begin_block(std::span<const std::byte> shared);
  /// `thread` runs, on a stack of its own.
  void enter(size_t thread) { thread_ = thread; }
  void use_stack(std::span<const std::byte> stack) { stack_ = stack; }
  void pass_barrier();
  /// The lanes `mask` of the warp that begins with thread `first` have met in a __syncwarp.
  void order_lanes(size_t first, unsigned mask);
  void access(const void* memory, size_t bytes, Access kind, const void* code) override;

  /// The first one that was found.
  const std::optional<std::string>& race() const { return race_; }
  /// Memory that is not a block's, by address.
  std::vector<UsedRange> used() const { return memory_.used(generation_); }

 private:
  static constexpr size_t kWarp = 32;
  using Clocks = std::array<uint16_t, kWarp>;  // how far a thread knows each lane of its warp

  void use(Cell& cell, const Mark& now, Access kind, const std::byte* at);
  bool precedes(const Mark& earlier, const Mark& now) const;
  void remember_user(Cell& cell, const Mark& now) const;
  void report(const Mark& earlier, const char* did, const Mark& now, Access kind,
              const std::byte* at);
  std::string name_of(const Mark& mark) const;

  const cuda::KernelCall& call_;
  ShadowMemory& memory_;
  const uint64_t generation_;
  uint64_t shared_generation_ = 0;
  std::optional<Shadow> shared_;
  std::span<const std::byte> stack_;
  std::vector<Clocks> clocks_;  // by thread
  bool clocks_moved_ = false;
  uint32_t block_ = 0, epoch_ = 0;
  size_t thread_ = 0;
  std::optional<std::string> race_;
};

}  // namespace flow::test
