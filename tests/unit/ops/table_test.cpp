// The table of ops as a whole: complete, and its examples fit its rules.
#include <catch2/catch.hpp>

#include <set>

#include "compiler/ir/rules.h"
#include "ops/core/spec.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/plan.h"
#include "tests/support/example.h"

namespace flow::test {

TEST_CASE("Every op has a name of its own, a sentence, a formula and documented parts", "[ops]") {
  std::set<std::string_view> names;
  for (const ops::OpSpec* op : ops::all_specs()) {
    INFO(op->name);
    CHECK(names.insert(op->name).second);
    CHECK(op->doc.ends_with('.'));
    CHECK_FALSE(op->formula.empty());
    CHECK((op->infer || grad::rules_of(*op).expand));
    CHECK(ops::find_spec(op->name) == op);
    for (const ops::OperandSpec& operand : op->operands) CHECK_FALSE(operand.doc.empty());
    for (const ops::AttributeSpec& attribute : op->attributes) CHECK_FALSE(attribute.doc.empty());
  }
  CHECK(ops::find_spec("no_such_op") == nullptr);
}

TEST_CASE("Ops of a job file have examples for the property tests", "[ops]") {
  for (const ops::OpSpec* op : ops::all_specs())
    if (op->infer && !op->internal) {
      INFO(op->name);
      CHECK_FALSE(op->examples.empty());
      for (const std::string_view example : op->examples) CHECK(example.starts_with(op->name));
    }
}

TEST_CASE("Every example and its gradient is a plan that passes the check", "[ops]") {
  for (const ops::OpSpec* op : ops::all_specs())
    for (const std::string_view example : op->examples)
      for (const bool float64 : {false, true}) {
        INFO(example << (float64 ? " in float64" : ""));
        plan::Plan plan;
        plan.jobs.push_back(job_of_example(example, float64));
        CHECK_NOTHROW(plan::check(plan, "example"));
        if (!has_gradient(example, float64)) continue;
        plan.jobs = {gradient_job_of_example(example, float64)};
        CHECK_NOTHROW(plan::check(plan, "example"));
      }
}

TEST_CASE("A gradient job returns the call's results and then its inputs' gradients", "[ops]") {
  const plan::Job job = gradient_job_of_example("multiply(f32[3,4], f32[4])", false);
  REQUIRE(job.returns);
  REQUIRE(job.returns->value.items.size() == 3);
  CHECK(job.inputs.size() == 3);
  CHECK(job[job.inputs[2].tensor].name == "in_cotangent");
  const auto shape = [&](size_t i) { return job[job.returns->value.items[i].tensor].shape; };
  CHECK(shape(0) == Shape{3, 4});
  CHECK(shape(1) == Shape{3, 4});
  CHECK(shape(2) == Shape{4});
}

}  // namespace flow::test
