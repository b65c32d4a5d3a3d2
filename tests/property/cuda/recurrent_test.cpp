// Recurrent layers by the library, beside the reference's products and steps in float64.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "ops/recurrent/cuda_library.h"
#include "tests/property/cuda/device_case.h"

namespace flow::test {
namespace {

using cuda::RecurrentSpec;

constexpr int64_t kLayerRows = 3, kSteps = 7, kFeatures = 5, kUnits = 4;

/// A cell of the plan, and which of its operands and results are what.
struct TestedCell {
  std::string op;
  RecurrentSpec::Cell cell;
  int64_t gates;
  std::vector<std::pair<std::string, plan::Attribute>> attributes;
  bool has_c = false, has_hidden = false;

  int64_t width() const { return gates * kUnits; }
};

TestedCell lstm() { return {"lstm_steps", RecurrentSpec::Cell::kLstm, 4, {}, true}; }
TestedCell gru() {
  return {"gru_steps", RecurrentSpec::Cell::kGru, 3, {{"linear_before_reset", true}}, false, true};
}
TestedCell tanh_cell() {
  return {"rnn_steps", RecurrentSpec::Cell::kTanh, 1, {{"activation", std::string("tanh")}}};
}

Array multiplied(const Array& a, bool transpose_a, const Array& b, bool transpose_b) {
  const int64_t m = a.shape()[transpose_a ? 1 : 0], k = a.shape()[transpose_a ? 0 : 1],
                n = b.shape()[transpose_b ? 0 : 1];
  Array made(DType::kFloat64, {m, n});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += number_at(a, transpose_a ? l * m + i : i * k + l) *
               number_at(b, transpose_b ? j * k + l : l * n + j);
      made.as<double>()[static_cast<size_t>(i * n + j)] = sum;
    }
  return made;
}

Array column_sums(const Array& rows) {
  Array ones(DType::kFloat64, {1, rows.shape()[0]});
  std::ranges::fill(ones.as<double>(), 1.0);
  return multiplied(ones, false, rows, false);
}

Array reshaped(const Array& from, const Shape& shape) {
  Array made(from.dtype(), shape);
  std::ranges::copy(from.bytes(), made.bytes().begin());
  return made;
}

/// Operands of a layer, and gradients of its results.
struct LayerOperands {
  Array x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, dy, dh, dc;

  LayerOperands(const TestedCell& cell, DType dtype) {
    Random random(7);
    const auto draw = [&](const Shape& shape) {
      const Array drawn = random_array(random, DType::kFloat32, shape);
      return dtype == DType::kFloat64 ? widened(drawn) : drawn;
    };
    x = draw({kLayerRows * kSteps, kFeatures});
    weight_ih = draw({cell.width(), kFeatures}), weight_hh = draw({cell.width(), kUnits});
    bias_ih = draw({cell.width()}), bias_hh = draw({cell.width()});
    dy = draw({kLayerRows, kSteps, kUnits});
    for (Array* state : {&h0, &c0, &dh, &dc}) *state = draw({kLayerRows, kUnits});
  }
};

struct LayerResults {
  std::vector<std::pair<std::string, Array>> named;

  void add(const std::string& name, const Array& array) { named.emplace_back(name, array); }
};

/// By the reference, in float64. Every layer has a bias of x, and a GRU one of h.
LayerResults reference_results(const TestedCell& cell, const LayerOperands& of) {
  Array gates = multiplied(of.x, false, of.weight_ih, true);
  for (size_t i = 0; i < gates.as<double>().size(); ++i)
    gates.as<double>()[i] += number_at(of.bias_ih, static_cast<int64_t>(i) % cell.width());
  const Shape state{kLayerRows, kUnits}, all{kLayerRows, kSteps, kUnits};
  KernelCase forward{cell.op, cell.attributes, {}, {}};
  forward.attributes.emplace_back("reverse", false);
  KernelCase backward = forward;
  backward.op += "_grad";
  const auto result = [](KernelCase& one, const Shape& shape) {
    one.results.push_back({DType::kFloat64, shape});
  };
  forward.inputs = {reshaped(gates, {kLayerRows, kSteps, cell.width()}), widened(of.weight_hh)};
  if (cell.has_hidden) forward.inputs.push_back(widened(of.bias_hh));
  forward.inputs.push_back(widened(of.h0));
  if (cell.has_c) forward.inputs.push_back(widened(of.c0));
  result(forward, all), result(forward, state);
  if (cell.has_c) result(forward, state);
  if (cell.gates > 1) result(forward, {kLayerRows, kSteps, cell.has_c ? cell.width() : 4 * kUnits});
  if (cell.has_c) result(forward, all);
  const KernelRun made = run_kernel(forward, {cpu::reference_kernels()});

  backward.inputs = {widened(of.dy), widened(of.dh)};
  if (cell.has_c) backward.inputs.push_back(widened(of.dc));
  backward.inputs.insert(backward.inputs.end(), {widened(of.weight_hh), widened(of.h0)});
  if (cell.has_c) backward.inputs.push_back(widened(of.c0));
  backward.inputs.push_back(made.outputs[0]);
  for (size_t i = cell.has_c ? 3 : 2; i < made.outputs.size(); ++i)
    backward.inputs.push_back(made.outputs[i]);
  result(backward, {kLayerRows, kSteps, cell.width()}), result(backward, all),
      result(backward, state);
  if (cell.has_c) result(backward, state);
  if (cell.has_hidden) result(backward, {kLayerRows, kSteps, cell.width()});
  const KernelRun gradients = run_kernel(backward, {cpu::reference_kernels()});

  const Shape flat{kLayerRows * kSteps, cell.width()};
  const Array dgates = reshaped(gradients.outputs[0], flat),
              dhidden = cell.has_hidden ? reshaped(gradients.outputs[3], flat) : dgates,
              previous = reshaped(gradients.outputs[1], {kLayerRows * kSteps, kUnits});
  LayerResults results;
  results.add("out", made.outputs[0]);
  results.add("h", made.outputs[1]);
  if (cell.has_c) results.add("c", made.outputs[2]);
  results.add("dx", multiplied(dgates, false, of.weight_ih, false));
  results.add("dh0", gradients.outputs[2]);
  if (cell.has_c) results.add("dc0", gradients.outputs[3]);
  results.add("dweight_ih", multiplied(dgates, true, of.x, false));
  results.add("dweight_hh", multiplied(dhidden, true, previous, false));
  results.add("dbias_ih", column_sums(dgates));
  if (cell.has_hidden) results.add("dbias_hh", column_sums(dhidden));
  return results;
}

RecurrentSpec spec_of_cell(const TestedCell& cell, DType dtype) {
  RecurrentSpec spec{
      RecurrentSpec::Pass::kForward, cell.cell, dtype, kLayerRows, kSteps, kFeatures, kUnits};
  spec.input_bias = true;
  spec.recurrent_bias = cell.has_hidden;
  spec.trains = true;
  return spec;
}

/// By the library.
LayerResults library_results(const TestedCell& cell, const LayerOperands& of, int64_t reserve) {
  const DType dtype = of.x.dtype();
  const Shape state{kLayerRows, kUnits}, all{kLayerRows, kSteps, kUnits};
  KernelCase forward{cell.op, cell.attributes, {}, {}};
  for (const auto& [name, value] :
       {std::pair("reverse", false), {"input_bias", true}, {"recurrent_bias", cell.has_hidden}})
    forward.attributes.emplace_back(name, value);
  KernelCase backward = forward;
  backward.op += "_grad";
  forward.inputs = {of.x, of.weight_ih, of.weight_hh, of.h0};
  if (cell.has_c) forward.inputs.push_back(of.c0);
  forward.inputs.push_back(of.bias_ih);
  if (cell.has_hidden) forward.inputs.push_back(of.bias_hh);
  forward.results = {{dtype, all}, {dtype, state}};
  if (cell.has_c) forward.results.push_back({dtype, state});
  forward.results.push_back({DType::kUInt8, {reserve}});
  const KernelRun made = run_on_device(forward).run;

  backward.inputs = {of.dy, of.dh};
  if (cell.has_c) backward.inputs.push_back(of.dc);
  backward.inputs.push_back(of.h0);
  if (cell.has_c) backward.inputs.push_back(of.c0);
  backward.inputs.insert(backward.inputs.end(), {made.outputs[0], made.outputs.back(), of.x});
  backward.results = {{dtype, {kLayerRows * kSteps, kFeatures}},
                      {dtype, state},
                      {dtype, state, -1, !cell.has_c},
                      {dtype, {cell.width(), kFeatures}},
                      {dtype, {cell.width(), kUnits}},
                      {dtype, {cell.width()}},
                      {dtype, {cell.width()}, -1, !cell.has_hidden}};
  const KernelRun gradients = run_on_device(backward).run;
  LayerResults results;
  results.add("out", made.outputs[0]);
  results.add("h", made.outputs[1]);
  if (cell.has_c) results.add("c", made.outputs[2]);
  const char* names[] = {"dx", "dh0", "dc0", "dweight_ih", "dweight_hh", "dbias_ih", "dbias_hh"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (!backward.results[i].unused) results.add(names[i], gradients.outputs[i]);
  return results;
}

}  // namespace

TEST_CASE("the library's recurrent layers and their gradients are the reference's", "[cuda]") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  for (const TestedCell& cell : {lstm(), gru(), tanh_cell()}) {
    const LayerOperands operands(cell, dtype);
    const auto device = open_test_device(LaneOrder::kForward);
    const Expected<cuda::RecurrentKernel> kernel =
        device->libraries().find(spec_of_cell(cell, dtype));
    CAPTURE(cell.op, name_of(dtype));
    REQUIRE(kernel);
    const auto reserve = static_cast<int64_t>(cuda::reserve_bytes(*kernel));
    device->finish();
    const LayerResults got = library_results(cell, operands, reserve),
                       again = library_results(cell, operands, reserve),
                       expected = reference_results(cell, operands);
    REQUIRE(got.named.size() == expected.named.size());
    const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 1e-13;
    for (size_t i = 0; i < got.named.size(); ++i) {
      const auto& [name, array] = got.named[i];
      CAPTURE(name);
      REQUIRE(name == expected.named[i].first);
      CHECK(std::ranges::equal(array.bytes(), again.named[i].second.bytes()));
      double largest = 0, difference = 0;
      for (int64_t k = 0; k < array.shape().elements(); ++k) {
        const double want = number_at(expected.named[i].second, k);
        largest = std::max(largest, std::abs(want));
        difference = std::max(difference, std::abs(number_at(array, k) - want));
      }
      CHECK(difference <= tolerance * largest);
    }
  }
}

}  // namespace flow::test
