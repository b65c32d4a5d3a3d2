// Plans for the tests: a builder that computes shapes by records of ops, and plans made with it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan::sample {

using Integers = std::vector<int64_t>;

/// Adds to a job; results' dtypes and shapes are what the records say.
class JobBuilder {
 public:
  explicit JobBuilder(std::string name, bool train = false);

  TensorId input(std::string name, DType dtype, Shape shape, InputSource source = {});
  TensorId variable(std::string name, Shape shape, Initializer initializer = {}, bool slot = false);
  /// The first result is called `name`, a second `name.port`.
  std::vector<TensorId> step(std::string_view op, const std::string& name,
                             std::vector<TensorId> inputs,
                             std::vector<Attributes::Entry> attributes = {},
                             std::vector<EpilogueOp> epilogue = {});
  /// The same, its first result.
  TensorId one(std::string_view op, const std::string& name, std::vector<TensorId> inputs,
               std::vector<Attributes::Entry> attributes = {},
               std::vector<EpilogueOp> epilogue = {}) {
    return step(op, name, std::move(inputs), std::move(attributes), std::move(epilogue)).front();
  }
  void alias(TensorId result, TensorId of) { job[result].alias = of; }
  /// Makes `loss` what a train job minimizes.
  void minimize(TensorId loss, Schedule schedule = {schedules::Constant{0.1}});
  /// The job with its lifetimes.
  Job done();

  struct Editable : Job {
    using Job::operator[];
    Tensor& operator[](TensorId id) { return tensors[id.index()]; }
  };
  Editable job;
};

EpilogueOp epilogue_op(std::string op, std::string name, std::vector<TensorId> operands,
                       std::vector<Attributes::Entry> attributes = {});
Attributes attributes_of(std::vector<Attributes::Entry> entries);

/// One dense layer, trained; small.
Plan small_plan();

/// One dense layer, trained on 4 shards of 2 rows: each makes rows and parts of a mean and of a
/// sum, and the variable is updated behind them.
Plan sharded_plan();

/// A train job with a convolution, pooling, dropout, both updates, a probe, hooks and a nested
/// return, and a predict job: everything that a plan can hold.
Plan full_plan();

/// A predict job of random elementwise, reshape, matmul and reduction steps.
Plan random_plan(uint64_t seed);

}  // namespace flow::plan::sample
