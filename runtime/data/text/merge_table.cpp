// Merges byte pairs: short pieces by repeated scans, long pieces with a queue.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/data/text/byte_pairs.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {

namespace {

/// The code points of GPT-2's alphabet by byte: printable characters of Latin-1 for themselves, and
/// code points from 256 for the others, ascending (bytes_to_unicode in GPT-2's encoder.py).
constexpr std::array<char32_t, 256> kAlphabet = [] {
  std::array<char32_t, 256> codes{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < codes.size(); ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    codes[byte] = printable ? byte : next++;
  }
  return codes;
}();

/// The bytes of the alphabet's code points, or -1.
constexpr std::array<int16_t, 324> kBytesOfAlphabet = [] {
  std::array<int16_t, 324> bytes{};
  bytes.fill(-1);
  for (size_t byte = 0; byte < kAlphabet.size(); ++byte)
    bytes[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

constexpr size_t kShortPiece = 48;  // bytes up to which repeated scans are faster than a queue

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

std::optional<std::string> bytes_of_symbol(std::string_view symbol) {
  std::string bytes;
  for (size_t at = 0; at < symbol.size();) {
    const CodePoint point = code_point_at(symbol, at);
    if (point.code >= kBytesOfAlphabet.size() || kBytesOfAlphabet[point.code] < 0) return {};
    bytes += static_cast<char>(kBytesOfAlphabet[point.code]);
    at += point.bytes;
  }
  return bytes;
}

std::string symbol_of_byte(unsigned char byte) {
  std::string symbol;
  append_utf8(kAlphabet[byte], symbol);
  return symbol;
}

MergeTable::MergeTable(const BytePairs& parts) : byte_ids_(256, -1) {
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(parts.vocabulary.size());
  for (const auto& [symbol, id] : parts.vocabulary) ids.emplace(symbol, id);
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids.find(symbol_of_byte(static_cast<unsigned char>(byte)));
    if (found != ids.end()) byte_ids_[static_cast<size_t>(byte)] = found->second;
  }
  entries_.resize(std::bit_ceil(2 * parts.merges.size() + 2));
  shift_ = 64 - std::countr_zero(entries_.size());
  for (uint32_t rank = 0; rank < parts.merges.size(); ++rank) {
    const Merge& merge = parts.merges[rank];
    const auto id_of = [&](const std::string& symbol) {
      const auto found = ids.find(symbol);
      if (found != ids.end()) return found->second;
      throw RunError(fmt::format("{}{}: `{}` is not in {}", parts.merges_name, merge.place,
                                 shortened(symbol), parts.vocab_name),
                     "use the vocabulary and the merges of one tokenizer");
    };
    const int32_t left = id_of(merge.left), right = id_of(merge.right);
    insert(left, right, {rank, id_of(merge.left + merge.right)});
  }
}

size_t MergeTable::slot_of(uint64_t pair) const {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio (Knuth)
  auto slot = static_cast<size_t>((pair ^ pair >> 32) * kGolden >> shift_);
  while (entries_[slot].pair != pair && entries_[slot].pair != UINT64_MAX)
    slot = (slot + 1) & (entries_.size() - 1);
  return slot;
}

void MergeTable::insert(int32_t left, int32_t right, Joined joined) {
  Entry& entry = entries_[slot_of(pair_of(left, right))];
  if (entry.pair == UINT64_MAX) entry = {pair_of(left, right), joined};
}

MergeTable::Joined MergeTable::find(int32_t left, int32_t right) const {
  return entries_[slot_of(pair_of(left, right))].joined;
}

void MergeTable::merge(std::vector<int32_t>& ids) const {
  if (ids.size() <= kShortPiece)
    merge_short(ids);
  else
    merge_long(ids);
}

void MergeTable::merge_short(std::vector<int32_t>& ids) const {
  std::array<Joined, kShortPiece> pairs;  // of each id and its successor
  size_t count = ids.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = find(ids[i], ids[i + 1]);
  while (count > 1) {
    const auto last = pairs.begin() + static_cast<std::ptrdiff_t>(count - 1);
    const uint32_t best = std::ranges::min_element(pairs.begin(), last, {}, &Joined::rank)->rank;
    if (best == kNoRank) break;
    size_t out = 0;
    for (size_t i = 0; i < count; ++i, ++out) {
      const bool joins = i + 1 < count && pairs[i].rank == best;
      ids[out] = joins ? pairs[i].id : ids[i];
      if (joins) ++i;
    }
    count = out;
    for (size_t i = 0; i + 1 < count; ++i) pairs[i] = find(ids[i], ids[i + 1]);
  }
  ids.resize(count);
}

namespace {

/// Ids as a linked list, and the pairs of neighbors by rank and position.
class MergeQueue {
 public:
  explicit MergeQueue(std::vector<int32_t>& ids)
      : ids_(ids), next_(ids.size()), previous_(ids.size()) {
    std::iota(next_.begin(), next_.end(), size_t{1});
    std::iota(previous_.begin(), previous_.end(), SIZE_MAX);  // the first has none
  }

  /// find(left, right) returns the rank and the id of a merge.
  template <typename Find>
  void run(Find find) {
    for (size_t i = 0; i + 1 < ids_.size(); ++i) add(i, find);
    while (!fresh_.empty() || !queue_.empty()) {
      for (const auto& pair : fresh_) queue_.push(pair);
      fresh_.clear();
      const uint32_t rank = queue_.top().first;
      // New pairs wait until all occurrences of this merge are joined.
      for (; !queue_.empty() && queue_.top().first == rank; queue_.pop())
        join(queue_.top().second, rank, find);
    }
    compact();
  }

 private:
  static constexpr int32_t kJoined = -1;  // the id of a position that is part of the one before

  template <typename Find>
  void add(size_t at, Find find) {
    if (next_[at] == ids_.size()) return;
    const auto joined = find(ids_[at], ids_[next_[at]]);
    if (joined.rank != UINT32_MAX) fresh_.emplace_back(joined.rank, at);
  }

  template <typename Find>
  void join(size_t at, uint32_t rank, Find find) {
    if (ids_[at] == kJoined || next_[at] == ids_.size()) return;
    const size_t right = next_[at];
    const auto joined = find(ids_[at], ids_[right]);
    if (joined.rank != rank) return;  // an earlier merge changed the pair
    ids_[at] = joined.id;
    ids_[right] = kJoined;
    next_[at] = next_[right];
    if (next_[at] < ids_.size()) previous_[next_[at]] = at;
    if (at > 0) add(previous_[at], find);
    add(at, find);
  }

  void compact() { std::erase(ids_, kJoined); }

  using RankedPair = std::pair<uint32_t, size_t>;  // rank and position

  std::vector<int32_t>& ids_;
  std::vector<size_t> next_, previous_;
  std::vector<RankedPair> fresh_;
  std::priority_queue<RankedPair, std::vector<RankedPair>, std::greater<>> queue_;
};

}  // namespace

void MergeTable::merge_long(std::vector<int32_t>& ids) const {
  MergeQueue(ids).run([this](int32_t left, int32_t right) { return find(left, right); });
}

}  // namespace flow::data
