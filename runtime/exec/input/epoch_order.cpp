// Draws the order of an epoch.
#include "runtime/exec/input/epoch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::exec {
namespace {

/// Calls visit(row, elements) for each row of a column.
template <typename Visit>
void visit_rows(data::Column& column, const Visit& visit) {
  std::vector<double> row(static_cast<size_t>(column.row_shape().elements()));
  for (int64_t i = 0; i < column.rows(); ++i) {
    column.read(std::span(&i, 1), DType::kFloat64, std::as_writable_bytes(std::span(row)));
    visit(i, row);
  }
}

std::vector<double> scalar_weights(data::Column& column) {
  if (column.row_shape().elements() != 1)
    throw RequestError(fmt::format("{}: the weights have rows of shape {}; expected one number",
                                   column.where(), column.row_shape().str()));
  std::vector<double> weights;
  visit_rows(column, [&](int64_t, const auto& row) { weights.push_back(row.front()); });
  return weights;
}

/// Returns the classes of rows that have one number, or the index of the largest element of rows
/// that have several, which is the class of a one-hot row.
std::vector<int64_t> classes_of(data::Column& column) {
  constexpr double kMost = 0x1p53;
  std::vector<int64_t> classes;
  visit_rows(column, [&](int64_t i, const auto& row) {
    if (row.size() > 1) return classes.push_back(std::ranges::max_element(row) - row.begin());
    if (!(std::abs(row.front()) <= kMost) || row.front() != std::trunc(row.front()))
      throw RunError(fmt::format("{}: {} contains {}; expected the number of a class",
                                 column.where(), column.row_text(i), shortest(row.front())),
                     "balance by a column of categories or integers");
    classes.push_back(static_cast<int64_t>(row.front()));
  });
  return classes;
}

}  // namespace

EpochOrder::EpochOrder(const plan::Run& run, data::Dataset& dataset, uint64_t seed,
                       const std::string& draws, data::Dataset* weights)
    : run_(run),
      seed_(seed),
      name_(draws + dataset.name()),
      rows_(dataset.rows()),
      dataset_rows_(dataset.rows()),
      file_rows_(dataset.rows_of_files()) {
  if (run.shuffle || run.shuffle_buffer) order_.resize(static_cast<size_t>(rows_));
  if (!run.sampling) return;
  const plan::Sampling& sampling = *run.sampling;
  if (sampling.epoch_rows > 0) rows_ = sampling.epoch_rows;
  order_.resize(static_cast<size_t>(rows_));
  if (sampling.kind == plan::Sampling::Kind::kUniform) return;
  data::Column& column = weights->column(sampling.column);
  if (sampling.kind == plan::Sampling::Kind::kWeights)
    weighted_.emplace(scalar_weights(column), sampling.dataset + "." + sampling.column);
  else
    balanced_.emplace(classes_of(column));
}

void EpochOrder::begin(int64_t epoch) {
  if (epoch == epoch_ || order_.empty()) return;
  epoch_ = epoch;
  draw({seed_, name_, static_cast<uint32_t>(epoch)}, order_);
  if (run_.sampling) uses_ = data::earlier_uses(order_, dataset_rows_);
}

int64_t EpochOrder::row_of(int64_t epoch, int64_t position) const {
  if (order_.empty()) return position;
  std::vector<int64_t> order(order_.size());
  draw({seed_, name_, static_cast<uint32_t>(epoch)}, order);
  return order[static_cast<size_t>(position)];
}

void EpochOrder::draw(const data::EpochDraws& draws, std::span<int64_t> order) const {
  if (weighted_) return weighted_->sample(draws, order);
  if (balanced_) return balanced_->sample(draws, order);
  if (run_.sampling) return data::sample_uniform(draws, dataset_rows_, order);
  if (!run_.shuffle_buffer) return data::shuffle_rows(draws, order);
  data::shuffle_buffered(draws, run_.shuffle_buffer->buffer, run_.shuffle_buffer->files, file_rows_,
                         order);
}

}  // namespace flow::exec
