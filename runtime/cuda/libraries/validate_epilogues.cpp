// Products of ones and twos, of zeros where a mask is stored, and of NaN where a relu follows.
#include "runtime/cuda/libraries/validate_epilogues.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/convert.h"
#include "runtime/base/visit.h"
#include "runtime/cuda/program/program_memory.h"

namespace flow::cuda {
namespace {

std::vector<std::byte> filled(DType dtype, size_t bytes, float value) {
  std::vector<std::byte> made(bytes);
  visit_any_float(dtype, [&]<typename T>(T) {
    std::fill_n(reinterpret_cast<T*>(made.data()), bytes / sizeof(T), convert<T>(value));
  });
  return made;
}

bool are_all(std::span<const std::byte> found, DType dtype, double value) {
  return visit_float(dtype, [&]<typename T>(T) {
    const std::span elements(reinterpret_cast<const T*>(found.data()), found.size() / sizeof(T));
    return std::ranges::all_of(elements, [&](T element) {
      return element == value || (std::isnan(value) && std::isnan(element));
    });
  });
}

size_t aside_bytes(const MatmulSpec& spec) {
  if (spec.aside == Aside::kNothing) return 0;
  if (has_mask(spec)) return static_cast<size_t>(mask_shape(spec.out).elements());
  return bytes_of(Shape{spec.out[spec.aside == Aside::kSumsOfA ? 0 : 1]}, sum_of(spec.dtype));
}

/// A product's operands and results in device memory, and the results of its last run.
class Validation {
 public:
  Validation(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver)
      : kernel_(kernel),
        spec_(spec),
        driver_(driver),
        stream_(driver, driver.create_stream()),
        out_bytes_(bytes_of(spec.out, sum_of(spec.dtype))),
        a_bytes_(std::max(bytes_of(spec.a, spec.dtype), out_bytes_)),
        b_bytes_(bytes_of(spec.b, spec.dtype)),
        made_(out_bytes_),
        left_(aside_bytes(spec)),
        bytes_(aligned(a_bytes_) + aligned(b_bytes_) + aligned(out_bytes_) + aligned(left_.size())),
        memory_(driver, driver.allocate(bytes_ + kernel.workspace)) {
    driver.clear(memory_.get(), bytes_, stream_.get());
  }

  const std::vector<std::byte>& left() const { return left_; }
  bool makes(double value) const { return are_all(made_, sum_of(spec_.dtype), value); }
  bool leaves(double value) const { return are_all(left_, sum_of(spec_.dtype), value); }

  void fill(float a, float b) {
    write(0, filled(spec_.dtype, a_bytes_, a));
    write(aligned(a_bytes_), filled(spec_.dtype, b_bytes_, b));
  }
  void fill_aside(std::byte byte) { write(aside_at(), std::vector<std::byte>(left_.size(), byte)); }

  /// False where the library refuses what it was said to have.
  bool run() {
    std::byte *const a = memory_.get(), *const out = a + out_at();
    const LibraryBuffers buffers{.first = a,
                                 .second = a + aligned(a_bytes_),
                                 .bias = spec_.epilogue.bias ? a : nullptr,
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
  // One after another: A (which is a bias, too), B, the result, what is aside, a workspace.
  size_t out_at() const { return aligned(a_bytes_) + aligned(b_bytes_); }
  size_t aside_at() const { return out_at() + aligned(out_bytes_); }

  void write(size_t at, const std::vector<std::byte>& from) {
    driver_.copy(memory_.get() + at, from.data(), from.size(), stream_.get());
    driver_.synchronize(stream_.get());
  }

  const LibraryKernel& kernel_;
  const MatmulSpec& spec_;
  Driver& driver_;
  const OwnedStream stream_;
  const size_t out_bytes_, a_bytes_, b_bytes_;
  std::vector<std::byte> made_, left_;
  const size_t bytes_;
  const DeviceBytes memory_;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Nothing is positive, so that the mask has no bit; then all is, and NaN passes as that does.
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

/// A mask without a bit lets nothing pass, one of all bits everything.
bool reads_mask_right(Validation& validation, double product) {
  validation.fill(1, 2);
  if (!validation.run() || !validation.makes(0)) return false;
  validation.fill_aside(std::byte{0xFF});
  return validation.run() && validation.makes(product);
}

}  // namespace

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
