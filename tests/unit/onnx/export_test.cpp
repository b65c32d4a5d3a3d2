// Jobs that cannot be models of ONNX.
#include "runtime/onnx/onnx.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "tests/support/job_builder.h"

namespace flow::onnx {
namespace {

Array unread(const plan::Tensor& tensor) { return Array(tensor.dtype, tensor.shape); }

/// A job that returns `id`.
plan::Job returning(test::JobBuilder& builder, plan::TensorId id) {
  plan::Job job = builder.build();
  job.train = false;
  job.optimizer = {};
  job.returns = plan::Returns{};
  job.returns->value.tensor = id;
  job.returns->value.name = "y";
  return job;
}

}  // namespace

TEST_CASE("all ops without an equivalent in ONNX are named, with their places", "[onnx]") {
  test::JobBuilder builder;
  const auto x = builder.input("x", {2, 3});
  const auto a = builder.step("relu_grad", "a", {x, x}, {}, {2, 3});
  builder.last_step().where = "job.yaml:7:10";
  const auto b = builder.step("relu", "b", {a}, {}, {2, 3});
  builder.step("tanh_grad", "unread", {x, x}, {}, {2, 3});
  const auto y = builder.step("tanh_grad", "y", {b, a}, {}, {2, 3});
  builder.last_step().where = "job.yaml:9:10";
  const plan::Job job = returning(builder, y);
  try {
    export_job(job, unread);
    FAIL("it was exported");
  } catch (const RequestError& error) {
    const std::string said = error.what();
    CHECK(said.find("2 ops without an equivalent in ONNX:\n"
                    "  job.yaml:7:10: op `relu_grad` of `a`\n"
                    "  job.yaml:9:10: op `tanh_grad` of `y`") != said.npos);
  }
}

TEST_CASE("a job whose variables exceed what a model can hold is refused before they are read",
          "[onnx]") {
  test::JobBuilder builder;
  const auto w = builder.variable("w", {1 << 15, 1 << 15});
  const auto y = builder.step("relu", "y", {w}, {}, {1 << 15, 1 << 15});
  const plan::Job job = returning(builder, y);
  CHECK_THROWS_AS(export_job(job,
                             [](const plan::Tensor&) -> Array {
                               FAIL("it was read");
                               return {};
                             }),
                  RequestError);
}

TEST_CASE("a job that delivers nothing is refused", "[onnx]") {
  test::JobBuilder builder;
  builder.input("x", {2, 3});
  plan::Job job = builder.build();
  job.returns = {};
  CHECK_THROWS_AS(export_job(job, unread), RequestError);
}

}  // namespace flow::onnx
