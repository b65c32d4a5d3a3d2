// Ranks in one process that send each other messages, without any operation.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/exec/core/collectives.h"

namespace flow::test {

/// The messages that have arrived, by rank.
class RankMessages {
 public:
  explicit RankMessages(int ranks) : ranks_(ranks) {}
  int ranks() const { return ranks_; }

  /// From now on nothing that this rank sends arrives.
  void cut_off(int rank) {
    const std::lock_guard lock(mutex_);
    cut_off_.insert(rank);
  }
  /// From now on sending to this rank fails.
  void refuse(int rank) {
    const std::lock_guard lock(mutex_);
    refused_.insert(rank);
  }
  void post(int from, int to, std::span<const std::byte> message) {
    const std::lock_guard lock(mutex_);
    FLOW_CHECK(message.size() <= exec::Collectives::kMostMessage);
    if (refused_.contains(to)) throw RunError("no connection");
    ++posted_;
    if (!cut_off_.contains(from))
      arrived_[to].push_back({from, std::vector(message.begin(), message.end())});
  }
  std::optional<exec::RankMessage> poll(int rank) {
    const std::lock_guard lock(mutex_);
    std::deque<exec::RankMessage>& waiting = arrived_[rank];
    if (waiting.empty()) return {};
    exec::RankMessage first = std::move(waiting.front());
    waiting.pop_front();
    return first;
  }
  size_t posted() const {
    const std::lock_guard lock(mutex_);
    return posted_;
  }

 private:
  const int ranks_;
  mutable std::mutex mutex_;
  std::map<int, std::deque<exec::RankMessage>> arrived_;
  std::set<int> cut_off_, refused_;
  size_t posted_ = 0;
};

/// A rank that can send and receive messages only.
class MessagingRank : public exec::Collectives {
 public:
  MessagingRank(RankMessages& messages, int rank) : messages_(messages), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return messages_.ranks(); }
  std::string library() const override { return "messages"; }
  Operation exchange(const exec::RankBlocks&, const exec::RankBlocks&) override { return none(); }
  Operation gather(const exec::RankBlocks&) override { return none(); }
  Operation gather_at(int, const exec::RankBlocks&) override { return none(); }
  Operation broadcast(int, std::span<std::byte>) override { return none(); }
  bool test(Operation) override { return none() == 0; }
  void post(int to, std::span<const std::byte> message) override {
    messages_.post(rank_, to, message);
  }
  std::optional<exec::RankMessage> poll() override { return messages_.poll(rank_); }
  void finish() override {}

 private:
  static Operation none() {
    FLOW_CHECK(false, "an operation of a rank that has only messages");
    return 0;
  }

  RankMessages& messages_;
  const int rank_;
};

}  // namespace flow::test
