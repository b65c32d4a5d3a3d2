// Samples of a dataset as files that people can open: images as PNG, texts as text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/data/dataset/decode_pool.h"
#include "runtime/data/image/image.h"
#include "runtime/data/sources/learned.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/plan/model/plan.h"

namespace flow::data {

/// Returns true if the rows of a column are shown as images: it is a column of images, or of arrays
/// of uint8 whose rows are [height, width] or [channels, height, width] with 1, 3 or 4 channels.
bool is_shown_as_image(const plan::Column& column, const Shape& row, DType dtype);

/// Writes FOLDER/000012.png for row 12. `values` are samples of `shape`, which
/// is_shown_as_image() accepts; they are rounded and limited to the range of `bits` bits. Throws
/// RunError if the file cannot be written.
void write_image_sample(const fs::path& folder, int64_t row, const Shape& shape, int64_t bits,
                        std::span<const double> values);

/// Returns true if the rows of a column are ids of tokens.
bool is_shown_as_text(const plan::Column& column);

/// Converts the rows of a column of texts back to texts.
class TextDecoder {
 public:
  /// `learned` has the characters, if the column learns them. Throws RunError as open_tokenizer().
  TextDecoder(const plan::Column& column, const LearnedColumn& learned, const fs::path& root);
  /// Returns the text of ids, without those that fill the row.
  std::string text(std::span<const double> ids) const;

 private:
  plan::TextFormat format_;
  bool is_padded_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

/// Writes FOLDER/000012.txt for row 12. Throws RunError if the file cannot be written.
void write_text_sample(const fs::path& folder, int64_t row, const std::string& text);

/// Which rows of a job are written as samples.
struct JobSamples {
  const plan::Job& job;
  std::string dataset;
  int64_t count = 0;
  uint32_t epoch = 0;
  fs::path root, folder;
  bool skips_bad_rows = false;  // whatever the dataset says
};

/// Writes the first rows of a dataset as the inputs of a job read them, augmented but not
/// normalized, as FOLDER/COLUMN/000000.png or .txt; those of a part go to FOLDER/PART/COLUMN.
/// Returns the number of files. Throws RunError as Dataset, and if a file cannot be written.
int64_t write_job_samples(const JobSamples& samples, DecodePool& pool);

}  // namespace flow::data
