// What must hold of a plan before anything is allocated for it: the check, the place that its
// messages name, calls of ops, and the parts of the check in their order.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Checks indices, shapes, sizes, aliases, lifetimes, names, references and each step against the
/// record of its op (ops/: operand count, dtypes, attributes and their ranges, shapes, batch axes,
/// and what shards may compute).
/// Throws RequestError at the first violation: "PATH: job `train`, step `conv1/conv`: ...".
void check(const Plan& plan, const std::string& path);

/// A place in a plan: "PATH: job `train`, step `conv1/conv`". Borrows what it is made from.
class Location {
 public:
  explicit Location(const std::string& path) : path_(&path) {}
  Location in_job(std::string_view name) const {
    Location location = *this;
    location.job_ = name;
    return location;
  }
  /// `kind` is the word for it: "step".
  Location at(std::string_view kind, std::string_view name) const {
    Location location = *this;
    location.kind_ = kind;
    location.name_ = name;
    return location;
  }

  /// Throws the RequestError of this place.
  [[noreturn]] void refuse(const std::string& what) const;
  template <typename... Args>
  void require(bool good, fmt::format_string<Args...> format, Args&&... args) const {
    if (!good) refuse(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const std::string* path_;
  std::string_view job_, kind_, name_;
};

/// The record of a primitive; refuses any other op.
const ops::OpSpec& spec_of(const ops::OpRef& op, const Location& location);

/// What shape functions know of a job: its dtypes, its shards, and the rows of the batch that they
/// see.
ops::JobTypes types_of(const Job& job);

ops::Operand operand_of(const Tensor& tensor);

/// The results of a call, with everything checked that a kernel relies on. Refuses, at `location`,
/// operands and attributes that the record or its shape function refuses.
std::vector<ops::Result> check_call(const ops::OpSpec& spec, std::vector<ops::Operand> operands,
                                    const Attributes& attributes, const ops::JobTypes& types,
                                    const Location& location);

// The parts of the check, in their order. Each takes for granted what those before it have checked.

/// Every id lies within its vector, or is none where none may stand.
void check_ids(const Job& job, const Location& location);

/// Devices, shards, and which steps are theirs; without shards nothing is combined.
void check_sharding(const Job& job, const Location& location);

/// Each tensor by itself and all together: names, shapes, row axes, bytes, and what they alias.
void check_tensors(const Job& job, const Location& location);

/// Only predict jobs on one device loop, without shards; what passes leave to the next one.
void check_loop(const Job& job, const Location& location);

/// Types of calls, order (a tensor is made once, before it is read; probes are read by probes),
/// devices (only a copy reads of another), and updates of variables and of the states of a loop.
void check_steps(const Job& job, const Location& location);

/// Steps of shards compute results from rows of their own, which can be combined; the others read
/// the whole, and only they update variables.
/// REQUIRES: the job has shards.
void check_layouts(const Job& job, const Location& location);

/// What drives the calls: variables' initial values, inputs, datasets, deliveries, optimizer, run
/// section. Shapes are those of whole batches.
void check_io(const Job& job, const Location& location);

/// A learning rate: what learning_rate() relies on, and nothing that is not finite.
void check_schedule(const Schedule& schedule, const Location& location);

/// Values by which the run decides. REQUIRES: the jobs that it calls are there.
void check_followed(const Plan& plan, const Job& job, const Location& location);

/// Returns, hooks and their sinks.
void check_deliveries(const Job& job, const Location& location);

}  // namespace flow::plan
