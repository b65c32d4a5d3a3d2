// A product of ones and twos, or of zeros where a mask is stored.
#include "runtime/cuda/trial.h"

#include <algorithm>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/convert.h"
#include "runtime/base/error.h"
#include "runtime/base/visit.h"
#include "runtime/cuda/program_memory.h"

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
    return std::ranges::all_of(elements, [&](T element) { return element == value; });
  });
}

size_t aside_bytes(const MatmulSpec& spec) {
  if (has_mask(spec)) return static_cast<size_t>(mask_shape(spec.out).elements());
  return bytes_of(Shape{spec.out[spec.aside == Aside::kSumsOfA ? 0 : 1]}, sum_of(spec.dtype));
}

}  // namespace

bool passes_trial(const LibraryKernel& kernel, const MatmulSpec& spec, Driver& driver) {
  const DType sums = sum_of(spec.dtype);
  const OwnedStream stream(driver, driver.create_stream());
  // One after another: A (zeros that are a bias, too), B, the result, what is aside, a workspace.
  const size_t out_bytes = bytes_of(spec.out, sums), beside = aside_bytes(spec);
  const size_t a_bytes = std::max(bytes_of(spec.a, spec.dtype), out_bytes);
  const size_t b_bytes = bytes_of(spec.b, spec.dtype);
  const size_t bytes = aligned(a_bytes) + aligned(b_bytes) + aligned(out_bytes) + aligned(beside);
  const DeviceBytes memory(driver, driver.allocate(bytes + kernel.workspace));
  std::byte *const a = memory.get(), *const b = a + aligned(a_bytes),
                   *const out = b + aligned(b_bytes), *const aside = out + aligned(out_bytes);
  driver.clear(a, bytes, stream.get());

  std::vector<std::byte> made(out_bytes), left(beside);
  const auto runs = [&] {
    try {
      kernel.run({.first = a,
                  .second = b,
                  .bias = spec.epilogue.bias ? a : nullptr,
                  .out = out,
                  .workspace = a + bytes,
                  .aside = aside},
                 stream.get());
    } catch (const RunError&) {  // it was said to work
      return false;
    }
    driver.copy(made.data(), out, made.size(), stream.get());
    driver.copy(left.data(), aside, left.size(), stream.get());
    driver.synchronize(stream.get());
    return true;
  };
  const auto write = [&](std::byte* to, const std::vector<std::byte>& from) {
    driver.copy(to, from.data(), from.size(), stream.get());
  };

  // Nothing is positive, so that the mask has no bit.
  if (spec.aside == Aside::kStoreMask)
    return runs() && are_all(made, sums, 0) &&
           std::ranges::all_of(left, [](std::byte byte) { return byte == std::byte{0}; });
  write(a, filled(spec.dtype, a_bytes, 1));
  write(b, filled(spec.dtype, b_bytes, 2));
  const auto terms = static_cast<double>(spec.a[spec.transpose_a ? 0 : 1]);
  if (!has_mask(spec))
    return runs() && are_all(made, sums, 2 * terms) &&
           are_all(left, sums, spec.aside == Aside::kSumsOfA ? terms : 2 * terms);
  // A mask without a bit lets nothing pass, one of all bits everything.
  if (!runs() || !are_all(made, sums, 0)) return false;
  write(aside, std::vector<std::byte>(beside, std::byte{0xFF}));
  return runs() && are_all(made, sums, 2 * terms);
}

}  // namespace flow::cuda
