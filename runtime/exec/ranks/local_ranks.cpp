// Collectives between threads of one process. An operation is complete for a rank when all ranks
// have copied what they receive in it.
#include "runtime/exec/ranks/ranks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

constexpr size_t kKinds = 4;

size_t index(int rank) { return static_cast<size_t>(rank); }

std::span<std::byte> block_of(const RankBlocks& blocks, int rank) {
  return {blocks.memory + blocks.offsets[index(rank)], blocks.bytes[index(rank)]};
}

void copy_block(std::span<const std::byte> from, std::span<std::byte> to) {
  FLOW_CHECK(from.size() == to.size(), "{} bytes sent, {} expected", from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

}  // namespace

struct LocalRanks::World {
  enum class Kind : size_t { kExchange, kGather, kGatherAt, kBroadcast };

  /// What a rank contributes to an operation.
  struct Part {
    RankBlocks send, receive = {};    // a gather sends from and receives into `send`
    std::span<std::byte> bytes = {};  // the bytes of a broadcast
    bool copied = false;              // this rank has copied what it receives
  };
  struct StartedOperation {
    Kind kind = Kind::kExchange;
    int root = 0;
    size_t number = 0;  // its number among the operations of its kind
    std::vector<Part> parts;
    size_t started = 0, copied = 0, finished = 0;  // numbers of ranks
  };

  explicit World(int count) : size(count), next(index(count)), mail(index(count)) {}

  /// Calls `f` under the lock. A failure of one rank becomes that of all ranks.
  template <typename F>
  auto alone(const F& f) {
    const std::lock_guard lock(mutex);
    if (failure) std::rethrow_exception(failure);
    try {
      return f();
    } catch (const std::exception&) {
      set(std::current_exception());
      throw;
    }
  }

  void fail(const std::exception_ptr& error) {
    const std::lock_guard lock(mutex);
    if (!failure) set(error);
  }

  /// Stores the error. REQUIRES: the caller has the lock.
  void set(const std::exception_ptr& error) {
    failure = error;
    failed = true;
  }

  /// Returns the index of the operation, or a free index if this rank is the first that starts it.
  /// Entries are reused, so that steps allocate nothing.
  size_t place_of(Kind kind, size_t number) {
    const auto is_it = [&](const StartedOperation& one) {
      return one.started > 0 && one.kind == kind && one.number == number;
    };
    auto found = std::ranges::find_if(operations, is_it);
    if (found == operations.end()) {
      found = std::ranges::find(operations, size_t{0}, &StartedOperation::started);
      if (found == operations.end()) found = operations.emplace(operations.end());
      *found = {kind, 0, number, std::move(found->parts)};
      found->parts.assign(index(size), {});
    }
    return static_cast<size_t>(found - operations.begin());
  }

  /// Copies what `rank` receives from `other`.
  static void receive(const StartedOperation& operation, int rank, int other) {
    const Part &mine = operation.parts[index(rank)], &theirs = operation.parts[index(other)];
    const bool is_root = rank == operation.root, from_root = other == operation.root;
    if (operation.kind == Kind::kExchange)
      return copy_block(block_of(theirs.send, rank), block_of(mine.receive, other));
    if (other == rank) return;
    if (operation.kind == Kind::kGather || (operation.kind == Kind::kGatherAt && is_root))
      copy_block(block_of(theirs.send, other), block_of(mine.send, other));
    if (operation.kind == Kind::kBroadcast && from_root) copy_block(theirs.bytes, mine.bytes);
  }

  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<bool> failed = false;  // can be read without the lock
  const int size;
  std::vector<std::array<size_t, kKinds>> next;  // next operation number by rank and kind
  std::deque<StartedOperation> operations;       // indexed by Operation; started == 0: free
  std::vector<std::deque<RankMessage>> mail;     // indexed by receiver
};

class LocalRanks::Rank final : public Collectives {
  using Kind = World::Kind;

 public:
  Rank(World& world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.size; }
  std::string library() const override { return ""; }

  Operation exchange(const RankBlocks& send, const RankBlocks& receive) override {
    return start(Kind::kExchange, 0, {send, receive});
  }
  Operation gather(const RankBlocks& blocks) override { return start(Kind::kGather, 0, {blocks}); }
  Operation gather_at(int root, const RankBlocks& blocks) override {
    return start(Kind::kGatherAt, root, {blocks});
  }
  Operation broadcast(int root, std::span<std::byte> bytes) override {
    return start(Kind::kBroadcast, root, {.send = {}, .bytes = bytes});
  }

  /// Copies under the lock, so that a rank that fails meanwhile keeps its memory until the copy is
  /// complete.
  bool test(Operation place) override {
    return world_.alone([&] {
      World::StartedOperation& operation = world_.operations[place];
      if (operation.started != index(size())) return false;
      if (!std::exchange(operation.parts[index(rank_)].copied, true)) {
        for (int other = 0; other < size(); ++other) World::receive(operation, rank_, other);
        ++operation.copied;
      }
      if (operation.copied != index(size())) return false;
      if (++operation.finished == index(size())) operation.started = 0;
      return true;
    });
  }

  void post(int to, std::span<const std::byte> message) override {
    FLOW_CHECK(message.size() <= kMostMessage);
    world_.alone([&] {
      world_.mail[index(to)].push_back({rank_, {message.begin(), message.end()}});
    });
  }

  std::optional<RankMessage> poll() override {
    return world_.alone([&]() -> std::optional<RankMessage> {
      auto& mail = world_.mail[index(rank_)];
      if (mail.empty()) return {};
      RankMessage message = std::move(mail.front());
      mail.pop_front();
      return message;
    });
  }

  void fail(const std::exception_ptr& error) override { world_.fail(error); }
  void require_alive() override {
    if (world_.failed) world_.alone([] {});
  }
  void finish() override {}

 private:
  Operation start(Kind kind, int root, const World::Part& part) {
    return world_.alone([&] {
      const size_t number = world_.next[index(rank_)][static_cast<size_t>(kind)]++;
      const size_t place = world_.place_of(kind, number);
      World::StartedOperation& operation = world_.operations[place];
      if (operation.started++ == 0) operation.root = root;
      FLOW_CHECK(operation.root == root, "ranks start operations of the roots {} and {}", root,
                 operation.root);
      operation.parts[index(rank_)] = part;
      return place;
    });
  }

  World& world_;
  const int rank_;
};

LocalRanks::LocalRanks(int size) : world_(std::make_unique<World>(size)) {
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*world_, rank));
}

LocalRanks::~LocalRanks() = default;

Collectives& LocalRanks::rank(int rank) { return *ranks_[index(rank)]; }

void LocalRanks::fail(const std::exception_ptr& error) { world_->fail(error); }

}  // namespace flow::exec
