// Finds the file and the position of each row.
#include "runtime/data/sources/array_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace flow::data {
namespace {

int64_t elements_of_row(const io::Rows& rows) { return rows.shape.elements(1, rows.shape.rank()); }

}  // namespace

ArrayRows::ArrayRows(std::vector<io::Rows> files, std::vector<std::string> names)
    : files_(std::move(files)), names_(std::move(names)) {
  FLOW_CHECK(!files_.empty() && files_.size() == names_.size());
  const io::Rows& first = files_.front();
  row_elements_ = elements_of_row(first);
  row_bytes_ = static_cast<size_t>(row_elements_) * io::stored_size(first.dtype, first.narrow);
  starts_.push_back(0);
  for (size_t i = 0; i < files_.size(); ++i) {
    const io::Rows& file = files_[i];
    if (file.dtype != first.dtype || file.narrow != first.narrow ||
        file.big_endian != first.big_endian || elements_of_row(file) != row_elements_)
      throw RunError(fmt::format("{} and {} have different types or numbers of elements in a row",
                                 names_[0], names_[i]),
                     "read them as columns of their own, or convert them");
    starts_.push_back(starts_.back() + file.shape[0]);
  }
}

StoredElement ArrayRows::element() const {
  const io::Rows& first = files_.front();
  return {first.dtype, first.narrow, first.big_endian};
}

size_t ArrayRows::file_of(int64_t row) const {
  FLOW_CHECK(row >= 0 && row < rows(), "row {} of {}", row, rows());
  const auto after = std::ranges::upper_bound(starts_, row);
  return static_cast<size_t>(after - starts_.begin()) - 1;
}

std::string ArrayRows::row_text(int64_t row) const {
  const size_t file = file_of(row);
  return fmt::format("row {} of {}", row - starts_[file], names_[file]);
}

std::vector<int64_t> ArrayRows::file_starts() const { return {starts_.begin(), starts_.end() - 1}; }

void ArrayRows::recovering(const std::function<void()>& read) const { recover_from(0, read); }

void ArrayRows::recover_from(size_t file, const std::function<void()>& read) const {
  while (file < files_.size() && !files_[file].file) ++file;
  if (file == files_.size()) return read();
  files_[file].file->recovering([&] { recover_from(file + 1, read); });
}

std::span<const std::byte> ArrayRows::in_place(int64_t row, int64_t count) const {
  const size_t file = file_of(row);
  if (count > starts_[file + 1] - row) return {};
  return files_[file].data.subspan(static_cast<size_t>(row - starts_[file]) * row_bytes_,
                                   static_cast<size_t>(count) * row_bytes_);
}

std::span<const std::byte> ArrayRows::read(int64_t row, const RowDraws&, Scratch&) const {
  return in_place(row, 1);
}

}  // namespace flow::data
