// A product of ones, or of zeros where a mask is stored.
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

std::vector<std::byte> ones(DType dtype, size_t bytes) {
  std::vector<std::byte> made(bytes);
  visit_any_float(dtype, [&]<typename T>(T) {
    std::fill_n(reinterpret_cast<T*>(made.data()), bytes / sizeof(T), convert<T>(1.0f));
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
  const bool stores_mask = spec.aside == Aside::kStoreMask;
  const size_t out_bytes = aligned(bytes_of(spec.out, sums)), beside = aligned(aside_bytes(spec));
  const size_t operand_bytes = std::max(
      {aligned(bytes_of(spec.a, spec.dtype)), aligned(bytes_of(spec.b, spec.dtype)), out_bytes});
  const OwnedStream stream(driver, driver.create_stream());
  // One after another: both operands, which are the same (and a bias, with a mask that is stored);
  // the result; what is aside; a workspace.
  const size_t bytes = operand_bytes + out_bytes + beside;
  const DeviceBytes memory(driver, driver.allocate(bytes + kernel.workspace));
  std::byte *const operands = memory.get(), *const out = operands + operand_bytes,
                   *const aside = out + out_bytes;
  driver.clear(operands, bytes, stream.get());
  const std::vector<std::byte> given = ones(spec.dtype, stores_mask ? 0 : operand_bytes);
  if (!stores_mask) driver.copy(operands, given.data(), given.size(), stream.get());
  try {
    kernel.run({.first = operands,
                .second = operands,
                .bias = spec.epilogue.bias ? operands : nullptr,
                .out = out,
                .workspace = operands + bytes,
                .aside = aside},
               stream.get());
  } catch (const RunError&) {  // it was said to work
    return false;
  }
  std::vector<std::byte> made(bytes_of(spec.out, sums)), left(aside_bytes(spec));
  driver.copy(made.data(), out, made.size(), stream.get());
  driver.copy(left.data(), aside, left.size(), stream.get());
  driver.synchronize(stream.get());
  const auto terms = static_cast<double>(spec.a[spec.transpose_a ? 0 : 1]);
  if (!has_mask(spec)) return are_all(made, sums, terms) && are_all(left, sums, terms);
  // Nothing is positive: a mask that is stored has no bit, and one that is read lets nothing pass.
  return are_all(made, sums, 0) &&
         std::ranges::all_of(left, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace flow::cuda
