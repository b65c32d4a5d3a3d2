// The arithmetic of epochs and batches. Also the inputs that are made from the seed and the step,
// those that are the same in each step, and those that are read from an .npy file, either whole or
// one slice per step.
#include "runtime/exec/input/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/data/dataset/column.h"
#include "runtime/exec/core/state.h"
#include "runtime/io/convert.h"
#include "runtime/io/npy.h"
#include "runtime/plan/model/generators.h"

namespace flow::exec {
namespace {

namespace generators = plan::generators;

/// Values that are drawn again in each step.
template <typename From>
class RandomSource : public Source {
 public:
  RandomSource(From from, InputSpec input, uint64_t seed)
      : from_(from),
        input_(std::move(input)),
        seed_(seed),
        values_(static_cast<size_t>(input_.shape.elements())),
        integers_(std::is_same_v<From, generators::Integers> ? values_.size() : 0) {}

  bool fill(const Reading& reading, std::span<std::byte> out) override {
    draw_values(from_, {seed_, input_.name, static_cast<uint32_t>(reading.step)});
    round_to(values_, input_.dtype, out);
    return true;
  }

 private:
  void draw_values(const generators::Uniform& from, const Draw& draw) {
    draw_uniform(draw, from.low, from.high, values_.data(), count());
  }

  void draw_values(const generators::Normal& from, const Draw& draw) {
    draw_normal(draw, values_.data(), count());
    for (double& value : values_) value = from.mean + from.stddev * value;
  }

  void draw_values(const generators::Integers& from, const Draw& draw) {
    draw_integers(draw, static_cast<int64_t>(from.low), static_cast<int64_t>(from.high),
                  integers_.data(), count());
    std::ranges::copy(integers_, values_.begin());
  }

  int64_t count() const { return static_cast<int64_t>(values_.size()); }

  From from_;
  InputSpec input_;
  uint64_t seed_;
  std::vector<double> values_;
  std::vector<int64_t> integers_;
};

/// Makes the source of a generator, depending on its type.
struct SourceMaker {
  const InputSpec& input;
  uint64_t seed;

  std::unique_ptr<Source> operator()(const generators::Constant& from) const {
    return fixed(std::vector<double>(count(), from.value));
  }

  std::unique_ptr<Source> operator()(const generators::Iota&) const {
    std::vector<double> values(count());
    std::iota(values.begin(), values.end(), 0.0);
    return fixed(values);
  }

  template <typename From>
  std::unique_ptr<Source> operator()(const From& from) const {
    return std::make_unique<RandomSource<From>>(from, input, seed);
  }

  size_t count() const { return static_cast<size_t>(input.shape.elements()); }

  std::unique_ptr<Source> fixed(const std::vector<double>& values) const {
    Array value(input.dtype, input.shape);
    round_to(values, input.dtype, value.bytes());
    return make_fixed_source(std::move(value));
  }
};

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
  SlicedArray(std::unique_ptr<data::Column> reader, DType dtype, fs::path path)
      : reader_(std::move(reader)), dtype_(dtype), path_(std::move(path)) {}
  bool fill(const Reading& reading, std::span<std::byte> out) override {
    // A job that is called repeatedly starts again at the end of the array.
    const std::array<int64_t, 1> slice = {reading.step % reader_->rows()};
    reader_->read(slice, dtype_, out);
    return true;
  }
  std::optional<int64_t> slices() const override { return reader_->rows(); }
  std::string nonfinite() override {
    const data::Nonfinite found = reader_->nonfinite();
    if (found.count == 0) return {};
    return io::nonfinite_text(found.count, path_, fmt::format("in row {}", found.row));
  }

 private:
  std::unique_ptr<data::Column> reader_;
  DType dtype_;
  fs::path path_;
};

std::string nonfinite_in(const Array& array, const fs::path& path) {
  if (!is_float(array.dtype())) return {};
  const int64_t count = io::count_nonfinite(array.dtype(), false, array.bytes());
  if (count == 0) return {};
  const std::string first = *first_nonfinite(array.view());  // for example "nan at [3, 0]"
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

/// Opens a column whose rows are the slices of the array.
std::unique_ptr<data::Column> open_slices(const fs::path& path, const InputSpec& input) {
  plan::Column column;
  column.name = input.name;
  column.source = plan::SourceKind::kNpy;
  column.files = {path.string()};
  column.row_shape = input.shape;
  column.where = input.where;
  return data::Column::open(column, {});
}

}  // namespace

StepIndex::StepIndex(int64_t rows, int64_t batch, bool drop_incomplete)
    : rows_(rows), batch_(batch), drop_incomplete_(drop_incomplete) {
  FLOW_CHECK(rows >= 0 && batch > 0, "{} rows, batch {}", rows, batch);
  steps_per_epoch_ = rows / batch + (!drop_incomplete && rows % batch != 0 ? 1 : 0);
}

Position StepIndex::at(int64_t step) const {
  if (!has_rows()) return {};
  const int64_t in_epoch = step % steps_per_epoch_;
  const int64_t row = in_epoch * batch_;
  return {step / steps_per_epoch_, row, std::min(batch_, rows_ - row),
          in_epoch + 1 == steps_per_epoch_};
}

int64_t StepIndex::epochs_after(int64_t steps) const {
  return has_rows() && steps_per_epoch_ > 0 ? steps / steps_per_epoch_ : 0;
}

int64_t steps_of_epochs(int64_t epochs, int64_t steps_per_epoch) {
  int64_t steps = 0;
  if (__builtin_mul_overflow(epochs, steps_per_epoch, &steps))
    return std::numeric_limits<int64_t>::max();
  return steps;
}

int64_t Period::count(const StepIndex& index, int64_t after) const {
  return steps > 0 ? after / steps : index.epochs_after(after) / epochs;
}

int64_t Period::next_end(const StepIndex& index, int64_t after) const {
  const int64_t every = steps > 0 ? steps : steps_of_epochs(epochs, index.steps_per_epoch());
  int64_t end = 0;
  if (__builtin_mul_overflow(after / every + 1, every, &end))
    return std::numeric_limits<int64_t>::max();
  return end;
}

std::unique_ptr<Source> make_generator(const plan::FromGenerator& from, const InputSpec& input,
                                       uint64_t seed) {
  const auto faults = plan::faults_of(from, input.dtype, input.shape);
  if (!faults.empty())
    throw RequestError(
        fmt::format("{}: input `{}`: {}", input.where, input.name, faults.front().message),
        faults.front().hint);
  return std::visit(SourceMaker{input, seed}, from);
}

plan::InputSource parse_input_source(const std::string& name, const std::string& text) {
  if (text == "@-") return plan::FromNpy{"/dev/stdin"};
  if (text.starts_with('@') && text.size() > 1) return plan::FromNpy{text.substr(1)};
  const std::vector<std::string> parts = split(text, ':');
  const auto fail = [&](const std::string& what) {
    throw RequestError(fmt::format("--input {}={}: {}", name, text, what),
                       "use @FILE.npy, random_uniform:LOW:HIGH, random_normal:MEAN:STDDEV, "
                       "random_int:LOW:HIGH, constant:VALUE or iota");
  };
  const auto number = [&](const std::string& part) {
    double value = 0;
    const char* end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data(), end, value);
    if (error != std::errc() || rest != end) fail(fmt::format("`{}` is not a number", part));
    return value;
  };
  plan::FromGenerator from;
  if (!plan::set_type(from, parts.front())) fail(fmt::format("unknown source `{}`", parts.front()));
  const auto set_numbers = [&]<typename T>(T& record) {
    constexpr size_t kCount = std::tuple_size_v<decltype(T::record().fields)>;
    if (parts.size() != kCount + 1)
      fail(fmt::format("{} takes {} numbers; found {}", parts.front(), kCount, parts.size() - 1));
    size_t i = 0;
    plan::for_each_field<T>([&](const auto& field) { record.*field.member = number(parts[++i]); });
  };
  std::visit(set_numbers, from);
  return from;
}

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
