// One call of a job on the CPU backend.
#include "tests/support/run_job.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/plan/model/shards.h"

namespace flow::test {

using plan::TensorId;

TensorId tensor(const plan::Job& job, const std::string& name) {
  for (size_t i = 0; i < job.tensors.size(); ++i)
    if (job.tensors[i].name == name) return TensorId{i};
  FLOW_CHECK(false, "no tensor {}", name);
}

namespace {

Array random_array(const plan::Tensor& tensor, const Shape& shape, uint64_t seed) {
  Array array(tensor.dtype, shape);
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  const bool floats = is_float(tensor.dtype);
  draw_uniform({seed, tensor.name, 0}, floats ? -1 : 0, floats ? 1 : 10, values.data(),
               static_cast<int64_t>(values.size()));
  const auto fill = [&](auto elements) { std::ranges::copy(values, elements.begin()); };
  switch (tensor.dtype) {
    case DType::kFloat32:
      fill(array.as<float>());
      break;
    case DType::kFloat64:
      fill(array.as<double>());
      break;
    case DType::kInt32:
      fill(array.as<int32_t>());
      break;
    case DType::kInt64:
      fill(array.as<int64_t>());
      break;
    default:
      FLOW_CHECK(false, "no random {}", name_of(tensor.dtype));
  }
  return array;
}

}  // namespace

Arrays random_values(const plan::Job& job, uint64_t seed) {
  Arrays values;
  for (const plan::Tensor& tensor : job.tensors)
    if (tensor.role != plan::Role::kResult)
      values.emplace(tensor.name, random_array(tensor, plan::whole_shape(job, tensor), seed));
  return values;
}

Arrays run(const plan::Job& job, const Arrays& values, const std::vector<std::string>& wanted,
           const RunJob& options) {
  exec::PrepareOptions prepare;
  prepare.threads = options.threads;
  prepare.ranks = options.ranks;
  prepare.eager = options.eager;
  for (const std::string& name : wanted)
    if (job[tensor(job, name)].role != plan::Role::kVariable)
      prepare.deliverables.push_back(tensor(job, name));
  const auto own = cpu::make_backend(options.kernels);
  exec::Backend& backend = options.backend ? *options.backend : *own;
  const auto program = backend.prepare(job, prepare);
  program->connect();
  for (const auto& [name, value] : values) {
    const TensorId id = tensor(job, name);
    if (job[id].role == plan::Role::kVariable)
      program->write_variable(id, value.view());
    else
      std::ranges::copy(value.bytes(), program->input(id, 0).begin());
  }
  const std::vector<uint8_t> all(prepare.deliverables.size(), 1);
  for (int i = 0; i < options.calls; ++i) {
    program->launch({options.first + i, options.learning_rate, all}, 0, 0);
    program->wait(0);
  }
  Arrays results;
  for (const std::string& name : wanted) {
    const TensorId id = tensor(job, name);
    Array result(job[id].dtype, plan::whole_shape(job, job[id]));
    if (job[id].role == plan::Role::kVariable)
      program->read_variable(id, result.bytes());
    else
      std::ranges::copy(program->delivered(id, 0), result.bytes().begin());
    results.emplace(name, std::move(result));
  }
  return results;
}

bool same_bits(const Arrays& a, const Arrays& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() &&
           std::ranges::equal(x.second.bytes(), y.second.bytes());
  });
}

double relative_difference(const Array& a, const Array& b) {
  FLOW_CHECK(a.shape() == b.shape());
  double difference = 0, magnitude = 0;
  const auto x = a.as<float>(), y = b.as<float>();
  for (size_t i = 0; i < x.size(); ++i) {
    difference = std::max(difference, std::abs(double{x[i]} - double{y[i]}));
    magnitude = std::max(magnitude, std::abs(double{y[i]}));
  }
  return magnitude == 0 ? difference : difference / magnitude;
}

}  // namespace flow::test
