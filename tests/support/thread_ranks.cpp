// Ranks that are threads of one process, with shuffled completion and checked memory.
#include "tests/support/thread_ranks.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/exec/ranks/ranks.h"

namespace flow {
namespace {

constexpr std::byte kGarbage{0xA5};

std::span<std::byte> block_of(const exec::RankBlocks& blocks, int rank) {
  const auto r = static_cast<size_t>(rank);
  return {blocks.memory + blocks.offsets[r], blocks.bytes[r]};
}

using Blocks = std::vector<std::span<std::byte>>;

uint64_t digest_of(const Blocks& blocks) {
  uint64_t sum = kFnvOfNothing;
  for (const auto block : blocks)
    sum = fnv1a64({reinterpret_cast<const char*>(block.data()), block.size()}, sum);
  return sum;
}

}  // namespace

struct ThreadRanks::World {
  World(int size, unsigned seed) : local(size), random(seed), mail(static_cast<size_t>(size)) {}

  unsigned draw(unsigned below) {
    const std::lock_guard lock(mutex);
    return static_cast<unsigned>(random() % below);
  }

  exec::LocalRanks local;
  std::mutex mutex;
  std::mt19937 random;
  std::vector<std::map<int, std::deque<exec::RankMessage>>> mail;  // [to][from], that arrived
};

class ThreadRanks::Rank final : public exec::Collectives {
  struct Watched {
    Blocks sends;
    uint64_t digest = 0;      // of what is sent
    unsigned tests_left = 0;  // that say no
  };

 public:
  Rank(World& world, int rank) : world_(world), inner_(world.local.rank(rank)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string library() const override { return inner_.library(); }

  Operation exchange(const exec::RankBlocks& send, const exec::RankBlocks& receive) override {
    Blocks sends, receives;
    for (int other = 0; other < size(); ++other) {
      sends.push_back(block_of(send, other));
      receives.push_back(block_of(receive, other));
    }
    return start(sends, receives, [&] { return inner_.exchange(send, receive); });
  }

  Operation gather(const exec::RankBlocks& blocks) override {
    return start({block_of(blocks, rank())}, blocks_of_others(blocks),
                 [&] { return inner_.gather(blocks); });
  }

  Operation gather_at(int root, const exec::RankBlocks& blocks) override {
    return start({block_of(blocks, rank())}, rank() == root ? blocks_of_others(blocks) : Blocks(),
                 [&] { return inner_.gather_at(root, blocks); });
  }

  Operation broadcast(int root, std::span<std::byte> bytes) override {
    const bool sends = rank() == root;
    return start(sends ? Blocks{bytes} : Blocks(), sends ? Blocks() : Blocks{bytes},
                 [&] { return inner_.broadcast(root, bytes); });
  }

  bool test(Operation operation) override {
    const std::lock_guard lock(mutex_);
    const auto watched = watched_.find(operation);
    FLOW_CHECK(watched != watched_.end(), "operation {} is complete", operation);
    inner_.require_alive();
    if (watched->second.tests_left > 0) {
      --watched->second.tests_left;
      return false;
    }
    if (!inner_.test(operation)) return false;
    FLOW_CHECK(digest_of(watched->second.sends) == watched->second.digest,
               "rank {} changed what it sends", rank());
    watched_.erase(watched);
    return true;
  }

  void post(int to, std::span<const std::byte> message) override { inner_.post(to, message); }

  /// Messages of different ranks overtake each other.
  std::optional<exec::RankMessage> poll() override {
    auto& senders = world_.mail[static_cast<size_t>(rank())];
    while (auto message = inner_.poll()) senders[message->from].push_back(std::move(*message));
    if (senders.empty() || world_.draw(2) == 0) return {};
    const auto one = std::next(
        senders.begin(), static_cast<int>(world_.draw(static_cast<unsigned>(senders.size()))));
    exec::RankMessage message = std::move(one->second.front());
    one->second.pop_front();
    if (one->second.empty()) senders.erase(one);
    return message;
  }

  void fail(const std::exception_ptr& error) override { inner_.fail(error); }
  void require_alive() override { inner_.require_alive(); }

  void finish() override {
    const std::lock_guard lock(mutex_);
    FLOW_CHECK(watched_.empty(), "{} operations are not complete", watched_.size());
  }

 private:
  Blocks blocks_of_others(const exec::RankBlocks& blocks) const {
    Blocks others;
    for (int other = 0; other < size(); ++other)
      if (other != rank()) others.push_back(block_of(blocks, other));
    return others;
  }

  template <typename Start>
  Operation start(const Blocks& sends, const Blocks& receives, const Start& start_inner) {
    for (const auto block : receives) std::ranges::fill(block, kGarbage);
    const Watched watched{sends, digest_of(sends), world_.draw(4)};
    const std::lock_guard lock(mutex_);
    const Operation operation = start_inner();
    watched_[operation] = watched;
    return operation;
  }

  World& world_;
  exec::Collectives& inner_;
  std::mutex mutex_;  // a rank may have several threads
  std::map<Operation, Watched> watched_;
};

ThreadRanks::ThreadRanks(int size, unsigned seed) : world_(std::make_unique<World>(size, seed)) {
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*world_, rank));
}

ThreadRanks::~ThreadRanks() = default;

exec::Collectives& ThreadRanks::rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

void ThreadRanks::run(const std::function<void(exec::Collectives&)>& program) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (const auto& rank : ranks_)
    threads.emplace_back([&] {
      try {
        program(*rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        world_->local.fail(first);
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace flow
