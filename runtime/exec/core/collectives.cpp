// Collectives in the form that most callers need: each sends whole values and waits for the result.
#include "runtime/exec/core/collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

/// Memory with a block for each rank, one after another.
class JoinedBlocks {
 public:
  explicit JoinedBlocks(std::vector<size_t> bytes)
      : bytes_(std::move(bytes)), offsets_(bytes_.size()) {
    std::exclusive_scan(bytes_.begin(), bytes_.end(), offsets_.begin(), size_t{0});
    memory_.resize(std::reduce(bytes_.begin(), bytes_.end()));
  }
  size_t count() const { return bytes_.size(); }
  std::span<std::byte> all() { return memory_; }
  std::span<std::byte> of(size_t rank) {
    return std::span(memory_).subspan(offsets_[rank], bytes_[rank]);
  }

  /// Sends the block of this rank to all others and receives their blocks.
  void gather(Collectives& collectives, std::span<const std::byte> mine) {
    std::ranges::copy(mine, of(static_cast<size_t>(collectives.rank())).begin());
    wait(collectives, collectives.gather({memory_.data(), offsets_, bytes_}));
  }

 private:
  std::vector<size_t> bytes_, offsets_;
  std::vector<std::byte> memory_;
};

class Waiting {
 public:
  explicit Waiting(Collectives& collectives) : collectives_(collectives) { ++collectives.waiting; }
  ~Waiting() { --collectives_.waiting; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Collectives& collectives_;
};

std::vector<size_t> gather_sizes(Collectives& collectives, size_t mine) {
  std::vector<size_t> sizes(static_cast<size_t>(collectives.size()));
  JoinedBlocks blocks(std::vector(sizes.size(), sizeof mine));
  blocks.gather(collectives, std::as_bytes(std::span(&mine, 1)));
  std::memcpy(sizes.data(), blocks.all().data(), blocks.all().size());
  return sizes;
}

}  // namespace

/// MPICH moves only some 300 KiB per test between processes of a host. Sleeping early or for long
/// would slow down large operations.
void wait(Collectives& collectives, Collectives::Operation operation) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  const Waiting waiting(collectives);
  const auto start = Clock::now();
  while (!collectives.test(operation)) {
    const auto waited = Clock::now() - start;
    if (waited < 5us) continue;
    if (waited < 50ms)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::min<Clock::duration>(waited / 1000, 1ms));
  }
}

/// Uses an exchange instead of a gather: each rank gathers the results of sums whenever they are
/// ready, so that another gather would not have the same position in the order of all ranks.
uint8_t agree(Collectives& collectives, uint8_t mine) {
  struct Words {
    std::vector<size_t> start, ones, places;
    std::vector<std::byte> received;
  };
  thread_local Words words;  // kept between calls, because steps must not allocate
  const auto ranks = static_cast<size_t>(collectives.size());
  if (words.received.size() != ranks) {
    words = {std::vector<size_t>(ranks), std::vector<size_t>(ranks, 1), std::vector<size_t>(ranks),
             std::vector<std::byte>(ranks)};
    std::iota(words.places.begin(), words.places.end(), size_t{0});
  }
  std::byte said{mine};
  wait(collectives, collectives.exchange({&said, words.start, words.ones},
                                         {words.received.data(), words.places, words.ones}));
  return static_cast<uint8_t>(std::ranges::max(words.received));
}

std::vector<std::string> gather_texts(Collectives& collectives, const std::string& mine) {
  JoinedBlocks blocks(gather_sizes(collectives, mine.size()));
  FLOW_CHECK(blocks.all().size() <= Collectives::kMostBytes);
  blocks.gather(collectives, std::as_bytes(std::span(mine)));
  std::vector<std::string> texts(blocks.count());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const auto block = blocks.of(rank);
    texts[rank].assign(reinterpret_cast<const char*>(block.data()), block.size());
  }
  return texts;
}

/// Splits large blocks into several operations, because libraries count the bytes of an operation
/// in an int.
void gather_at(Collectives& collectives, int root, const RankBlocks& blocks, size_t most) {
  if (std::reduce(blocks.bytes.begin(), blocks.bytes.end()) <= most)
    return wait(collectives, collectives.gather_at(root, blocks));
  std::vector<size_t> offsets(blocks.bytes.size()), bytes(blocks.bytes.size());
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    for (size_t done = 0; done < blocks.bytes[rank]; done += bytes[rank]) {
      offsets[rank] = blocks.offsets[rank] + done;
      bytes[rank] = std::min(blocks.bytes[rank] - done, most);
      wait(collectives, collectives.gather_at(root, {blocks.memory, offsets, bytes}));
    }
    bytes[rank] = 0;
  }
}

void broadcast(Collectives& collectives, int root, std::span<std::byte> bytes, size_t most) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), most));
    wait(collectives, collectives.broadcast(root, part));
    bytes = bytes.subspan(part.size());
  }
}

std::string broadcast_text(Collectives& collectives, int root, const std::string& text) {
  uint64_t size = text.size();
  broadcast(collectives, root, std::as_writable_bytes(std::span(&size, 1)));
  std::string received = collectives.rank() == root ? text : std::string(size, '\0');
  broadcast(collectives, root, std::as_writable_bytes(std::span(received)));
  return received;
}

}  // namespace flow::exec
