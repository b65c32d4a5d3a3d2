// Learns values from rows.
#include "runtime/data/dataset/learning.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "runtime/base/error.h"
#include "runtime/io/convert.h"

namespace flow::data {
namespace {

bool learns_fill(const plan::Column& column) {
  using Kind = plan::Replacement::Kind;
  return column.cell &&
         (column.cell->missing.kind == Kind::kMean || column.cell->missing.kind == Kind::kMedian);
}

bool learns_categories(const plan::Column& column) {
  const auto is_learned = [](const plan::Categories& categories) {
    return categories.kind == plan::Categories::Kind::kLearned;
  };
  const bool characters = column.text &&
                          column.text->tokenizer.kind == plan::Tokenizer::Kind::kCharacters &&
                          column.text->tokenizer.characters.empty();
  return characters ||
         (column.cell && column.cell->categories && is_learned(*column.cell->categories));
}

/// Visits the values of a column by channel, in the order of its rows.
class ChannelValues {
 public:
  using Visit = std::function<void(size_t channel, double value)>;

  ChannelValues(const plan::Column& column, const SourceRows& source, const RowRanges& ranges,
                const RowSet& rows)
      : source_(source),
        ranges_(ranges),
        rows_(rows),
        scale_(column.scale),
        shape_(column.source_row_shape()) {}

  size_t channels() const { return shape_.rank() > 0 ? static_cast<size_t>(shape_[0]) : 1; }

  void each(const Visit& visit) const {
    source_.recovering([&] { each_unguarded(visit); });
  }

 private:
  void each_unguarded(const Visit& visit) const {
    const StoredElement type = source_.element();
    std::optional<io::RowConverter> converter;
    std::vector<double> values;
    Scratch scratch;
    RowDraws draws;
    draws.augments = false;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const int64_t row = ranges_[rows_[i]];
      const auto bytes = source_.read(row, draws, scratch);
      const size_t elements = bytes.size() / type.bytes();
      if (!converter || elements != values.size()) {  // images may have different sizes
        values.resize(elements);
        converter.emplace(type.dtype, type.big_endian, io::Affine(), elements, type.narrow);
      }
      converter->convert(bytes.data(), DType::kFloat64,
                         reinterpret_cast<std::byte*>(values.data()));
      for (size_t k = 0; k < elements; ++k)
        if (!source_.is_missing(row, static_cast<int64_t>(k)))
          visit(k * channels() / elements, scale_ == 1 ? values[k] : values[k] * scale_);
    }
  }

  const SourceRows& source_;
  const RowRanges& ranges_;
  const RowSet& rows_;
  double scale_;
  Shape shape_;
};

/// The present values of a channel, in their order.
struct ChannelSummary {
  ChunkedSum sum;
  int64_t count = 0;
  double first = 0;
  bool all_equal = true;

  void add(double value) {
    if (count == 0) first = value;
    all_equal &= value == first;
    sum.add(value);
    ++count;
  }
};

std::vector<ChannelSummary> summaries_of(const plan::Column& column, const ChannelValues& values) {
  std::vector<ChannelSummary> channels(values.channels());
  values.each([&](size_t channel, double value) { channels[channel].add(value); });
  for (const ChannelSummary& channel : channels)
    if (channel.count == 0)
      throw RunError(fmt::format("column `{}` has no value to learn from", column.name),
                     "write the number, or correct the data");
  return channels;
}

std::vector<double> means_of(const std::vector<ChannelSummary>& channels) {
  std::vector<double> means;
  for (const ChannelSummary& channel : channels)
    means.push_back(channel.sum.total() / static_cast<double>(channel.count));
  return means;
}

std::vector<double> deviations_of(const plan::Column& column, const ChannelValues& values,
                                  const std::vector<double>& means,
                                  const std::vector<ChannelSummary>& channels,
                                  std::vector<std::string>& remarks) {
  std::vector<ChunkedSum> sums(values.channels());
  values.each([&](size_t channel, double value) {
    const double distance = value - means[channel];
    sums[channel].add(distance * distance);
  });
  std::vector<double> deviations;
  for (size_t i = 0; i < sums.size(); ++i) {
    deviations.push_back(std::sqrt(sums[i].total() / static_cast<double>(channels[i].count)));
    // The mean of equal values is rounded, so their deviation may be tiny instead of 0.
    if (!channels[i].all_equal && deviations.back() != 0) continue;
    deviations.back() = 1;
    remarks.push_back(fmt::format(
        "{}: all values of column `{}`{} are equal; its standard deviation is taken as 1",
        column.where, column.name, sums.size() > 1 ? fmt::format(" in channel {}", i) : ""));
  }
  return deviations;
}

}  // namespace

bool needs_learning(const plan::Column& column) {
  return column.mean.learn || column.std.learn || learns_fill(column) || learns_categories(column);
}

std::string learned_name(const plan::Dataset& dataset, const plan::Column& column) {
  return column.learned_from.empty() ? dataset.name + "." + column.name : column.learned_from;
}

LearnedColumn learn(const plan::Column& column, const SourceRows& source, const RowRanges& ranges,
                    const RowSet& rows, std::vector<std::string>& remarks) {
  LearnedColumn learned;
  if (column.mean.learn || column.std.learn) {
    const ChannelValues values(column, source, ranges, rows);
    const std::vector<ChannelSummary> channels = summaries_of(column, values);
    const std::vector<double> means = means_of(channels);
    if (column.mean.learn) learned.mean = means;
    if (column.std.learn) learned.std = deviations_of(column, values, means, channels, remarks);
  }
  if (learns_fill(column) || learns_categories(column)) {
    std::vector<int64_t> source_rows;
    source_rows.reserve(static_cast<size_t>(rows.size()));
    for (int64_t i = 0; i < rows.size(); ++i) source_rows.push_back(ranges[rows[i]]);
    source.learn(source_rows, learned);
  }
  return learned;
}

void require_learned(const plan::Column& column, const std::string& name,
                     const LearnedColumn& values) {
  const auto require = [&](bool needed, bool present, std::string_view what) {
    if (!needed || present) return;
    throw RequestError(fmt::format("{}: column `{}` needs the {} that a train job learned as `{}`",
                                   column.where, column.name, what, name),
                       "load a checkpoint of that job: `--load DIRECTORY`");
  };
  require(column.mean.learn, values.mean.has_value(), "mean");
  require(column.std.learn, values.std.has_value(), "standard deviation");
  require(learns_fill(column), values.fill.has_value(), "replacement of missing values");
  require(learns_categories(column), values.categories.has_value(), "categories");
}

}  // namespace flow::data
