// Groups as work in fake streams, which meet in mailboxes.
#include "tests/support/cuda/fake_nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "runtime/base/error.h"

namespace flow::test {

using cuda::NcclComm;
using cuda::NcclResult;

struct FakeNccl::World {
  struct Rank {
    FakeDriver* driver = nullptr;
    std::vector<std::string> calls;
    int64_t failing = 0;
    int64_t live = 0;  // communicators
  };
  /// What a rank has sent. It waits until `waiting` is 0.
  struct Letter {
    const std::byte* memory;
    size_t bytes;
    size_t* waiting;
  };

  World(int size, unsigned seed) : random(seed), ranks(static_cast<size_t>(size)) {}

  Rank& of(int rank) { return ranks[static_cast<size_t>(rank)]; }

  void misuse(const std::string& what) {
    misuses.push_back(what);
    failed = true;
    arrived.notify_all();
  }

  std::mutex mutex;
  std::condition_variable arrived;
  std::mt19937 random;
  std::vector<Rank> ranks;
  int joined = 0;
  bool failed = false;                                     // a rank aborted its communicator
  std::map<std::pair<int, int>, std::deque<Letter>> mail;  // by sender and receiver
  std::vector<std::string> misuses;
};

namespace {

using World = FakeNccl::World;

thread_local World* world = nullptr;  // of which this thread is a rank
thread_local int own_rank = 0;

struct Transfer {
  std::byte* memory;
  size_t bytes;
  int peer;
};
struct Group {
  bool open = false;
  void* stream = nullptr;
  std::vector<Transfer> sends, receives;
};
thread_local Group group;

/// Counts a call, and says whether it fails. How often a rank asks for errors is left to chance.
bool fails(const std::string& call) {
  const std::lock_guard lock(world->mutex);
  World::Rank& rank = world->of(own_rank);
  if (call != "error?") rank.calls.push_back(call);
  return rank.failing > 0 && --rank.failing == 0;
}

/// Sends what has been put, takes what has come, until all is done or a rank has given up.
void move(World& of, int rank, std::vector<Transfer> sends, std::vector<Transfer> receives) {
  std::unique_lock lock(of.mutex);
  const unsigned pauses = of.random() % 4;
  lock.unlock();
  for (unsigned i = 0; i < pauses; ++i) std::this_thread::yield();
  for (const Transfer& receive : receives) std::memset(receive.memory, 0xA5, receive.bytes);
  lock.lock();
  size_t waiting = sends.size();
  for (const Transfer& send : sends)
    of.mail[{rank, send.peer}].push_back({send.memory, send.bytes, &waiting});
  of.arrived.notify_all();
  std::shuffle(receives.begin(), receives.end(), of.random);
  const auto take = [&](const Transfer& receive) {
    auto& letters = of.mail[{receive.peer, rank}];
    if (letters.empty()) return false;
    const World::Letter letter = letters.front();
    letters.pop_front();
    if (letter.bytes != receive.bytes)
      of.misuse(fmt::format("rank {} sends {} bytes, rank {} expects {}", receive.peer,
                            letter.bytes, rank, receive.bytes));
    else
      std::memcpy(receive.memory, letter.memory, letter.bytes);
    --*letter.waiting;
    of.arrived.notify_all();
    return true;
  };
  of.arrived.wait(lock, [&] {
    if (!of.failed) std::erase_if(receives, take);
    return of.failed || (receives.empty() && waiting == 0);
  });
}

NcclResult put_group() {
  const Group put = std::exchange(group, {});
  if (put.sends.empty() && put.receives.empty()) return NcclResult::kSuccess;
  FakeDriver& driver = *world->of(own_rank).driver;
  for (const auto* transfers : {&put.sends, &put.receives})
    for (const Transfer& transfer : *transfers)
      if (!driver.is_on_device(transfer.memory, transfer.bytes)) {
        const std::lock_guard lock(world->mutex);
        world->misuse("a transfer of memory that is not on the device");
        return NcclResult::kInvalidArgument;
      }
  Work work{[of = world, rank = own_rank, put, &driver](const OperationPtr&) {
    for (const Transfer& receive : put.receives)
      FLOW_CHECK(driver.is_on_device(receive.memory, receive.bytes));
    move(*of, rank, put.sends, put.receives);
  }};
  for (const Transfer& send : put.sends) work.uses.push_back({send.memory, send.bytes, false});
  for (const Transfer& receive : put.receives)
    work.uses.push_back({receive.memory, receive.bytes, true});
  driver.put_work({put.stream}, fmt::format("group of {}", put.sends.size() + put.receives.size()),
                  std::move(work));
  return NcclResult::kInProgress;
}

NcclResult get_version(int* version) {
  *version = 22800;
  return NcclResult::kSuccess;
}

NcclResult get_unique_id(cuda::NcclId* id) {
  if (fails("id")) return NcclResult::kSystemError;
  std::memset(id->bytes, 42, sizeof id->bytes);
  return NcclResult::kSuccess;
}

NcclResult init(NcclComm** comm, int ranks, cuda::NcclId id, int rank, cuda::NcclConfig* config) {
  const bool failing = fails("init");
  const std::lock_guard lock(world->mutex);
  if (failing) {
    world->failed = true;
    return NcclResult::kSystemError;
  }
  FLOW_CHECK(config->size == 24 && config->magic == 0xcafebeef && config->blocking == 0);
  if (std::cmp_not_equal(ranks, world->ranks.size()) || rank != own_rank || id.bytes[127] != 42)
    return NcclResult::kInvalidArgument;
  ++world->joined;
  ++world->of(rank).live;
  *comm = reinterpret_cast<NcclComm*>(&world->of(rank));
  return NcclResult::kInProgress;
}

NcclResult get_async_error(NcclComm*, NcclResult* error) {
  if (fails("error?")) return NcclResult::kSystemError;
  const std::lock_guard lock(world->mutex);
  *error = world->failed                                       ? NcclResult::kRemoteError
           : std::cmp_less(world->joined, world->ranks.size()) ? NcclResult::kInProgress
                                                               : NcclResult::kSuccess;
  return NcclResult::kSuccess;
}

NcclResult abort_comm(NcclComm* comm) {
  fails("abort");
  const std::lock_guard lock(world->mutex);
  if (comm != reinterpret_cast<NcclComm*>(&world->of(own_rank)))
    world->misuse("no such communicator to abort");
  --world->of(own_rank).live;
  world->failed = true;
  world->arrived.notify_all();
  return NcclResult::kSuccess;
}

NcclResult group_start() {
  if (fails("start")) return NcclResult::kSystemError;
  FLOW_CHECK(!group.open);
  group.open = true;
  return NcclResult::kSuccess;
}

NcclResult group_end() {
  const size_t size = group.sends.size() + group.receives.size();
  FLOW_CHECK(group.open);
  if (!fails(fmt::format("group of {}", size))) return put_group();
  group = {};
  return NcclResult::kSystemError;
}

NcclResult add_to_group(std::vector<Transfer>& transfers, const void* memory, size_t count,
                        int type, int peer, void* stream) {
  FLOW_CHECK(group.open && type == cuda::kNcclBytes && count > 0);
  transfers.push_back({static_cast<std::byte*>(const_cast<void*>(memory)), count, peer});
  group.stream = stream;
  return NcclResult::kSuccess;
}

NcclResult send(const void* memory, size_t count, int type, int peer, NcclComm*, void* stream) {
  if (fails("send")) return NcclResult::kSystemError;
  return add_to_group(group.sends, memory, count, type, peer, stream);
}

NcclResult receive(void* memory, size_t count, int type, int peer, NcclComm*, void* stream) {
  if (fails("receive")) return NcclResult::kSystemError;
  return add_to_group(group.receives, memory, count, type, peer, stream);
}

const char* get_error_string(NcclResult result) {
  return result == NcclResult::kRemoteError ? "remote process exited" : "unhandled system error";
}

}  // namespace

FakeNccl::FakeNccl(int ranks, unsigned seed) : world_(std::make_unique<World>(ranks, seed)) {}
FakeNccl::~FakeNccl() = default;

const cuda::NcclCalls& FakeNccl::calls() {
  static constexpr cuda::NcclCalls kCalls{get_version, get_unique_id,   init,      get_async_error,
                                          abort_comm,  group_start,     group_end, send,
                                          receive,     get_error_string};
  return kCalls;
}

FakeNccl::Thread::Thread(FakeNccl& nccl, int rank) {
  world = nccl.world_.get();
  own_rank = rank;
  group = {};
}

FakeNccl::Thread::~Thread() { world = nullptr; }

void FakeNccl::Thread::use(FakeDriver& driver) { world->of(own_rank).driver = &driver; }

void FakeNccl::fail_at(int rank, int64_t n) { world_->of(rank).failing = n; }
bool FakeNccl::has_failed(int rank) const { return world_->of(rank).failing == 0; }

const std::vector<std::string>& FakeNccl::calls_of(int rank) const {
  return world_->of(rank).calls;
}

std::vector<std::string> FakeNccl::problems() const {
  std::vector<std::string> all = world_->misuses;
  for (const World::Rank& rank : world_->ranks)
    if (rank.live != 0) all.push_back(fmt::format("{} communicators left", rank.live));
  return all;
}

}  // namespace flow::test
