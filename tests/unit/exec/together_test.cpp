// Whole values between ranks, which are threads here.
#include "runtime/exec/core/collectives.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "runtime/base/error.h"
#include "tests/support/thread_ranks.h"

namespace flow::exec {
namespace {

/// Catch2's assertions are for one thread.
template <typename T>
void expect(const T& value, const T& expected) {
  FLOW_CHECK(value == expected);
}

void run_ranks(const std::function<void(Collectives&)>& program) {
  unsigned seed = 0;
  for (const int size : {1, 2, 3, 8}) ThreadRanks(size, ++seed).run(program);
}

std::string failure_of(int size, const std::function<void(Collectives&)>& program) {
  try {
    ThreadRanks(size).run(program);
  } catch (const Defect& defect) {
    return defect.what();
  }
  return "";
}

std::string text_of(int rank) {
  return std::string(static_cast<size_t>(rank % 3 * 40), static_cast<char>('a' + rank));
}

/// One byte that each pair of ranks has for itself.
std::byte byte_of(int from, int to) { return static_cast<std::byte>(1 + from * 16 + to); }

/// How many bytes go from one rank to another; sometimes none.
size_t bytes_between(int from, int to) { return static_cast<size_t>((from * 5 + to * 3) % 7); }

struct TestBlocks {
  std::vector<size_t> offsets, bytes;
  std::vector<std::byte> memory;
  RankBlocks view() { return {memory.data(), offsets, bytes}; }
};

/// With gaps, and blocks in descending order.
template <typename Bytes, typename Fill>
TestBlocks blocks_of(int size, const Bytes& bytes, const Fill& fill) {
  TestBlocks blocks;
  blocks.offsets.resize(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) blocks.bytes.push_back(bytes(rank));
  for (int rank = size - 1; rank >= 0; --rank) {
    const auto r = static_cast<size_t>(rank);
    blocks.offsets[r] = blocks.memory.size();
    blocks.memory.resize(blocks.memory.size() + blocks.bytes[r], fill(rank));
    blocks.memory.emplace_back(std::byte{0});
  }
  return blocks;
}

TEST_CASE("ranks agree on the largest", "[exec]") {
  run_ranks([](Collectives& ranks) {
    for (int step = 0; step < 10; ++step) {
      const bool mine = step % ranks.size() == ranks.rank();
      expect<int>(agree(ranks, mine ? 200 : 3), 200);
    }
    expect<int>(agree(ranks, 0), 0);
  });
}

TEST_CASE("each rank gets the texts of all", "[exec]") {
  run_ranks([](Collectives& ranks) {
    const std::vector<std::string> texts = gather_texts(ranks, text_of(ranks.rank()));
    expect<size_t>(texts.size(), static_cast<size_t>(ranks.size()));
    for (int rank = 0; rank < ranks.size(); ++rank)
      expect(texts[static_cast<size_t>(rank)], text_of(rank));
    for (const std::string& text : gather_texts(ranks, "")) expect<std::string>(text, "");
  });
}

TEST_CASE("a broadcast may take several operations", "[exec]") {
  run_ranks([](Collectives& ranks) {
    const int root = ranks.size() - 1;
    for (const size_t bytes : {0, 1, 7, 8, 100}) {
      std::vector<uint8_t> sent(bytes), received(bytes);
      std::iota(sent.begin(), sent.end(), uint8_t{1});
      if (ranks.rank() == root) received = sent;
      broadcast(ranks, root, std::as_writable_bytes(std::span(received)), 7);
      expect(received, sent);
    }
  });
}

TEST_CASE("the text of one rank is that of all", "[exec]") {
  run_ranks([](Collectives& ranks) {
    for (int root = 0; root < ranks.size(); ++root)
      expect(broadcast_text(ranks, root, text_of(ranks.rank())), text_of(root));
  });
}

TEST_CASE("uneven and empty blocks are exchanged while others are under way", "[exec]") {
  run_ranks([](Collectives& ranks) {
    const int size = ranks.size(), me = ranks.rank();
    const auto none = [](int) { return std::byte{0}; };
    auto sent = blocks_of(
        size, [&](int to) { return bytes_between(me, to); },
        [&](int to) { return byte_of(me, to); });
    auto received = blocks_of(
        size, [&](int from) { return bytes_between(from, me); }, none);
    const auto expected = blocks_of(
        size, [&](int from) { return bytes_between(from, me); },
        [&](int from) { return byte_of(from, me); });
    const auto own = [](int from) { return bytes_between(from, from); };
    const auto all = blocks_of(size, own, [](int from) { return byte_of(from, from); });
    const auto only_mine = [&](int from) { return from == me ? byte_of(me, me) : std::byte{0}; };
    auto gathered = blocks_of(size, own, only_mine), at_root = gathered;
    const int root = size / 2;

    const auto exchange = ranks.exchange(sent.view(), received.view());
    const auto gather = ranks.gather(gathered.view());
    const auto gather_at = ranks.gather_at(root, at_root.view());
    wait(ranks, gather_at);
    wait(ranks, exchange);
    wait(ranks, gather);
    expect(received.memory, expected.memory);
    expect(gathered.memory, all.memory);
    if (me == root) expect(at_root.memory, all.memory);
    ranks.finish();
  });
}

TEST_CASE("messages of a rank arrive in their order", "[exec]") {
  run_ranks([](Collectives& ranks) {
    constexpr uint8_t kMessages = 20;
    for (uint8_t i = 0; i < kMessages; ++i)
      for (int to = 0; to < ranks.size(); ++to) ranks.post(to, std::as_bytes(std::span(&i, 1)));
    std::vector<uint8_t> next(static_cast<size_t>(ranks.size()));
    for (int left = kMessages * ranks.size(); left > 0;)
      if (const auto message = ranks.poll()) {
        expect<int>(static_cast<int>(message->bytes.at(0)),
                    next.at(static_cast<size_t>(message->from))++);
        --left;
      }
    expect(ranks.poll().has_value(), false);
  });
}

TEST_CASE("ranks that start different operations fail", "[exec]") {
  const std::string failure = failure_of(3, [](Collectives& ranks) {
    std::byte byte{};
    wait(ranks, ranks.broadcast(ranks.rank() == 2 ? 1 : 0, {&byte, 1}));
  });
  CHECK(failure.find("ranks start operations of the roots ") != std::string::npos);
}

TEST_CASE("a rank that touches what it sends fails", "[exec]") {
  const std::string failure = failure_of(2, [](Collectives& ranks) {
    std::byte byte{};
    const auto operation = ranks.broadcast(0, {&byte, 1});
    if (ranks.rank() == 0) byte = std::byte{1};
    wait(ranks, operation);
  });
  CHECK(failure.find("rank 0 changed what it sends") != std::string::npos);
}

TEST_CASE("a rank that asks for a complete operation fails", "[exec]") {
  const std::string failure = failure_of(1, [](Collectives& ranks) {
    const auto operation = ranks.broadcast(0, {});
    wait(ranks, operation);
    ranks.test(operation);
  });
  CHECK(failure.find("is complete") != std::string::npos);
}

TEST_CASE("where one rank fails the others do not wait for it", "[exec]") {
  CHECK_THROWS_WITH(ThreadRanks(3).run([](Collectives& ranks) {
    if (ranks.rank() == 1) throw std::runtime_error("no memory");
    agree(ranks, 0);
  }),
                    "no memory");
}

}  // namespace
}  // namespace flow::exec
