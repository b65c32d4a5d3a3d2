// Computes initial values of variables, and copies variables between host and device.
#include "runtime/exec/core/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <set>
#include <string_view>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/memory.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/io/convert.h"
#include "runtime/io/elements.h"
#include "runtime/io/npy.h"

namespace flow::exec {
namespace {

constexpr int64_t kPart = 1 << 16;  // elements; a multiple of 4, the group size of draws

/// Calls f(first, n) for consecutive parts of `elements` elements, on all CPUs if there are several
/// parts. In a large model, most of the time before the first step is spent here.
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

/// Rounds to float32, so that jobs of every precision start from the same random numbers.
void round_to_float32(std::span<double> values) {
  for (double& value : values) value = static_cast<float>(value);
}

/// Scales draws of a standard normal distribution. `from` is a Normal or a TruncatedNormal.
void scale_normal(const auto& from, std::span<double> values) {
  for (double& value : values) value = from.mean + from.stddev * value;
  round_to_float32(values);
}

int64_t count(std::span<double> values) { return static_cast<int64_t>(values.size()); }

// Each overload of `compute` computes some elements of an initial value in float64.

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

/// Computes the initial value of a variable, depending on the type of its initializer.
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

/// Throws RunError naming the largest variable if not all of them fit in memory.
void check_variables_fit(const std::vector<State::Entry>& entries) {
  size_t needed = 0;
  for (const State::Entry& entry : entries) needed += bytes_of(*entry.tensor);
  const size_t available = available_memory();
  if (needed <= available) return;
  const State::Entry& largest = *std::ranges::max_element(
      entries, {}, [](const State::Entry& entry) { return bytes_of(*entry.tensor); });
  throw RunError(fmt::format(
      "{}: variable `{}` is {}; all variables of the run need {} of memory, {} available",
      largest.tensor->where, largest.tensor->name, human_bytes(bytes_of(*largest.tensor)),
      human_bytes(needed), human_bytes(available)));
}

}  // namespace

void round_to(std::span<const double> values, DType dtype, std::span<std::byte> out) {
  FLOW_CHECK(out.size() == values.size() * size_of(dtype), "{} bytes for {} values", out.size(),
             values.size());
  io::visit_stored(dtype, [&](auto element) {
    using T = decltype(element);
    T* to = reinterpret_cast<T*>(out.data());
    for (size_t i = 0; i < values.size(); ++i) to[i] = io::element_of<T>(values[i]);
  });
}

Array convert(const Array& array, DType dtype, const std::string& name) {
  Array made(dtype, array.shape());
  io::RowConverter converter(array.dtype(), false, {},
                             static_cast<size_t>(array.shape().elements()));
  if (const auto misfit = converter.convert(array.bytes().data(), dtype, made.bytes().data()))
    throw RunError(fmt::format("{} contains {} (element {}), which is not a valid {}", name,
                               shortest(misfit->value), misfit->element, name_of(dtype)));
  return made;
}

Array initial_value(const plan::Job& job, const plan::Variable& variable, const fs::path& root) {
  return std::visit(InitialValue{job[variable.tensor], job.seed, root}, variable.initializer);
}

State::State(const std::vector<const plan::Job*>& jobs) {
  std::set<std::string_view> names;
  for (const plan::Job* job : jobs)
    for (const plan::Variable& variable : job->variables) {
      const plan::Tensor& tensor = (*job)[variable.tensor];
      if (names.insert(tensor.name).second) entries_.push_back({job, &variable, &tensor, {}});
    }
  check_variables_fit(entries_);
}

void State::initialize(const fs::path& root, bool only_slots) {
  for (Entry& entry : entries_)
    if (entry.variable->slot || !only_slots)
      entry.value = initial_value(*entry.job, *entry.variable, root);
}

void State::capture(const plan::Job& job, const Program& program) {
  for (Entry& entry : entries_)
    if (entry.job == &job) program.read_variable(entry.variable->tensor, entry.value.bytes());
}

void State::write_to(const plan::Job& job, Program& program) const {
  for (const Entry& entry : entries_)
    if (entry.job == &job && !entry.value.bytes().empty())
      program.write_variable(entry.variable->tensor, entry.value.view());
}

std::optional<std::string> first_nonfinite(const ArrayView& value) {
  return io::visit_elements(value, [&](auto elements) -> std::optional<std::string> {
    for (size_t i = 0; i < elements.size(); ++i)
      if (const auto number = static_cast<double>(elements[i]); !std::isfinite(number))
        return fmt::format("{} at {}", shortest(number),
                           value.shape.index_str(static_cast<int64_t>(i)));
    return {};
  });
}

std::optional<std::string> nonfinite_variables(
    const State& state, const std::function<bool(const plan::Variable&)>& wanted) {
  std::vector<std::string> nonfinite;
  for (const State::Entry& entry : state.entries()) {
    if (!wanted(*entry.variable)) continue;
    if (const auto found = first_nonfinite(entry.value.view()))
      nonfinite.push_back(fmt::format("`{}` is {}", entry.tensor->name, *found));
  }
  if (nonfinite.empty()) return {};
  const std::string more =
      nonfinite.size() > 1 ? fmt::format(" (first of {} such variables)", nonfinite.size()) : "";
  return nonfinite.front() + more;
}

}  // namespace flow::exec
