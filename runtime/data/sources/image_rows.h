// Images that are decoded when their rows are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/image/decode.h"
#include "runtime/data/image/fit.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// The encoded images of a column.
class ImageFiles {
 public:
  virtual ~ImageFiles() = default;
  virtual int64_t rows() const = 0;
  /// Returns the bytes of an image, in `memory` if they are not in a map. Throws BadRowError if
  /// there is no image.
  virtual std::span<const std::byte> bytes(int64_t row, std::vector<std::byte>& memory) const = 0;
  /// The path of an image, which begins its messages.
  virtual std::string row_text(int64_t row) const = 0;
  virtual std::vector<int64_t> file_starts() const { return {0}; }
  /// The files of the images, if another file names them.
  virtual std::vector<fs::path> row_files() const { return {}; }
  virtual std::vector<int64_t> bad_rows() const { return {}; }
  virtual RunError bad_row(int64_t row) const { return RunError(row_text(row)); }
  virtual void recovering(const std::function<void()>& read) const { read(); }
};

/// Decodes images and fits them to the size of their column.
class ImageRows : public SourceRows {
 public:
  ImageRows(const plan::ImageFormat& format, std::unique_ptr<ImageFiles> files);

  int64_t rows() const override { return files_->rows(); }
  StoredElement element() const override;
  int64_t row_elements() const override { return 0; }
  std::string row_text(int64_t row) const override { return files_->row_text(row); }
  std::vector<int64_t> file_starts() const override { return files_->file_starts(); }
  std::vector<fs::path> row_files() const override { return files_->row_files(); }
  std::vector<int64_t> bad_rows() const override { return files_->bad_rows(); }
  RunError bad_row(int64_t row) const override;
  bool is_decoded() const override { return true; }
  void recovering(const std::function<void()>& read) const override { files_->recovering(read); }
  std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                  Scratch& scratch) const override;
  std::optional<ImageSize> stored_size(int64_t row, Scratch& scratch) const override;

 private:
  DecodeOptions options_;
  std::optional<Fit> fit_;
  std::unique_ptr<ImageFiles> files_;
};

/// Reads the file of an image into `memory`. Throws BadRowError that begins with `name` if the file
/// is missing, is not a regular file or cannot be read.
std::span<const std::byte> read_image_file(const fs::path& path, const std::string& name,
                                           std::vector<std::byte>& memory);

/// Returns how an image format decodes files, and how it fits them to a size, if it has one.
DecodeOptions decode_options(const plan::ImageFormat& format);
std::optional<Fit> fit_of(const plan::ImageFormat& format);

}  // namespace flow::data
