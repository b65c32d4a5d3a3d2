// Ranks that are threads of one process.
#include "tests/support/thread_ranks.h"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/base/digest.h"

namespace flow {
namespace {

constexpr std::byte kGarbage{0xA5};

enum class Kind : size_t { kExchange, kGather, kGatherAt, kBroadcast };
constexpr size_t kKinds = 4;

std::span<std::byte> block_of(const exec::RankBlocks& blocks, int rank) {
  const auto r = static_cast<size_t>(rank);
  return {blocks.memory + blocks.offsets[r], blocks.bytes[r]};
}

}  // namespace

struct ThreadRanks::World {
  /// What an operation sends to and receives from each rank, on one of them.
  struct Transfer {
    explicit Transfer(int size)
        : sends(static_cast<size_t>(size)), receives(static_cast<size_t>(size)) {}

    uint64_t digest_of_sends() const {
      uint64_t sum = kFnvOfNothing;
      for (const auto block : sends)
        sum = fnv1a64({reinterpret_cast<const char*>(block.data()), block.size()}, sum);
      return sum;
    }

    std::vector<std::span<std::byte>> sends, receives;
    uint64_t digest = 0;
    unsigned tests_left = 0;
    bool started = false, complete = false;
  };

  struct StartedOperation {
    StartedOperation(std::string what, int size)
        : name(std::move(what)), transfers(static_cast<size_t>(size), Transfer(size)) {}

    void move() {
      moved = true;
      for (size_t from = 0; from < transfers.size(); ++from)
        for (size_t to = 0; to < transfers.size(); ++to) {
          const auto sent = transfers[from].sends[to], received = transfers[to].receives[from];
          FLOW_CHECK(sent.size() == received.size(),
                     "{}: rank {} sends {} bytes, rank {} expects {}", name, from, sent.size(), to,
                     received.size());
          std::ranges::copy(sent, received.begin());
        }
    }

    std::string name;
    std::vector<Transfer> transfers;
    size_t started = 0, completed = 0;
    bool moved = false;
  };

  World(int size, unsigned seed)
      : random(seed), next(static_cast<size_t>(size)), mail(static_cast<size_t>(size)) {}

  /// Calls `change` alone. After a failure in it, all further calls of any rank fail.
  template <typename Change>
  auto alone(const Change& change) {
    const std::lock_guard lock(mutex);
    FLOW_CHECK(!failed, "another rank failed");
    try {
      return change();
    } catch (...) {
      failed = true;
      throw;
    }
  }

  unsigned draw(unsigned below) { return static_cast<unsigned>(random() % below); }

  /// Moves the bytes of one operation that all ranks have started, or of none.
  void move_one() {
    std::vector<StartedOperation*> ready;
    for (auto& [number, operation] : operations)
      if (!operation.moved && operation.started == next.size()) ready.push_back(&operation);
    if (!ready.empty() && draw(2) == 0) ready[draw(static_cast<unsigned>(ready.size()))]->move();
  }

  std::mutex mutex;
  std::mt19937 random;
  bool failed = false;
  std::vector<std::array<size_t, kKinds>> next;  // of a rank and kind: the next operation's number
  std::map<size_t, StartedOperation> operations;
  std::vector<std::map<int, std::deque<std::vector<std::byte>>>> mail;  // [to][from]
};

class ThreadRanks::Rank final : public exec::Collectives {
  using Transfer = World::Transfer;
  using StartedOperation = World::StartedOperation;

 public:
  Rank(World& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_.next.size()); }
  std::string library() const override { return "threads"; }

  Operation exchange(const exec::RankBlocks& send, const exec::RankBlocks& receive) override {
    Transfer transfer(size());
    for (int other = 0; other < size(); ++other) {
      transfer.sends[index(other)] = block_of(send, other);
      transfer.receives[index(other)] = block_of(receive, other);
    }
    return start(Kind::kExchange, "exchange", std::move(transfer));
  }

  Operation gather(const exec::RankBlocks& blocks) override {
    Transfer transfer(size());
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      transfer.sends[index(other)] = block_of(blocks, rank_);
      transfer.receives[index(other)] = block_of(blocks, other);
    }
    return start(Kind::kGather, "gather", std::move(transfer));
  }

  Operation gather_at(int root, const exec::RankBlocks& blocks) override {
    Transfer transfer(size());
    if (rank_ != root) transfer.sends[index(root)] = block_of(blocks, rank_);
    for (int other = 0; other < size() && rank_ == root; ++other)
      if (other != root) transfer.receives[index(other)] = block_of(blocks, other);
    return start(Kind::kGatherAt, fmt::format("gather_at {}", root), std::move(transfer));
  }

  Operation broadcast(int root, std::span<std::byte> bytes) override {
    Transfer transfer(size());
    if (rank_ != root) transfer.receives[index(root)] = bytes;
    for (int other = 0; other < size() && rank_ == root; ++other)
      if (other != root) transfer.sends[index(other)] = bytes;
    return start(Kind::kBroadcast, fmt::format("broadcast {}", root), std::move(transfer));
  }

  bool test(Operation number) override {
    return world_.alone([&] {
      const auto found = world_.operations.find(number);
      FLOW_CHECK(found != world_.operations.end(), "operation {} is complete", number);
      StartedOperation& operation = found->second;
      Transfer& mine = operation.transfers[index(rank_)];
      FLOW_CHECK(mine.started && !mine.complete, "operation {} is complete", number);
      world_.move_one();
      if (!operation.moved || mine.tests_left-- != 0) return false;
      FLOW_CHECK(mine.digest_of_sends() == mine.digest, "{}: rank {} changed what it sends",
                 operation.name, rank_);
      mine.complete = true;
      if (++operation.completed == world_.next.size()) world_.operations.erase(found);
      return true;
    });
  }

  void post(int to, std::span<const std::byte> message) override {
    world_.alone([&] {
      FLOW_CHECK(message.size() <= kMostMessage);
      world_.mail[index(to)][rank_].emplace_back(message.begin(), message.end());
    });
  }

  std::optional<exec::RankMessage> poll() override {
    return world_.alone([&]() -> std::optional<exec::RankMessage> {
      auto& senders = world_.mail[index(rank_)];
      if (senders.empty() || world_.draw(2) == 0) return std::nullopt;
      const auto one = std::next(
          senders.begin(), static_cast<int>(world_.draw(static_cast<unsigned>(senders.size()))));
      exec::RankMessage message{one->first, std::move(one->second.front())};
      one->second.pop_front();
      if (one->second.empty()) senders.erase(one);
      return message;
    });
  }

  void finish() override {
    world_.alone([&] {
      for (const auto& [number, operation] : world_.operations)
        FLOW_CHECK(operation.transfers[index(rank_)].complete, "{} is not complete",
                   operation.name);
    });
  }

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }

  /// Numbers count those of one kind.
  Operation start(Kind kind, const std::string& name, Transfer transfer) {
    return world_.alone([&] {
      const auto of_kind = static_cast<size_t>(kind);
      const size_t number = world_.next[index(rank_)][of_kind]++ * kKinds + of_kind;
      auto& operation = world_.operations.try_emplace(number, name, size()).first->second;
      FLOW_CHECK(operation.name == name, "rank {} starts {}; another rank started {}", rank_, name,
                 operation.name);
      transfer.digest = transfer.digest_of_sends();
      transfer.tests_left = world_.draw(4);
      transfer.started = true;
      for (const auto block : transfer.receives) std::ranges::fill(block, kGarbage);
      operation.transfers[index(rank_)] = std::move(transfer);
      ++operation.started;
      return number;
    });
  }

  World& world_;
  int rank_;
};

ThreadRanks::ThreadRanks(int size, unsigned seed) : world_(std::make_unique<World>(size, seed)) {
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*world_, rank));
}

ThreadRanks::~ThreadRanks() = default;

exec::Collectives& ThreadRanks::rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

void ThreadRanks::run(const std::function<void(exec::Collectives&)>& program) {
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (const auto& rank : ranks_)
    threads.emplace_back([&] {
      try {
        program(*rank);
      } catch (...) {
        const std::lock_guard lock(world_->mutex);
        world_->failed = true;
        if (!first) first = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace flow
