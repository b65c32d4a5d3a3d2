// Fifty updates of every optimizer, from the job file to the variables, against paths made
// elsewhere (tests/golden/optimizers): by PyTorch, or by formulas in NumPy.
#include <cmath>
#include <cstring>

#include "ops/optimizer/optimizer_math.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/core/state.h"
#include "runtime/plan/model/schedule.h"
#include "tests/support/golden_arrays.h"
#include "tests/support/run_job.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

constexpr int64_t kSteps = 50, kRows = 4, kColumns = 3;

std::vector<double> golden(const std::string& name, int64_t count) {
  static const std::map<std::string, Array> arrays = golden_arrays("optimizers/optimizers");
  const auto values = arrays.at(name).as<double>();
  REQUIRE(values.size() == static_cast<size_t>(count));
  return {values.begin(), values.end()};
}

/// A job whose variables `v/weight` [4, 3] and `u/bias` [3] have the gradients `gw`, transposed,
/// and `gb`: its losses are the sums of the products. `rates` are those up to step 20 and from
/// then.
std::string job_of(const std::string& optimizer, const std::string& regularizer,
                   const std::string& rates) {
  const auto layer = [&](const std::string& key) {
    return regularizer.empty() ? std::string() : ", " + key + ": " + regularizer;
  };
  return "flow: 1\njobs:\n  j:\n    type: train\n    precision: float64\n    inputs:\n"
         "      eye: {shape: [3, 3], dtype: float64, rows: false}\n"
         "      gw: {shape: [3, 4], dtype: float64, rows: false}\n"
         "      zero: {shape: [1, 1], dtype: float64, rows: false}\n"
         "      gb: {shape: [1, 3], dtype: float64, rows: false}\n"
         "    graph:\n      v: {op: dense, units: 4, in: eye, use_bias: false" +
         layer("kernel_regularizer") +
         "}\n      pv: {op: multiply, in: [v, gw]}\n      lw: {op: reduce_sum, in: pv}\n"
         "      u: {op: dense, units: 3, in: zero" +
         layer("bias_regularizer") +
         "}\n      pu: {op: multiply, in: [u, gb]}\n      lb: {op: reduce_sum, in: pu}\n"
         "    optimizer: {" +
         optimizer +
         ", minimize: [lw, lb], variables: [\"v/*\", u/bias],\n"
         "      learning_rate: {type: piecewise_constant, boundaries: [20], values: " +
         rates + "}}\n";
}

/// The job on the CPU, with names for its tensors.
class Trained {
 public:
  explicit Trained(plan::Job job)
      : job_(std::move(job)), backend_(cpu::make_backend()), program_(backend_->prepare(job_, {})) {
    for (const plan::Variable& variable : job_.variables)
      if (variable.slot)
        program_->write_variable(variable.tensor, exec::initial_value(job_, variable, {}).view());
    write("v/weight", golden("start_w", kRows * kColumns));
    write("u/bias", golden("start_b", kColumns));
    fill_input("eye", {1, 0, 0, 0, 1, 0, 0, 0, 1});
    fill_input("zero", {0});
  }
  void fill_input(const std::string& name, const std::vector<double>& values) {
    const auto into = program_->input(tensor(job_, name), 0);
    REQUIRE(into.size() == values.size() * sizeof(double));
    std::memcpy(into.data(), values.data(), into.size());
  }
  void step(int64_t step) {
    program_->launch({step, plan::learning_rate(job_.optimizer->learning_rate, step), {}}, 0, 0);
    program_->wait(0);
  }
  std::vector<double> read(const std::string& name) const {
    const plan::TensorId id = tensor(job_, name);
    std::vector<double> values(static_cast<size_t>(job_[id].shape.elements()));
    program_->read_variable(id, std::as_writable_bytes(std::span(values)));
    return values;
  }

 private:
  void write(const std::string& name, const std::vector<double>& values) {
    const plan::TensorId id = tensor(job_, name);
    Array array(DType::kFloat64, job_[id].shape);
    std::ranges::copy(values, array.as<double>().begin());
    program_->write_variable(id, array.view());
  }

  plan::Job job_;
  std::unique_ptr<exec::Backend> backend_;
  std::unique_ptr<exec::Program> program_;
};

void check_near(const std::vector<double>& got, const double* expected) {
  for (size_t i = 0; i < got.size(); ++i)
    if (std::abs(got[i] - expected[i]) > 1e-12 * std::max(1.0, std::abs(expected[i])))
      FAIL("element " << i << ": " << got[i] << " instead of " << expected[i]);
}

void check_path(const std::string& name, const std::string& optimizer,
                const std::string& regularizer = {}, const std::string& rates = "[0.1, 0.05]") {
  INFO(name);
  Trained trained(plan_of(job_of(optimizer, regularizer, rates)).jobs[0]);
  const int64_t weights = kRows * kColumns;
  const auto gw = golden("gradients_w", kSteps * weights);
  const auto gb = golden("gradients_b", kSteps * kColumns);
  const auto w = golden(name + "_w", kSteps * weights);
  const auto b = golden(name + "_b", kSteps * kColumns);
  for (int64_t step = 0; step < kSteps; ++step) {
    INFO("step " << step);
    std::vector<double> transposed;
    for (int64_t column = 0; column < kColumns; ++column)
      for (int64_t row = 0; row < kRows; ++row)
        transposed.push_back(gw[static_cast<size_t>(step * weights + row * kColumns + column)]);
    const auto* bias = gb.data() + step * kColumns;
    trained.fill_input("gw", transposed);
    trained.fill_input("gb", {bias, bias + kColumns});
    trained.step(step);
    check_near(trained.read("v/weight"), w.data() + step * weights);
    check_near(trained.read("u/bias"), b.data() + step * kColumns);
  }
}

}  // namespace

TEST_CASE("fifty updates of every optimizer are those of the golden paths", "[job]") {
  const std::string clip = ", grad_clipping: {type: by_global_norm, clip_norm: 2}";
  check_path("sgd", "type: sgd");
  check_path("sgd_momentum", "type: sgd, momentum: 0.9");
  check_path("sgd_nesterov", "type: sgd, momentum: 0.9, nesterov: true");
  check_path("sgd_clip2", "type: sgd" + clip);
  check_path("sgd_decay_clip2",
             "type: sgd, weight_decay: 0.02, grad_clipping: {type: by_global_norm, clip_norm: 2, "
             "epsilon: 1e-6}");
  check_path("sgd_nesterov_decay", "type: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.02");
  check_path("sgd_l1_l2", "type: sgd", "{l1: 0.01, l2: 0.02}");
  check_path("sgd_momentum_l2_clip2", "type: sgd, momentum: 0.9" + clip, "{l2: 0.02}");
  check_path("sgdw", "type: sgdw, weight_decay: 0.01");
  check_path("adam", "type: adam");
  check_path("adam_l2_by_value", "type: adam, grad_clipping: {type: by_value, clip_value: 0.5}",
             "{l2: 0.02}");
  check_path("adam_uncorrected", "type: adam, bias_correction: false");
  check_path("adamw", "type: adamw, weight_decay: 0.01");
  check_path("adam_amsgrad_decay",
             "type: adam, beta1: 0.8, beta2: 0.9, amsgrad: true, weight_decay: 0.02");
  check_path("adamw_amsgrad",
             "type: adamw, beta1: 0.8, beta2: 0.9, amsgrad: true, weight_decay: 0.01");
  check_path("rmsprop", "type: rmsprop");
  check_path("rmsprop_centered", "type: rmsprop, centered: true");
  check_path("rmsprop_inside", "type: rmsprop, epsilon: 1e-3, momentum: 0.9");
  check_path("rmsprop_torch", "type: rmsprop, epsilon: 1e-3, epsilon_inside: false");
  check_path("rmsprop_momentum",
             "type: rmsprop, decay_rate: 0.9, epsilon: 1e-3, epsilon_inside: false, momentum: 0.9");
  check_path("rmsprop_all",
             "type: rmsprop, decay_rate: 0.9, epsilon: 1e-3, epsilon_inside: false, momentum: 0.8, "
             "centered: true, weight_decay: 0.02");
  check_path("adagrad", "type: adagrad");
  check_path("adagrad_decay",
             "type: adagrad, epsilon: 1e-3, initial_accumulator_value: 0.1, weight_decay: 0.02");
  check_path("adadelta_decay",
             "type: adadelta, decay_rate: 0.8, epsilon: 1e-3, weight_decay: 0.02");
  check_path("nadam_l2",
             "type: nadam, momentum_decay: 1, weight_decay: 0.02, decoupled_weight_decay: false");
  check_path("radam_l2",
             "type: radam, beta2: 0.9, weight_decay: 0.02, decoupled_weight_decay: false");
  check_path("adagrad_start", "type: adagrad, epsilon: 1e-7, initial_accumulator_value: 0.1",
             "{l2: 0.02}");
  check_path("adadelta", "type: adadelta");
  check_path("nadam", "type: nadam");
  check_path("nadam_decay", "type: nadam, momentum_decay: 1, weight_decay: 0.01" + clip);
  check_path("radam", "type: radam");
  check_path("radam_decay", "type: radam, beta2: 0.9, weight_decay: 0.01");
  check_path("lion", "type: lion");
  check_path("lion_decay",
             "type: lion, beta1: 0.8, beta2: 0.9, weight_decay: 0.01, grad_clipping: {type: "
             "by_value, clip_value: 0.5}");
  check_path("ftrl", "type: ftrl");
  check_path("ftrl_sparse", "type: ftrl, beta: 0.5, l1: 0.3, l2: 0.2");
  check_path("lars", "type: lars, lars_coefficient: 0.02, weight_decay: 0.01");
  check_path("lamb", "type: lamb, weight_decay: 0.01");
  check_path("adafactor", "type: adafactor");
  check_path("adafactor_decay",
             "type: adafactor, beta2_decay: -0.5, epsilon1: 0.3, epsilon2: 0.7, clip_threshold: "
             "1.25, weight_decay: 0.01");
  check_path("muon", "type: muon");
  check_path("muon_rms",
             "type: muon, weight_decay: 0.01, beta1: 0.8, beta2: 0.9, epsilon: 1e-3, norm_epsilon: "
             "1.5, momentum: 0.8, nesterov: false, newton_schulz_steps: 3, adjust_learning_rate: "
             "match_rms_adamw");
  check_path("lookahead", "type: sgd, lookahead: {steps: 5}");
  check_path("lookahead_adamw",
             "type: adamw, weight_decay: 0.01, lookahead: {steps: 7, alpha: 0.8}" + clip,
             "{l2: 0.02}");
}

TEST_CASE("a quarter of the rate times four is the rate, in every optimizer", "[job]") {
  const auto check_scaled = [](const std::string& name, const std::string& optimizer) {
    check_path(name, optimizer + ", learning_rate_scales: {\"**\": 4}", {}, "[0.025, 0.0125]");
  };
  check_scaled("sgd", "type: sgd");
  check_scaled("sgd_nesterov", "type: sgd, momentum: 0.9, nesterov: true");
  check_scaled("sgdw", "type: sgdw, weight_decay: 0.01");
  check_scaled("adamw", "type: adamw, weight_decay: 0.01");
  check_scaled("rmsprop", "type: rmsprop");
  check_scaled("rmsprop_centered", "type: rmsprop, centered: true");
  check_scaled("sgd_nesterov_decay",
               "type: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.02");
  check_scaled("adamw_amsgrad",
               "type: adamw, beta1: 0.8, beta2: 0.9, amsgrad: true, weight_decay: 0.01");
  check_scaled("adagrad", "type: adagrad");
  check_scaled("adadelta", "type: adadelta");
  check_scaled("nadam", "type: nadam");
  check_scaled("radam_decay", "type: radam, beta2: 0.9, weight_decay: 0.01");
  check_scaled("lion", "type: lion");
  check_scaled("ftrl_sparse", "type: ftrl, beta: 0.5, l1: 0.3, l2: 0.2");
  check_scaled("lars", "type: lars, lars_coefficient: 0.02, weight_decay: 0.01");
  check_scaled("lamb", "type: lamb, weight_decay: 0.01");
  check_scaled("adafactor", "type: adafactor");
  check_scaled("muon", "type: muon");
}

TEST_CASE("products of momenta are those of all steps", "[job]") {
  for (const double decay : {0.96, 0.9998, 1.0, 0.5, 0.0}) {
    double product = 1, fading = 1;
    for (int64_t step = 0; step < 60; ++step) {
      fading *= decay;
      product *= 0.9 * (1 - 0.5 * fading);
      const double next = 0.9 * (1 - 0.5 * fading * decay);
      const NadamFactors factors = nadam_factors(0.9, decay, step);
      CHECK(factors.gradient ==
            Approx((1 - 0.9 * (1 - 0.5 * fading)) / (1 - product)).epsilon(1e-12));
      CHECK(factors.mean == Approx(next / (1 - product * next)).epsilon(1e-12));
    }
  }
}

TEST_CASE("momenta near 1 take no loop over all steps", "[job]") {
  // Momentum is beta1 from the first step on. A loop over 2^50 steps would not end.
  const double beta1 = 1 - 0x1p-50;
  const NadamFactors factors = nadam_factors(beta1, 0, int64_t{1} << 50);
  CHECK(factors.mean == Approx(1 / (1 - std::exp(-1.0))).epsilon(1e-6));
}

}  // namespace flow::test
