// The check of a plan before anything is allocated for it: what must hold, the places that messages
// name, calls of ops, and the parts of the check in their order.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// Checks indices, shapes, sizes, aliases, lifetimes, names, references, and each step against the
/// record of its op (ops/: operand count, dtypes, attributes and their ranges, shapes, batch axes,
/// and what shards may compute). Throws RequestError at the first violation: "PATH: job `train`,
/// step `conv1/conv`: ...".
void check(const Plan& plan, const std::string& path);

/// A place in a plan: "PATH: job `train`, step `conv1/conv`". Borrows the texts that it is made
/// from.
class Location {
 public:
  explicit Location(const std::string& path) : path_(&path) {}
  Location in_job(std::string_view name) const {
    Location location = *this;
    location.job_ = name;
    return location;
  }
  /// Returns a place within this one. `kind` is the word for it: "step".
  Location at(std::string_view kind, std::string_view name) const {
    Location location = *this;
    location.kind_ = kind;
    location.name_ = name;
    return location;
  }

  /// Throws a RequestError that names this place.
  [[noreturn]] void refuse(const std::string& what) const;
  template <typename... Args>
  void require(bool good, fmt::format_string<Args...> format, Args&&... args) const {
    if (!good) refuse(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  const std::string* path_;
  std::string_view job_, kind_, name_;
};

/// Returns the record of a primitive. Refuses any other op.
const ops::OpSpec& spec_of(const ops::OpRef& op, const Location& location);

/// Returns the facts about a job that shape functions need: its dtypes, its shards, and the number
/// of rows of the batch that they see.
ops::JobTypes types_of(const Job& job);

ops::Operand operand_of(const Tensor& tensor);

/// Returns the results of a call, after checking everything that a kernel relies on. Refuses, at
/// `location`, operands and attributes that the record or its shape function does not accept.
std::vector<ops::Result> check_call(const ops::OpSpec& spec, std::vector<ops::Operand> operands,
                                    const Attributes& attributes, const ops::JobTypes& types,
                                    const Location& location);

// The parts of the check, in their order. Each relies on what the parts before it have checked.

/// Every id is an index into its vector, or is invalid if the plan allows that.
void check_ids(const Job& job, const Location& location);

/// The devices and the shards are valid, and so are the steps that shards run. Without shards,
/// nothing is combined.
void check_sharding(const Job& job, const Location& location);

/// The tensors are valid, one by one and together: names, shapes, row axes, bytes, and aliases.
void check_tensors(const Job& job, const Location& location);

/// Only a predict job on one device and without shards has a loop. Also checks what a pass leaves
/// to the next one.
void check_loop(const Job& job, const Location& location);

/// Checks the types of calls, the order (a tensor is made once, before it is read; only probes read
/// probes), devices (only a copy reads a tensor of another device), and updates of variables and of
/// the states of a loop.
void check_steps(const Job& job, const Location& location);

/// Steps of shards compute results that can be combined, from the rows of one shard. All other
/// steps read whole tensors, and only they update variables. REQUIRES: the job has shards.
void check_layouts(const Job& job, const Location& location);

/// Checks what drives the calls: the initial values of variables, inputs, datasets, deliveries,
/// optimizer, run section. Shapes are those of whole batches.
void check_io(const Job& job, const Location& location);

/// Checks the datasets of a job: the values of all keys, and that a column has the keys of its
/// source.
void check_datasets(const Job& job, const Location& location);

/// Checks all that learning_rate() relies on, and that all numbers of the learning rate are finite.
void check_schedule(const Schedule& schedule, const Location& location);

/// Checks the values that decide about the run. REQUIRES: the jobs that this job calls exist.
void check_followed(const Plan& plan, const Job& job, const Location& location);

/// Checks returns, hooks and their sinks.
void check_deliveries(const Job& job, const Location& location);

}  // namespace flow::plan
