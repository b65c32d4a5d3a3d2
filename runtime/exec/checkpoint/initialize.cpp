// Initial values of variables.
#include "runtime/exec/checkpoint/initialize.h"

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
#include "runtime/exec/checkpoint/rounding.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

double number(const plan::Initializer& initializer, const char* name, double otherwise) {
  const auto found = initializer.values.find(name);
  return found == initializer.values.end() ? otherwise : found->second;
}

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

/// Some elements of an initial value, in float64.
void compute(const plan::Initializer& from, const Draw& draw, std::span<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  if (from.type == "ones" || from.type == "constant") {
    std::ranges::fill(values, from.type == "ones" ? 1.0 : number(from, "value", 0));
    return;
  }
  if (from.type == "random_uniform") {
    draw_uniform(draw, number(from, "min", 0), number(from, "max", 1), values.data(), n);
  } else {
    FLOW_CHECK(from.type == "random_normal" || from.type == "truncated_normal", "initializer {}",
               from.type);
    if (from.type == "random_normal")
      draw_normal(draw, values.data(), n);
    else
      draw_truncated_normal(draw, values.data(), n);
    const double mean = number(from, "mean", 0), deviation = number(from, "stddev", 1);
    for (double& value : values) value = mean + deviation * value;
  }
  for (double& value : values) value = static_cast<float>(value);
}

Array read_initial(const plan::Initializer& from, const plan::Tensor& tensor,
                   const fs::path& root) {
  const fs::path path = (root / from.path).lexically_normal();
  const Array array = io::read_npy(path);
  if (array.shape() != tensor.shape)
    throw RequestError(fmt::format("{}: variable `{}` is {}, but {} is {}", tensor.where,
                                   tensor.name, tensor.shape.str(), path.string(),
                                   array.shape().str()));
  return convert(array, tensor.dtype, path.string());
}

}  // namespace

Array initial_value(const plan::Job& job, const plan::Variable& variable, const fs::path& root) {
  const plan::Tensor& tensor = job[variable.tensor];
  const plan::Initializer& from = variable.initializer;
  if (from.type == "npy") return read_initial(from, tensor, root);

  Array array(tensor.dtype, tensor.shape);
  if (from.type == "zeros") return array;
  const size_t size = size_of(tensor.dtype);
  for_each_part(tensor.shape.elements(), [&](int64_t first, int64_t n) {
    std::vector<double> values(static_cast<size_t>(n));
    compute(from, {job.seed, tensor.name, 0, first}, values);
    if (!std::ranges::all_of(values, [&](double value) { return can_hold(tensor.dtype, value); }))
      throw RequestError(fmt::format("{}: cannot initialize variable `{}` with `{}`: {}",
                                     tensor.where, tensor.name, from.type, holds(tensor.dtype)));
    round_to(values, tensor.dtype,
             array.bytes().subspan(static_cast<size_t>(first) * size, values.size() * size));
  });
  return array;
}

}  // namespace flow::exec
