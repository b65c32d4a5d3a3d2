// Inputs that are the same each step, and those read from an .npy: whole, or a slice a step.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/base/error.h"
#include "runtime/exec/core/rounding.h"
#include "runtime/exec/input/nonfinite.h"
#include "runtime/exec/input/source.h"
#include "runtime/io/dataset.h"
#include "runtime/io/finite.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

class FixedSource : public Source {
 public:
  FixedSource(Array array, std::string nonfinite)
      : array_(std::move(array)), nonfinite_(std::move(nonfinite)) {}
  bool fill(const Reading&, std::span<std::byte> out) override {
    std::ranges::copy(array_.bytes(), out.begin());
    return true;
  }
  bool varies() const override { return false; }
  std::string nonfinite() override { return nonfinite_; }

 private:
  Array array_;
  std::string nonfinite_;
};

class SlicedArray : public Source {
 public:
  SlicedArray(std::unique_ptr<io::ColumnReader> reader, DType dtype, fs::path path)
      : reader_(std::move(reader)), dtype_(dtype), path_(std::move(path)) {}
  bool fill(const Reading& reading, std::span<std::byte> out) override {
    // A job that is called again and again begins anew where the array ends.
    const std::array<int64_t, 1> slice = {reading.step % reader_->rows()};
    reader_->read(slice, dtype_, out);
    return true;
  }
  std::optional<int64_t> slices() const override { return reader_->rows(); }
  std::string nonfinite() override {
    const io::Nonfinite found = reader_->nonfinite();
    if (found.count == 0) return {};
    return io::nonfinite_text(found.count, path_, fmt::format("in row {}", found.row));
  }

 private:
  std::unique_ptr<io::ColumnReader> reader_;
  DType dtype_;
  fs::path path_;
};

std::string nonfinite_in(const Array& array, const fs::path& path) {
  if (!is_float(array.dtype())) return {};
  const int64_t count = io::count_nonfinite(array.dtype(), false, array.bytes());
  if (count == 0) return {};
  const std::string first = *first_nonfinite(array.view());  // "nan at [3, 0]"
  return io::nonfinite_text(count, path, first.substr(first.find(' ') + 1));
}

Shape shape_of_file(const fs::path& path, const InputSpec& input) {
  try {
    const MappedFile file(path);
    return io::parse_npy_header(file.bytes(), path.string()).shape;
  } catch (const RunError& error) {
    throw error.at(input.where);
  }
}

/// A column whose rows are the slices.
std::unique_ptr<io::ColumnReader> open_slices(const fs::path& path, const InputSpec& input) {
  plan::Column column;
  column.name = input.name;
  column.format = "npy";
  column.path = path.string();
  column.row_shape = input.shape;
  column.where = input.where;
  return io::ColumnReader::open(column, {});
}

}  // namespace

std::unique_ptr<Source> make_fixed_source(Array value, std::string nonfinite) {
  return std::make_unique<FixedSource>(std::move(value), std::move(nonfinite));
}

std::unique_ptr<Source> make_array_source(const fs::path& path, const InputSpec& input) {
  if (is_stream(path)) return make_stream_source(path, input);
  const Shape found = shape_of_file(path, input);
  if (found == input.shape) {
    const Array array = io::read_npy(path);
    return make_fixed_source(convert(array, input.dtype, path.string()), nonfinite_in(array, path));
  }
  const bool sliced = found.rank() == input.shape.rank() + 1 &&
                      std::equal(input.shape.begin(), input.shape.end(), found.begin() + 1);
  if (!sliced)
    throw RequestError(fmt::format("{}: {} is {}, but input `{}` is {}", input.where, path.string(),
                                   found.str(), input.name, input.shape.str()),
                       "use the input's shape, change it with --set, or add a leading axis with "
                       "one slice per step");
  if (found[0] == 0)
    throw RequestError(fmt::format("{}: {} is {}, without slices for input `{}`", input.where,
                                   path.string(), found.str(), input.name));
  return std::make_unique<SlicedArray>(open_slices(path, input), input.dtype, path);
}

}  // namespace flow::exec
