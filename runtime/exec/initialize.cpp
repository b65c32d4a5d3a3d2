// Initial values of variables.
#include "runtime/exec/initialize.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/base/representable.h"
#include "runtime/exec/rounding.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

double number(const plan::Initializer& initializer, const char* name, double otherwise) {
  const auto found = initializer.values.find(name);
  return found == initializer.values.end() ? otherwise : found->second;
}

/// Random values, in float64.
std::vector<double> drawn(const plan::Initializer& from, const Draw& draw, int64_t elements) {
  std::vector<double> values(static_cast<size_t>(elements));
  if (from.type == "random_uniform") {
    draw_uniform(draw, number(from, "min", 0), number(from, "max", 1), values.data(), elements);
    return values;
  }
  if (from.type == "random_normal")
    draw_normal(draw, values.data(), elements);
  else
    draw_truncated_normal(draw, values.data(), elements);
  const double mean = number(from, "mean", 0), deviation = number(from, "stddev", 1);
  for (double& value : values) value = mean + deviation * value;
  return values;
}

Array read_initial(const plan::Initializer& from, const plan::Tensor& tensor,
                   const fs::path& root) {
  const fs::path path = (root / from.path).lexically_normal();
  const Array array = io::read_npy(path);
  if (array.shape() != tensor.shape)
    throw RequestError(fmt::format("{}: variable `{}` is {}, but {} holds {}", tensor.where,
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
  const int64_t elements = tensor.shape.elements();
  std::vector<double> values;
  if (from.type == "ones" || from.type == "constant") {
    values.assign(static_cast<size_t>(elements),
                  from.type == "ones" ? 1.0 : number(from, "value", 0));
  } else {
    FLOW_CHECK(from.type == "random_uniform" || from.type == "random_normal" ||
                   from.type == "truncated_normal",
               "initializer {}", from.type);
    values = drawn(from, {job.seed, tensor.name, 0}, elements);
    for (double& value : values) value = static_cast<float>(value);
  }
  if (!std::ranges::all_of(values, [&](double value) { return can_hold(tensor.dtype, value); }))
    throw RequestError(fmt::format("{}: variable `{}` cannot start as `{}`: {}", tensor.where,
                                   tensor.name, from.type, holds(tensor.dtype)));
  round_to(values, tensor.dtype, array.bytes());
  return array;
}

}  // namespace flow::exec
