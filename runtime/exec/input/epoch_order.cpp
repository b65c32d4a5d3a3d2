// Draws the order of an epoch.
#include "runtime/exec/input/epoch_order.h"

#include <numeric>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

/// Returns all values of a column of scalars, or the index of the largest element of each row.
std::vector<double> scalars_of(data::Column& column) {
  const auto width = static_cast<size_t>(column.row_shape().elements());
  std::vector<double> row(width), values;
  for (int64_t i = 0; i < column.rows(); ++i) {
    column.read(std::span(&i, 1), DType::kFloat64, std::as_writable_bytes(std::span(row)));
    values.push_back(row.front());
  }
  return values;
}

std::vector<int64_t> classes_of(data::Column& column) {
  std::vector<int64_t> classes;
  for (const double value : scalars_of(column)) classes.push_back(static_cast<int64_t>(value));
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
    weighted_.emplace(scalars_of(column), sampling.dataset + "." + sampling.column);
  else
    balanced_.emplace(classes_of(column));
}

void EpochOrder::begin(int64_t epoch) {
  if (epoch == epoch_ || order_.empty()) return;
  epoch_ = epoch;
  draw({seed_, name_, static_cast<uint32_t>(epoch)});
  if (run_.sampling) uses_ = data::earlier_uses(order_, dataset_rows_);
}

void EpochOrder::draw(const data::EpochDraws& draws) {
  if (weighted_) return weighted_->sample(draws, order_);
  if (balanced_) return balanced_->sample(draws, order_);
  if (run_.sampling) return data::sample_uniform(draws, dataset_rows_, order_);
  if (!run_.shuffle_buffer) return data::shuffle_rows(draws, order_);
  data::shuffle_buffered(draws, run_.shuffle_buffer->buffer, run_.shuffle_buffer->files, file_rows_,
                         order_);
}

}  // namespace flow::exec
