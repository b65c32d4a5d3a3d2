// Shuffling and sampling with replacement.
#include "runtime/data/order/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/error.h"

namespace flow::data {
namespace {

Draw permutation_draw(const EpochDraws& draws, const std::string& name) {
  return {.seed = draws.seed, .name = name, .step = draws.epoch};
}

/// The rows of files, one after the other.
class RowStream {
 public:
  RowStream(std::vector<int64_t> files, std::span<const int64_t> file_rows)
      : files_(std::move(files)), ends_(file_rows.size()) {
    std::partial_sum(file_rows.begin(), file_rows.end(), ends_.begin());
    enter_file();
  }

  bool at_end() const { return file_ == files_.size(); }
  /// REQUIRES: !at_end().
  int64_t next() {
    const int64_t row = row_++;
    if (row_ == end_) {
      ++file_;
      enter_file();
    }
    return row;
  }

 private:
  /// Enters the next file that has rows.
  void enter_file() {
    for (; !at_end(); ++file_) {
      const auto file = static_cast<size_t>(files_[file_]);
      row_ = file == 0 ? 0 : ends_[file - 1];
      end_ = ends_[file];
      if (row_ < end_) return;
    }
  }

  std::vector<int64_t> files_, ends_;
  size_t file_ = 0;
  int64_t row_ = 0, end_ = 0;
};

/// Calls take(position, first word, second word) for each position of a sample.
template <typename Take>
void for_each_pair(const EpochDraws& draws, size_t positions, const Take& take) {
  const PhiloxKey key = draws.key("/sample");
  for (size_t i = 0; i < positions; i += 2) {
    const PhiloxBlock words = philox_block(key, draws.epoch, i / 2);
    take(i, words[0], words[1]);
    if (i + 1 < positions) take(i + 1, words[2], words[3]);
  }
}

void check_weight(double weight, size_t row, std::string_view column) {
  if (std::isfinite(weight) && weight >= 0) return;
  throw RunError(fmt::format("weight of row {} is {} (column {}); expected a finite number >= 0",
                             row, weight, column),
                 "correct the weights of `sample`");
}

}  // namespace

void shuffle_rows(const EpochDraws& draws, std::span<int64_t> order) {
  const std::string name = std::string(draws.dataset) + "/shuffle";
  draw_permutation(permutation_draw(draws, name), order.data(), static_cast<int64_t>(order.size()));
}

void shuffle_buffered(const EpochDraws& draws, int64_t buffer, bool shuffle_files,
                      std::span<const int64_t> file_rows, std::span<int64_t> order) {
  std::vector<int64_t> files(file_rows.size());
  std::iota(files.begin(), files.end(), 0);
  const std::string name = std::string(draws.dataset) + "/shuffle_files";
  if (shuffle_files)
    draw_permutation(permutation_draw(draws, name), files.data(),
                     static_cast<int64_t>(files.size()));
  RowStream stream(std::move(files), file_rows);
  std::vector<int64_t> slots(std::min(static_cast<size_t>(buffer), order.size()));
  std::ranges::generate(slots, [&] { return stream.next(); });
  const PhiloxKey key = draws.key("/shuffle");
  PhiloxBlock words{};
  for (size_t k = 0; k < order.size(); ++k) {
    if (k % 4 == 0) words = philox_block(key, draws.epoch, k / 4);
    const auto j = static_cast<size_t>(below(words[k % 4], static_cast<int64_t>(slots.size())));
    order[k] = slots[j];
    if (stream.at_end()) {
      slots[j] = slots.back();
      slots.pop_back();
    } else {
      slots[j] = stream.next();
    }
  }
}

void sample_uniform(const EpochDraws& draws, int64_t rows, std::span<int64_t> order) {
  __extension__ using Wide = unsigned __int128;
  for_each_pair(draws, order.size(), [&](size_t i, uint32_t high, uint32_t low) {
    const uint64_t word = uint64_t{high} << 32 | low;
    order[i] = static_cast<int64_t>((Wide{word} * static_cast<uint64_t>(rows)) >> 64);
  });
}

WeightedSampler::WeightedSampler(std::span<const double> weights, std::string_view column) {
  sums_.reserve(weights.size());
  double sum = 0;
  for (size_t row = 0; row < weights.size(); ++row) {
    check_weight(weights[row], row, column);
    sums_.push_back(sum += weights[row]);
  }
  if (sum == 0 || !std::isfinite(sum))
    throw RunError(
        fmt::format("weights have the sum {} (column {}); expected a positive number", sum, column),
        "correct the weights of `sample`");
}

void WeightedSampler::sample(const EpochDraws& draws, std::span<int64_t> order) const {
  // If the sum is subnormal, a product may be rounded up to the sum, and no element is greater. The
  // search therefore ends at the first element that equals the sum.
  const auto last = std::ranges::lower_bound(sums_, sums_.back());
  for_each_pair(draws, order.size(), [&](size_t i, uint32_t high, uint32_t low) {
    const double unit53 = static_cast<double>(uint64_t{high >> 5} << 26 | low >> 6) * 0x1p-53;
    const auto found = std::upper_bound(sums_.begin(), last, unit53 * sums_.back());
    order[i] = found - sums_.begin();
  });
}

BalancedSampler::BalancedSampler(std::span<const int64_t> classes) : rows_(classes.size()) {
  FLOW_CHECK(!classes.empty());
  std::iota(rows_.begin(), rows_.end(), 0);
  const auto class_of = [&](int64_t row) { return classes[static_cast<size_t>(row)]; };
  std::ranges::stable_sort(rows_, {}, class_of);
  for (size_t i = 0; i < rows_.size(); ++i)
    if (i == 0 || class_of(rows_[i]) != class_of(rows_[i - 1]))
      starts_.push_back(static_cast<int64_t>(i));
  starts_.push_back(static_cast<int64_t>(rows_.size()));
}

void BalancedSampler::sample(const EpochDraws& draws, std::span<int64_t> order) const {
  const auto classes = static_cast<int64_t>(starts_.size()) - 1;
  for_each_pair(draws, order.size(), [&](size_t i, uint32_t first, uint32_t second) {
    const auto chosen = static_cast<size_t>(below(first, classes));
    const int64_t row = below(second, starts_[chosen + 1] - starts_[chosen]);
    order[i] = rows_[static_cast<size_t>(starts_[chosen] + row)];
  });
}

std::vector<uint32_t> earlier_uses(std::span<const int64_t> order, int64_t rows) {
  std::vector<uint32_t> counts(static_cast<size_t>(rows));
  std::vector<uint32_t> uses;
  uses.reserve(order.size());
  for (const int64_t row : order) uses.push_back(counts[static_cast<size_t>(row)]++);
  return uses;
}

}  // namespace flow::data
