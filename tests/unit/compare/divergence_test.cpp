// The first tensor in which two runs part that do not agree bit for bit: what grows smoothly is
// rounding, a jump is not.
#include "runtime/compare/divergence.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/exec/core/run_files.h"
#include "runtime/plan/serialize.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/plan/sample.h"

namespace flow::compare {
namespace {

constexpr size_t kTensors = 6, kElements = 500;
constexpr int64_t kStepsRun = 40;

using Values = std::vector<double>;

Fingerprint fingerprint_of(const Values& values) {
  Fingerprint made;
  for (const double value : values) {
    Fingerprint one{.count = 1};
    if (std::isfinite(value)) {
      one.sum = one.least = one.most = value;
      one.absolute = std::abs(value);
      one.square = value * value;
    } else {
      one.not_finite = 1;
    }
    one.hash = mix_index(std::hash<double>()(value) + static_cast<uint64_t>(made.count));
    made.merge(one);
  }
  return made;
}

/// input -> t1 -> ... -> t5.
plan::Plan chain() {
  plan::sample::JobBuilder builder("predict");
  plan::TensorId last = builder.input("t0", DType::kFloat32, {4, 125});
  for (size_t i = 1; i < kTensors; ++i) last = builder.one("tanh", fmt::format("t{}", i), {last});
  return {plan::kVersion, "job.yaml", "", {builder.done()}, {}};
}

/// Relative noise of a tensor of a step, in the second run.
using Noise = std::function<double(int64_t step, size_t tensor)>;

/// Two runs, of another instruction set each.
class Runs {
 public:
  explicit Runs(const Noise& noise) {
    write("golden", "avx512", [](int64_t, size_t) { return 0.0; });
    write("out", "avx2", noise);
  }
  DivergenceReport report() const {
    return find_divergence(read_fingerprinted_run(home_ / "golden"),
                           read_fingerprinted_run(home_ / "out"));
  }

 private:
  void write(const std::string& name, const std::string& instructions, const Noise& noise) const {
    const fs::path run = home_ / name;
    make_folders(run);
    write_text_atomically(run / exec::kPlanFile, plan::to_json(chain()));
    write_text_atomically(run / exec::kRunRecord,
                          fmt::format(R"({{"job":"predict","device":"cpu","version":"1",)"
                                      R"("instruction_set":"{}"}})",
                                      instructions));
    std::vector<plan::TensorId> tensors;
    for (size_t i = 0; i < kTensors; ++i) tensors.emplace_back(i);
    exec::FingerprintWriter file(run / exec::kFingerprintFile, tensors, {}, 0);
    for (int64_t step = 0; step < kStepsRun; ++step) {
      std::vector<Fingerprint> values;
      for (size_t i = 0; i < kTensors; ++i) values.push_back(fingerprint_of(draw(step, i, noise)));
      file.write(step, values);
    }
    file.close();
  }

  static Values draw(int64_t step, size_t tensor, const Noise& noise) {
    std::mt19937_64 chance(static_cast<uint64_t>(step) * kTensors + tensor);
    std::normal_distribution<double> normal;
    Values values(kElements);
    for (double& value : values) value = normal(chance);
    const double size = noise(step, tensor);
    for (double& value : values) value *= 1 + size * normal(chance);
    return values;
  }

  const FreshDirectory home_;
};

/// Rounding at the start, which each tensor and each step multiplies.
double rounding(int64_t step, size_t tensor, double each_step) {
  return tensor == 0 ? 0
                     : 1e-7 * std::pow(1.5, static_cast<double>(tensor)) *
                           std::pow(each_step, static_cast<double>(step));
}

}  // namespace

TEST_CASE("rounding that grows from step to step is no difference", "[compare]") {
  const double each_step = GENERATE(1.0, 1.1, 1.4);  // 1.4: to some per cent in 40 steps
  const Runs runs([&](int64_t step, size_t tensor) { return rounding(step, tensor, each_step); });
  const DivergenceReport report = runs.report();
  CHECK(report.by_distance);
  CHECK(report.steps == kStepsRun);
  CHECK(report.tensors == kTensors);
  CHECK_FALSE(report.first);
  if (each_step == 1.4) CHECK(report.largest > 1e-2);
}

TEST_CASE("a jump is found in the tensor and the step where it happens", "[compare]") {
  const size_t broken = GENERATE(1U, 3U, 5U);
  const int64_t at = GENERATE(0, 7, 39);
  // Behind it all have it: the following tensors of the step, and all of later steps.
  const Runs runs([&](int64_t step, size_t tensor) {
    const bool has_it = step > at || (step == at && tensor >= broken);
    return rounding(step, tensor, 1.05) + (has_it && tensor > 0 ? 1e-2 : 0);
  });
  const DivergenceReport report = runs.report();
  REQUIRE(report.first);
  CHECK(report.first->step == at);
  CHECK(report.first->tensor == fmt::format("t{}", broken));
  CHECK(report.first->made_by == report.first->tensor);
  CHECK(report.first->kind == Divergence::Kind::kComputed);
  CHECK(report.first->agreeing == std::vector<std::string>{fmt::format("t{}", broken - 1)});
  CHECK(report.first->unknown.empty());
  CHECK(report.first->distance > 1e-3);
  CHECK(report.first->growth < 1e-4);
  CHECK(report.first->agreed_at == (at == 0 ? std::nullopt : std::optional(at - 1)));
}

TEST_CASE("a jump above much noise is found, one within it is not", "[compare]") {
  const auto with_jump = [](double size) {
    return Runs([size](int64_t step, size_t tensor) {
             return tensor == 0 ? 0 : 1e-4 + (step == 20 && tensor == 4 ? size : 0);
           })
        .report();
  };
  const DivergenceReport found = with_jump(0.1);
  REQUIRE(found.first);
  CHECK(found.first->tensor == "t4");
  CHECK(found.first->step == 20);
  CHECK(found.first->growth < 1e-3);
  CHECK_FALSE(with_jump(3e-3).first);  // as in sums in which much cancels
}

TEST_CASE("other data and other infinities are differences, whatever the noise", "[compare]") {
  const Runs other_data([](int64_t step, size_t) { return step == 5 ? 1e-2 : 1e-7; });
  const DivergenceReport report = other_data.report();
  REQUIRE(report.first);
  CHECK(report.first->tensor == "t0");
  CHECK(report.first->kind == Divergence::Kind::kInput);
  CHECK(report.first->step == 5);

  const Runs overflow([](int64_t step, size_t tensor) {
    return step == 9 && tensor == 2 ? std::numeric_limits<double>::infinity() : 1e-7;
  });
  const DivergenceReport infinite = overflow.report();
  REQUIRE(infinite.first);
  CHECK(infinite.first->tensor == "t2");
  CHECK(std::isinf(infinite.first->distance));
}

TEST_CASE("distances are relative to the size of a tensor", "[compare]") {
  const auto distance = [](const Values& a, const Values& b) {
    return distance_between(fingerprint_of(a), fingerprint_of(b));
  };
  CHECK(distance({1, 2, -3}, {1, 2, -3}) == 0);
  CHECK(distance({1, 2, -4}, {1, 2, -4.4}) == Approx(0.4 / 4.4));
  CHECK(distance({1e-20, 2e-20}, {1e-20, 2.2e-20}) == Approx(0.2 / 2.2));
  CHECK(distance({0, 0}, {0, 0}) == 0);
  CHECK(distance({1, -1}, {-1, 1}) == 0);  // an order is the hash's matter
  CHECK(std::isinf(distance({1, 2}, {1, 2, 3})));
  CHECK(std::isinf(distance({1, INFINITY}, {1, 2})));
  CHECK(distance({INFINITY}, {-INFINITY}) == 0);
}

}  // namespace flow::compare
