// Counts the time without heartbeats, passes failures from rank to rank, and determines the lowest
// remaining rank.
#include "runtime/exec/ranks/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace flow::exec {

namespace {

using std::chrono::seconds;

constexpr int kMedianSteps = 20;  // a rank may compute for this many median step times
// The bytes of a message that fit after its head.
constexpr size_t kMostText = 3000, kMostHint = 1000;
/// The number of lowest ranks to which a failure is proposed. If all of them are lost, too, other
/// ranks find that out themselves. If each of a thousand ranks wrote to all lower ranks, there
/// would be too many messages.
constexpr int kHeirs = 8;
/// A proposal and the announcement after it need a turn each; the other turns allow for busy
/// machines.
constexpr int kTurnsOfRank = 6;
/// The reporting rank ends one turn after its announcement, because the library may send with a
/// delay.
constexpr int kTurnsOfReport = 1, kTurnsOfFollower = 4;

/// Truncates a text to at most `bytes` bytes, without splitting a UTF-8 character.
std::string cut(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace

enum class FailureDetector::Kind : uint8_t {
  kHeartbeat,
  kLeaving,
  kFailing,
  kProposal,
  kAnnouncement
};

std::chrono::nanoseconds StepDurations::median() const {
  auto sorted = last_;
  const size_t known = std::min(count_, sorted.size());
  std::sort(sorted.begin(), sorted.begin() + known);
  return sorted[known / 2];
}

/// The whole message of a heartbeat. In messages about a failure, the text and its hint follow the
/// head.
struct FailureDetector::Head {
  int64_t step = 0;
  int32_t lost = 0;
  uint16_t message_bytes = 0;
  Kind kind = Kind::kHeartbeat;
  RankActivity activity = RankActivity::kPreparing;
};

FailureDetector::FailureDetector(Collectives& collectives, const MonitorOptions& options)
    : collectives_(collectives),
      period_(options.period),
      timeout_(options.timeout),
      hosts_(options.hosts),
      rank_(collectives.rank()),
      first_watched_(rank_ == 0 ? 1 : 0),
      end_watched_(rank_ == 0 ? collectives.size() : 1),
      peers_(static_cast<size_t>(collectives.size())) {}

void FailureDetector::send_heartbeat(const RankStatus& own) const {
  const Kind kind = own.fails ? Kind::kFailing : own.leaves ? Kind::kLeaving : Kind::kHeartbeat;
  const Head head{.step = own.step, .kind = kind, .activity = own.activity};
  for (int to = first_watched_; to < end_watched_; ++to)
    post(to, std::as_bytes(std::span(&head, 1)));
}

void FailureDetector::fail(const RankStatus& own, const std::string& message,
                           const std::string& hint) {
  if (ending_) return;
  const std::string step =
      own.activity == RankActivity::kPreparing ? std::string() : fmt::format("step {}: ", own.step);
  find({rank_, fmt::format("{}: {}{}", name(rank_), step, message), hint});
}

std::optional<RankEnd> FailureDetector::turn(const RankStatus& own,
                                             std::chrono::nanoseconds elapsed) {
  send_heartbeat(own);
  for (Peer& peer : peers_) {
    peer.silence += std::min(elapsed, period_);
    peer.unchanged += std::min(elapsed, period_);
  }
  receive();
  if (own.fails) return {};
  if (!ending_) look(own);
  return ending_ ? approach_end() : std::nullopt;
}

/// Sends a message. Errors are ignored: a library may refuse to send to a lost rank, whose missing
/// heartbeats are noticed anyway.
void FailureDetector::post(int to, std::span<const std::byte> message) const {
  try {
    collectives_.post(to, message);
  } catch (const RunError&) {
  }
}

/// Receives a message. Errors are ignored, because the operations of the run also fail and report
/// them.
std::optional<RankMessage> FailureDetector::poll() const {
  try {
    return collectives_.poll();
  } catch (const RunError&) {
    return {};
  }
}

void FailureDetector::receive() {
  while (const auto message = poll()) {
    Head head;
    if (message->bytes.size() < sizeof head) continue;
    std::memcpy(&head, message->bytes.data(), sizeof head);
    if (head.kind <= Kind::kFailing)
      receive_heartbeat(peers_[static_cast<size_t>(message->from)], head);
    else
      receive_failure(head, std::span(message->bytes).subspan(sizeof head));
  }
}

void FailureDetector::receive_heartbeat(Peer& peer, const Head& head) const {
  if (peer.activity != head.activity || peer.step != head.step) peer.unchanged = Duration(0);
  peer.silence = Duration(0);
  peer.activity = head.activity;
  peer.step = head.step;
  peer.left = head.kind == Kind::kLeaving;
  peer.failed = head.kind == Kind::kFailing;
}

void FailureDetector::receive_failure(const Head& head, std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t message_bytes = std::min<size_t>(head.message_bytes, text.size());
  RankFailure failure{head.lost, text.substr(0, message_bytes), text.substr(message_bytes)};
  if (head.kind == Kind::kProposal) {
    // A rank that computes for too long cannot judge that itself, and might end before other ranks
    // report it.
    if (!ending_ && head.lost != rank_) await_turn(std::move(failure));
  } else if (!ending_ || ending_->part == Part::kInLine) {
    ending_ = {std::move(failure), Part::kFollows, kTurnsOfFollower};
  }
}

void FailureDetector::look(const RankStatus& own) {
  const Duration limit = std::max(timeout_, kMedianSteps * own.median_step);
  for (int rank = first_watched_; rank < end_watched_ && !ending_; ++rank)
    if (auto failure = failure_of(rank, limit)) find(std::move(*failure));
}

std::optional<RankFailure> FailureDetector::failure_of(int rank, Duration limit) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.left) return {};
  if (peer.silence >= timeout_)
    return RankFailure{
        rank,
        fmt::format("{} stopped responding {} step {}: no heartbeat for {} s", name(rank),
                    peer.activity == RankActivity::kPreparing ? "before" : "in", peer.step,
                    std::chrono::round<seconds>(peer.silence).count()),
        "check whether its process was killed, and the host and its network"};
  if (!peer.failed && peer.activity == RankActivity::kComputing && peer.unchanged > limit)
    return RankFailure{
        rank,
        fmt::format("{} has been computing step {} for {} s; the limit is {} s", name(rank),
                    peer.step, std::chrono::ceil<seconds>(peer.unchanged).count(),
                    std::chrono::round<seconds>(limit).count()),
        "raise --rank-timeout where steps take longer"};
  return {};
}

void FailureDetector::find(RankFailure failure) {
  await_turn(std::move(failure));
  for (int to = 0; to < std::min(rank_, kHeirs); ++to) post_failure(to, Kind::kProposal);
}

void FailureDetector::await_turn(RankFailure failure) {
  ending_ = {std::move(failure), Part::kInLine, 1 + kTurnsOfRank * rank_};
}

void FailureDetector::post_failure(int to, Kind kind) const {
  const std::string message = cut(ending_->failure.message, kMostText);
  const Head head{.lost = ending_->failure.rank,
                  .message_bytes = static_cast<uint16_t>(message.size()),
                  .kind = kind};
  const std::string text = message + cut(ending_->failure.hint, kMostHint);
  std::vector<std::byte> bytes(sizeof head + text.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin() + sizeof head);
  post(to, bytes);
}

std::optional<RankEnd> FailureDetector::approach_end() {
  const bool leader_reports = peers_[0].failed && peers_[0].silence < timeout_;
  if (ending_->part == Part::kInLine && leader_reports) return {};
  if (--ending_->turns > 0) return {};
  if (ending_->part == Part::kFollows) return RankEnd{};
  if (ending_->part == Part::kReports)
    return RankEnd{ending_->failure.message, ending_->failure.hint};
  announce();
  return {};
}

void FailureDetector::end_others() {
  ending_ = {RankFailure{rank_, {}, {}}};
  announce();
}

void FailureDetector::announce() {
  ending_->part = Part::kReports;
  ending_->turns = kTurnsOfReport;
  for (int to = 0; to < collectives_.size(); ++to)
    if (to != rank_) post_failure(to, Kind::kAnnouncement);
}

std::string FailureDetector::name(int rank) const {
  const auto at = static_cast<size_t>(rank);
  return at < hosts_.size() ? fmt::format("rank {} ({})", rank, hosts_[at])
                            : fmt::format("rank {}", rank);
}

}  // namespace flow::exec
