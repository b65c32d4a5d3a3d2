// Validates products on operands with known results: ones and twos in general, zeros if a mask is
// stored, NaN if a relu follows, and signs if one product reads the mask of another.
#include "runtime/cuda/libraries/validate_epilogues.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {
namespace {

std::vector<std::byte> filled(DType dtype, size_t bytes, float value) {
  std::vector<std::byte> made(bytes);
  visit_any_float(dtype, [&]<typename T>(T) {
    std::fill_n(reinterpret_cast<T*>(made.data()), bytes / sizeof(T), convert<T>(value));
  });
  return made;
}

/// Returns true if each element equals value(index). NaN equals NaN.
template <typename Value>
bool are(std::span<const std::byte> found, DType dtype, Value value) {
  return visit_float(dtype, [&]<typename T>(T) {
    const auto* elements = reinterpret_cast<const T*>(found.data());
    for (size_t i = 0; i < found.size() / sizeof(T); ++i) {
      const double expected = value(i);
      if (elements[i] != expected && !(std::isnan(expected) && std::isnan(elements[i])))
        return false;
    }
    return true;
  });
}

/// Returns 1 or -1 for the index of a row (kind 0) or a column (kind 1). Shifting or exchanging
/// bits does not reproduce the pattern.
float sign_of(int64_t index, uint64_t kind) {
  uint64_t bits = (static_cast<uint64_t>(index) << 1 | kind) * 0x9E3779B97F4A7C15;
  bits ^= bits >> 29;
  return (bits * 0xBF58476D1CE4E5B9) >> 63 ? 1 : -1;
}
float sign_of_row(int64_t row) { return sign_of(row, 0); }
float sign_of_column(int64_t column) { return sign_of(column, 1); }

/// Returns a matrix of `shape` in which each element is sign(row) if `by_row` is set, and
/// sign(column) otherwise.
std::vector<std::byte> signs(DType dtype, size_t bytes, const Shape& shape, bool by_row,
                             float (*sign)(int64_t)) {
  std::vector<std::byte> made(bytes);
  visit_any_float(dtype, [&]<typename T>(T) {
    auto* elements = reinterpret_cast<T*>(made.data());
    for (int64_t i = 0; i < shape.elements(); ++i)
      elements[i] = convert<T>(sign(by_row ? i / shape[1] : i % shape[1]));
  });
  return made;
}

size_t aside_bytes(const MatmulSpec& spec) {
  if (spec.aside == Aside::kNothing) return 0;
  if (has_mask(spec)) return static_cast<size_t>(mask_shape(spec.out).elements());
  return bytes_of(Shape{spec.out[spec.aside == Aside::kSumsOfA ? 0 : 1]}, sum_of(spec.dtype));
}

/// The operands and results of a product in device memory, and the results of its last run.
class Validation {
 public:
  Validation(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver)
      : kernel_(kernel),
        spec_(spec),
        driver_(driver),
        stream_(driver, driver.create_stream()),
        out_bytes_(bytes_of(spec.out, sum_of(spec.dtype))),
        a_bytes_(bytes_of(spec.a, spec.dtype)),
        b_bytes_(bytes_of(spec.b, spec.dtype)),
        bias_bytes_(
            spec.epilogue.bias ? bytes_of({spec.out[spec.out.rank() - 1]}, sum_of(spec.dtype)) : 0),
        made_(out_bytes_),
        left_(aside_bytes(spec)),
        bytes_(aligned(a_bytes_) + aligned(b_bytes_) + aligned(out_bytes_) + aligned(left_.size()) +
               aligned(bias_bytes_)),
        memory_(driver, driver.allocate(bytes_ + kernel.workspace)) {
    driver.clear(memory_.get(), bytes_, stream_.get());
  }

  const std::vector<std::byte>& left() const { return left_; }
  bool makes(double value) const {
    return are(made_, sum_of(spec_.dtype), [=](size_t) { return value; });
  }
  bool leaves(double value) const {
    return are(left_, sum_of(spec_.dtype), [=](size_t) { return value; });
  }
  /// Returns true if the result is `value` where the signs of row and column are equal, and 0
  /// elsewhere.
  bool makes_pattern(double value) const {
    const int64_t columns = spec_.out[1];
    return are(made_, sum_of(spec_.dtype), [=](size_t i) {
      const auto index = static_cast<int64_t>(i);
      return sign_of_row(index / columns) == sign_of_column(index % columns) ? value : 0;
    });
  }

  /// Fills the operands with `a` and `b`, and the bias with `a`.
  void fill(float a, float b) {
    write(0, filled(spec_.dtype, a_bytes_, a));
    write(aligned(a_bytes_), filled(spec_.dtype, b_bytes_, b));
    if (bias_bytes_ > 0) write(bias_at(), filled(sum_of(spec_.dtype), bias_bytes_, a));
  }
  /// Fills the operands so that the product is positive where the signs of row and column are
  /// equal, and negative elsewhere.
  void fill_signs() {
    write(0, signs(spec_.dtype, a_bytes_, spec_.a, !spec_.transpose_a, sign_of_row));
    write(aligned(a_bytes_),
          signs(spec_.dtype, b_bytes_, spec_.b, spec_.transpose_b, sign_of_column));
    if (bias_bytes_ > 0) write(bias_at(), filled(sum_of(spec_.dtype), bias_bytes_, 0));
  }
  void fill_aside(const std::vector<std::byte>& bytes) { write(aside_at(), bytes); }

  /// Runs the product. Returns false if the library refuses the kernel after all.
  bool run() {
    std::byte *const a = memory_.get(), *const out = a + out_at();
    const LibraryBuffers buffers{.first = a,
                                 .second = a + aligned(a_bytes_),
                                 .bias = bias_bytes_ > 0 ? a + bias_at() : nullptr,
                                 .out = out,
                                 .workspace = a + bytes_,
                                 .aside = left_.empty() ? nullptr : a + aside_at()};
    if (kernel_.try_run(buffers, stream_.get())) return false;
    driver_.copy(made_.data(), out, made_.size(), stream_.get());
    if (!left_.empty()) driver_.copy(left_.data(), a + aside_at(), left_.size(), stream_.get());
    driver_.synchronize(stream_.get());
    return true;
  }

 private:
  // The memory contains A, B, the result, the aside, a bias and a workspace, in this order.
  size_t out_at() const { return aligned(a_bytes_) + aligned(b_bytes_); }
  size_t aside_at() const { return out_at() + aligned(out_bytes_); }
  size_t bias_at() const { return aside_at() + aligned(left_.size()); }

  void write(size_t at, const std::vector<std::byte>& from) {
    driver_.copy(memory_.get() + at, from.data(), from.size(), stream_.get());
    driver_.synchronize(stream_.get());
  }

  const LibraryKernel& kernel_;
  const MatmulSpec& spec_;
  Driver& driver_;
  const OwnedStream stream_;
  const size_t out_bytes_, a_bytes_, b_bytes_, bias_bytes_;
  std::vector<std::byte> made_, left_;
  const size_t bytes_;
  const DeviceBytes memory_;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// First nothing is positive, so the mask must have no bits. Then everything is positive, and NaN
/// must give the same mask.
bool stores_right_mask(Validation& validation) {
  const auto no_bit = [](std::byte byte) { return byte == std::byte{0}; };
  if (!validation.run() || !validation.makes(0) || !std::ranges::all_of(validation.left(), no_bit))
    return false;
  validation.fill(1, 2);
  if (!validation.run()) return false;
  const std::vector<std::byte> positive = validation.left();
  validation.fill(kNan, 2);
  return validation.run() && validation.makes(kNan) && validation.left() == positive;
}

/// A mask without bits must let nothing pass, and one with all bits must let everything pass.
bool reads_mask_right(Validation& validation, double product) {
  validation.fill(1, 2);
  if (!validation.run() || !validation.makes(0)) return false;
  validation.fill_aside(std::vector<std::byte>(validation.left().size(), std::byte{0xFF}));
  return validation.run() && validation.makes(product);
}

}  // namespace

bool reads_mask_of(const Product& reader, const Product& writer, Driver& driver) {
  FLOW_CHECK(writer.spec.aside == Aside::kStoreMask && reader.spec.aside == Aside::kReadMask);
  FLOW_CHECK(writer.spec.out == reader.spec.out);
  const auto terms = [](const MatmulSpec& spec) {
    return static_cast<double>(spec.a[spec.transpose_a ? 0 : 1]);
  };
  Validation writing(writer.kernel, writer.spec, driver);
  writing.fill_signs();
  if (!writing.run() || !writing.makes_pattern(terms(writer.spec))) return false;
  Validation reading(reader.kernel, reader.spec, driver);
  reading.fill(1, 2);
  reading.fill_aside(writing.left());
  return reading.run() && reading.makes_pattern(2 * terms(reader.spec));
}

bool passes_validation(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver) {
  Validation validation(kernel, spec, driver);
  const auto terms = static_cast<double>(spec.a[spec.transpose_a ? 0 : 1]);
  switch (spec.aside) {
    case Aside::kNothing:
      validation.fill(kNan, 2);
      return validation.run() && validation.makes(kNan);
    case Aside::kStoreMask:
      return stores_right_mask(validation);
    case Aside::kReadMask:
      return reads_mask_right(validation, 2 * terms);
    case Aside::kSumsOfA:
    case Aside::kSumsOfB:
      validation.fill(1, 2);
      return validation.run() && validation.makes(2 * terms) &&
             validation.leaves(spec.aside == Aside::kSumsOfA ? terms : 2 * terms);
  }
  return false;
}

}  // namespace flow::cuda
