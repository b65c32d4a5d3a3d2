// Jobs made by hand, for tests of the runtime that go without the compiler.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::test {

inline std::vector<std::string> step_names(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Step& step : job.steps) names.push_back(step.name);
  return names;
}

class JobBuilder {
 public:
  using Attributes = plan::Attributes;

  JobBuilder();
  plan::TensorId input(std::string name, Shape shape, DType dtype = DType::kFloat32);
  plan::TensorId variable(std::string name, Shape shape, DType dtype = DType::kFloat32);
  /// A step with one result, named like the step; `alias` as in plan::Tensor.
  plan::TensorId step(std::string op, std::string name, std::vector<plan::TensorId> inputs,
                      Attributes attributes, Shape shape, DType dtype = DType::kFloat32,
                      plan::TensorId alias = {});
  /// A second result of the last step: "pool1.argmax".
  plan::TensorId second_result(std::string name, Shape shape, DType dtype);
  /// Fuses an op onto the last step.
  void fuse(std::string op, std::vector<plan::TensorId> operands, Attributes attributes);

  /// Says along which axis of a tensor the rows of the batch lie. Shapes are those of one shard.
  void rows(plan::TensorId id, int axis = 0);
  /// Says of what shards make parts.
  void combined(plan::TensorId id, plan::Combine combine);
  /// Each of `count` shards runs the steps up to here, where there are several.
  void end_shards(int64_t count);

  plan::Step& last_step() { return job_.steps.back(); }
  /// The job, with lifetimes.
  plan::Job build();

 private:
  plan::TensorId add(std::string name, Shape shape, DType dtype, plan::Role role);
  plan::Job job_;
};

/// OneFlow's LeNet for MNIST, one training step of plain SGD: inputs `images` [batch, 1, 28, 28]
/// and `labels` int32 [batch], result `loss` [batch]. Fused as the compiler fuses it.
plan::Job lenet_training(int64_t batch);

/// 784 - hidden - 10 with relu, likewise.
plan::Job mlp_training(int64_t batch, int64_t hidden);

}  // namespace flow::test
