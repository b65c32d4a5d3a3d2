// A job file compiled in memory for a test.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "runtime/plan/check/check.h"
#include "tests/support/job_builder.h"

namespace flow {

/// Compiles; the test fails with the messages when there are errors or the plan check refuses.
inline plan::Plan plan_of(const std::string& text, CompileRequest request = {}) {
  request.file = "job.yaml";
  CompileResult result = compile_text(request, text);
  INFO(result.messages);
  REQUIRE(result.plan);
  plan::check(*result.plan, "job.yaml");
  return std::move(*result.plan);
}

inline std::string messages_of(const std::string& text, CompileRequest request = {}) {
  request.file = "job.yaml";
  return compile_text(request, text).messages;
}

inline const plan::Tensor* find_tensor(const plan::Job& job, const std::string& name) {
  const auto found = std::ranges::find(job.tensors, name, &plan::Tensor::name);
  return found == job.tensors.end() ? nullptr : &*found;
}

inline const plan::Variable& variable(const plan::Job& job, const std::string& name) {
  const auto found = std::ranges::find_if(
      job.variables, [&](const plan::Variable& v) { return job[v.tensor].name == name; });
  INFO(name);
  REQUIRE(found != job.variables.end());
  return *found;
}

using test::step_names;

inline bool has_step(const plan::Job& job, const std::string& name) {
  return std::ranges::any_of(job.steps, [&](const plan::Step& s) { return s.name == name; });
}

}  // namespace flow
