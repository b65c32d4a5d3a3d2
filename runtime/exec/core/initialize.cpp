// Initial values of variables.
#include "runtime/exec/core/initialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <span>
#include <thread>
#include <vector>

#include "runtime/base/ceil_div.h"
#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/base/representable.h"
#include "runtime/exec/core/rounding.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

constexpr int64_t kPart = 1 << 16;  // elements; a multiple of 4, as parts of draws are

/// Calls f(first, n) for the parts of so many elements, on all CPUs where there are several: most
/// of what a large model does before its first step is this.
template <typename F>
void for_each_part(int64_t elements, F f) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t first = 0; (first = next.fetch_add(kPart)) < elements;)
      f(first, std::min(kPart, elements - first));
  };
  const int64_t cpus = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<void>> helpers;
  for (int64_t i = 1; i < std::min(cpus, ceil_div(elements, kPart)); ++i)
    helpers.push_back(std::async(std::launch::async | std::launch::deferred, work));
  work();
  for (std::future<void>& helper : helpers) helper.get();
}

/// Jobs of every precision start from the same random numbers.
void round_to_float32(std::span<double> values) {
  for (double& value : values) value = static_cast<float>(value);
}

/// From draws of a standard normal. `from`: a Normal or a TruncatedNormal.
void scale_normal(const auto& from, std::span<double> values) {
  for (double& value : values) value = from.mean + from.stddev * value;
  round_to_float32(values);
}

int64_t count(std::span<double> values) { return static_cast<int64_t>(values.size()); }

// Some elements of an initial value, in float64.

void compute(const plan::initializers::Ones&, const Draw&, std::span<double> values) {
  std::ranges::fill(values, 1.0);
}

void compute(const plan::initializers::Constant& from, const Draw&, std::span<double> values) {
  std::ranges::fill(values, from.value);
}

void compute(const plan::initializers::Uniform& from, const Draw& draw, std::span<double> values) {
  draw_uniform(draw, from.min, from.max, values.data(), count(values));
  round_to_float32(values);
}

void compute(const plan::initializers::Normal& from, const Draw& draw, std::span<double> values) {
  draw_normal(draw, values.data(), count(values));
  scale_normal(from, values);
}

void compute(const plan::initializers::TruncatedNormal& from, const Draw& draw,
             std::span<double> values) {
  draw_truncated_normal(draw, values.data(), count(values));
  scale_normal(from, values);
}

/// The initial value of a variable by the type of its initializer.
struct InitialValue {
  const plan::Tensor& tensor;
  uint64_t seed;
  const fs::path& root;

  Array operator()(const plan::initializers::Zeros&) const { return {tensor.dtype, tensor.shape}; }

  Array operator()(const plan::initializers::Npy& from) const {
    const fs::path path = (root / from.path).lexically_normal();
    const Array array = io::read_npy(path);
    if (array.shape() != tensor.shape)
      throw RequestError(fmt::format("{}: variable `{}` is {}, but {} is {}", tensor.where,
                                     tensor.name, tensor.shape.str(), path.string(),
                                     array.shape().str()));
    return convert(array, tensor.dtype, path.string());
  }

  Array operator()(const auto& from) const {
    Array array(tensor.dtype, tensor.shape);
    const size_t size = size_of(tensor.dtype);
    for_each_part(tensor.shape.elements(), [&](int64_t first, int64_t n) {
      std::vector<double> values(static_cast<size_t>(n));
      compute(from, {seed, tensor.name, 0, first}, values);
      if (!std::ranges::all_of(values, [&](double value) { return can_hold(tensor.dtype, value); }))
        throw RequestError(fmt::format("{}: cannot initialize variable `{}` with `{}`: {}",
                                       tensor.where, tensor.name, from.record().type,
                                       holds(tensor.dtype)));
      round_to(values, tensor.dtype,
               array.bytes().subspan(static_cast<size_t>(first) * size, values.size() * size));
    });
    return array;
  }
};

}  // namespace

Array initial_value(const plan::Job& job, const plan::Variable& variable, const fs::path& root) {
  return std::visit(InitialValue{job[variable.tensor], job.seed, root}, variable.initializer);
}

}  // namespace flow::exec
