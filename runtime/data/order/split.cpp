// Splits rows into parts: at random, at the end, by class and by group.
#include "runtime/data/order/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/data/order/draws.h"

namespace flow::data {
namespace {

std::vector<int64_t> permutation(uint64_t seed, std::string_view dataset, size_t n) {
  const std::string name = std::string(dataset) + "/split";
  std::vector<int64_t> order(n);
  draw_permutation({.seed = seed, .name = name}, order.data(), static_cast<int64_t>(n));
  return order;
}

/// Returns the ascending distinct values.
std::vector<int64_t> distinct(std::span<const int64_t> values) {
  std::vector<int64_t> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::unique(sorted);
  sorted.erase(repeated.begin(), repeated.end());
  return sorted;
}

size_t index_of(int64_t value, const std::vector<int64_t>& sorted) {
  return static_cast<size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin());
}

/// Returns the number of units of each part.
std::vector<size_t> part_sizes(const SplitOptions& options, size_t units) {
  std::vector<size_t> sizes;
  size_t left = units;
  for (const SplitPart& part : options.parts) {
    const auto size = static_cast<size_t>(half_up(part.fraction * static_cast<double>(units)));
    sizes.push_back(std::min(size, left));
    left -= sizes.back();
  }
  return sizes;
}

/// Appends the first units of an order to the parts, and the others to the rest.
void deal(const SplitOptions& options, std::span<const int64_t> order, SplitRows& out) {
  out.parts.resize(options.parts.size());
  const std::vector<size_t> sizes = part_sizes(options, order.size());
  for (size_t part = 0; part < sizes.size(); ++part) {
    const auto taken = order.first(sizes[part]);
    out.parts[part].insert(out.parts[part].end(), taken.begin(), taken.end());
    order = order.subspan(sizes[part]);
  }
  out.rest.insert(out.rest.end(), order.begin(), order.end());
}

void check_part(std::string_view name, std::string_view dataset, bool empty, size_t rows) {
  if (!empty) return;
  throw RunError(fmt::format("{} has no rows after the split of {} rows",
                             name.empty() ? fmt::format("the rest of dataset `{}`", dataset)
                                          : fmt::format("part `{}/{}`", dataset, name),
                             rows),
                 "change the fractions of `split`, or add rows");
}

SplitRows finished(const SplitOptions& options, std::string_view dataset, size_t rows,
                   SplitRows split) {
  for (size_t part = 0; part < split.parts.size(); ++part) {
    std::ranges::sort(split.parts[part]);
    check_part(options.parts[part].name, dataset, split.parts[part].empty(), rows);
  }
  std::ranges::sort(split.rest);
  check_part("", dataset, split.rest.empty(), rows);
  return split;
}

/// Returns the rows sorted by their key, and the first index of each key in them. Rows of a key are
/// in the order of `rows`.
struct Buckets {
  std::vector<int64_t> rows;
  std::vector<size_t> starts;

  std::span<const int64_t> operator[](size_t key) const {
    return std::span(rows).subspan(starts[key], starts[key + 1] - starts[key]);
  }
};

/// Sorts `rows` by counting. keys[row] is in [0, count).
Buckets bucketed(std::span<const int64_t> rows, const std::vector<size_t>& keys, size_t count) {
  Buckets buckets{std::vector<int64_t>(rows.size()), std::vector<size_t>(count + 1)};
  for (const int64_t row : rows) ++buckets.starts[keys[static_cast<size_t>(row)] + 1];
  std::partial_sum(buckets.starts.begin(), buckets.starts.end(), buckets.starts.begin());
  std::vector<size_t> next = buckets.starts;
  for (const int64_t row : rows) buckets.rows[next[keys[static_cast<size_t>(row)]]++] = row;
  return buckets;
}

/// Numbers the groups of rows in the order of their first occurrence.
std::vector<size_t> numbered(std::span<const int64_t> groups, const std::vector<int64_t>& sorted) {
  std::vector<size_t> number(sorted.size(), sorted.size());
  std::vector<size_t> numbers;
  numbers.reserve(groups.size());
  size_t used = 0;
  for (const int64_t group : groups) {
    size_t& own = number[index_of(group, sorted)];
    if (own == sorted.size()) own = used++;
    numbers.push_back(own);
  }
  return numbers;
}

/// Replaces groups by their rows.
std::vector<int64_t> rows_of(const std::vector<int64_t>& groups, const Buckets& buckets) {
  std::vector<int64_t> rows;
  for (const int64_t group : groups) {
    const auto bucket = buckets[static_cast<size_t>(group)];
    rows.insert(rows.end(), bucket.begin(), bucket.end());
  }
  return rows;
}

std::vector<int64_t> iota(size_t n) {
  std::vector<int64_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

SplitRows split_random(const SplitOptions& options, std::string_view dataset, int64_t rows) {
  const auto n = static_cast<size_t>(rows);
  SplitRows split;
  deal(options, permutation(options.seed, dataset, n), split);
  return finished(options, dataset, n, std::move(split));
}

SplitRows split_last(const SplitOptions& options, std::string_view dataset, int64_t rows) {
  const auto n = static_cast<size_t>(rows);
  const std::vector<size_t> sizes = part_sizes(options, n);
  std::vector<int64_t> order = iota(n);
  const size_t rest = n - std::accumulate(sizes.begin(), sizes.end(), size_t{0});
  std::ranges::rotate(order, order.begin() + static_cast<std::ptrdiff_t>(rest));
  SplitRows split;
  deal(options, order, split);
  return finished(options, dataset, n, std::move(split));
}

SplitRows split_by(const SplitOptions& options, std::string_view dataset,
                   std::span<const int64_t> classes) {
  const std::vector<int64_t> ids = distinct(classes);
  std::vector<size_t> keys;
  keys.reserve(classes.size());
  for (const int64_t id : classes) keys.push_back(index_of(id, ids));
  const Buckets buckets =
      bucketed(permutation(options.seed, dataset, classes.size()), keys, ids.size());
  SplitRows split;
  split.parts.resize(options.parts.size());
  for (size_t id = 0; id < ids.size(); ++id) deal(options, buckets[id], split);
  return finished(options, dataset, classes.size(), std::move(split));
}

SplitRows split_groups(const SplitOptions& options, std::string_view dataset,
                       std::span<const int64_t> groups) {
  const std::vector<int64_t> values = distinct(groups);
  const Buckets buckets = bucketed(iota(groups.size()), numbered(groups, values), values.size());
  SplitRows units;
  deal(options, permutation(options.seed, dataset, values.size()), units);
  SplitRows split{{}, rows_of(units.rest, buckets)};
  for (const auto& part : units.parts) split.parts.push_back(rows_of(part, buckets));
  return finished(options, dataset, groups.size(), std::move(split));
}

}  // namespace flow::data
