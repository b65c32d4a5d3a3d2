// Writes samples as PNG and text files.
#include "runtime/data/summary/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/data/dataset/dataset.h"
#include "runtime/data/dataset/learning.h"
#include "runtime/data/image/encode.h"
#include "runtime/data/text/token_rows.h"

namespace flow::data {
namespace {

fs::path sample_path(const fs::path& folder, int64_t row, const char* extension) {
  make_folders(folder);
  return folder / fmt::format("{:06}{}", row, extension);
}

/// Copies values to the samples of an image.
template <typename Sample>
void store(std::span<const double> values, Image& image) {
  static constexpr double kLargest = std::numeric_limits<Sample>::max();
  std::ranges::transform(values, image.samples<Sample>().begin(), [](double value) {
    return static_cast<Sample>(std::clamp(std::nearbyint(value), 0.0, kLargest));
  });
}

bool has_image_extents(const Shape& row) {
  const int rank = row.rank();
  const bool channels = rank == 2 || (rank == 3 && (row[0] == 1 || row[0] == 3 || row[0] == 4));
  const auto fits = [&](int axis) { return row[axis] > 0 && row[axis] <= 1'000'000; };
  return channels && fits(rank - 2) && fits(rank - 1);
}

/// The columns of a dataset or part that a job reads.
struct ReadPart {
  std::string part;
  std::vector<std::string> columns;
};

std::vector<ReadPart> parts_read(const plan::Job& job, const std::string& dataset) {
  std::vector<ReadPart> parts;
  for (const plan::Input& input : job.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    if (!from || from->dataset != dataset) continue;
    auto found = std::ranges::find(parts, from->part, &ReadPart::part);
    if (found == parts.end()) found = parts.insert(found, {from->part, {}});
    if (std::ranges::count(found->columns, from->column) == 0)
      found->columns.push_back(from->column);
  }
  return parts;
}

/// Returns a dataset whose rows are not normalized.
plan::Dataset without_normalization(plan::Dataset dataset) {
  for (plan::Column& column : dataset.columns) {
    column.scale = 1;
    column.mean = column.std = {};
  }
  return dataset;
}

std::vector<int64_t> first_rows(int64_t count) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < count; ++row) rows.push_back(row);
  return rows;
}

/// Writes the rows of one column. Returns the number of files.
int64_t write_column(const JobSamples& samples, const plan::Column& plan, Dataset& dataset,
                     const LearnedColumn& learned, const fs::path& folder) {
  Column& column = dataset.column(plan.name);
  const bool is_text = is_shown_as_text(plan);
  if (!is_text && !is_shown_as_image(plan, column.row_shape(), column.element().dtype)) return 0;
  const std::vector<int64_t> rows = first_rows(std::min(samples.count, dataset.rows()));
  const auto elements = static_cast<size_t>(column.row_shape().elements());
  std::vector<double> values(elements * rows.size());
  column.read(BatchRows{rows, samples.epoch}, DType::kFloat64,
              std::as_writable_bytes(std::span(values)));
  std::optional<TextDecoder> decoder;
  if (is_text) decoder.emplace(plan, learned, samples.root);
  for (const int64_t row : rows) {
    const auto of_row = std::span(values).subspan(static_cast<size_t>(row) * elements, elements);
    if (is_text)
      write_text_sample(folder, row, decoder->text(of_row));
    else
      write_image_sample(folder, row, column.row_shape(), plan.image ? plan.image->bits : 8,
                         of_row);
  }
  return static_cast<int64_t>(rows.size());
}

}  // namespace

bool is_shown_as_image(const plan::Column& column, const Shape& row, DType dtype) {
  const bool takes_class = column.image && column.image->take == plan::ImageFormat::Take::kClass;
  return !takes_class && !column.window && has_image_extents(row) &&
         (column.image.has_value() || dtype == DType::kUInt8);
}

void write_image_sample(const fs::path& folder, int64_t row, const Shape& shape, int64_t bits,
                        std::span<const double> values) {
  const int rank = shape.rank();
  Image image;
  image.reshape(rank == 3 ? shape[0] : 1, shape[rank - 2], shape[rank - 1], static_cast<int>(bits));
  if (bits == 16)
    store<uint16_t>(values, image);
  else
    store<uint8_t>(values, image);
  const std::vector<std::byte> png = encode_png(image);
  write_text_atomically(sample_path(folder, row, ".png"),
                        {reinterpret_cast<const char*>(png.data()), png.size()});
}

bool is_shown_as_text(const plan::Column& column) {
  return column.text && column.text->take == plan::TextFormat::Take::kIds;
}

TextDecoder::TextDecoder(const plan::Column& column, const LearnedColumn& learned,
                         const fs::path& root)
    : format_(*column.text), is_padded_(!column.window) {
  std::optional<std::u32string> characters;
  if (learned.categories) characters = characters_of(*learned.categories);
  tokenizer_ = open_tokenizer(format_.tokenizer, column.cell->unknown, characters, root);
}

std::string TextDecoder::text(std::span<const double> values) const {
  std::vector<int64_t> ids;
  for (const double value : values) ids.push_back(static_cast<int64_t>(value));
  const auto is_pad = [&](int64_t id) { return is_padded_ && id == format_.pad; };
  if (format_.pad_side == plan::TextFormat::Side::kRight)
    ids.erase(std::find_if_not(ids.rbegin(), ids.rend(), is_pad).base(), ids.end());
  else
    ids.erase(ids.begin(), std::ranges::find_if_not(ids, is_pad));
  return tokenizer_->decode(ids);
}

void write_text_sample(const fs::path& folder, int64_t row, const std::string& text) {
  write_text_atomically(sample_path(folder, row, ".txt"), text);
}

int64_t write_job_samples(const JobSamples& samples, DecodePool& pool) {
  int64_t files = 0;
  for (const ReadPart& read : parts_read(samples.job, samples.dataset)) {
    plan::Dataset plan = without_normalization(
        *std::ranges::find(samples.job.datasets, samples.dataset, &plan::Dataset::name));
    if (samples.skips_bad_rows) plan.on_bad_row = plan::Dataset::OnBadRow::kSkip;
    plan.max_bad_rows.reset();
    Dataset dataset(
        {.dataset = &plan,
         .part = read.part,
         .columns = read.columns,
         .root = samples.root,
         .learned = nullptr,
         .may_learn = true,
         .options = {
             .seed = samples.job.seed, .draws = {}, .training = samples.job.train, .pool = &pool}});
    for (const plan::Column& column : plan.columns) {
      if (std::ranges::count(read.columns, column.name) == 0) continue;
      const auto learned = dataset.learned().find(learned_name(plan, column));
      files += write_column(samples, column, dataset,
                            learned == dataset.learned().end() ? LearnedColumn() : learned->second,
                            samples.folder / read.part / column.name);
    }
  }
  return files;
}

}  // namespace flow::data
