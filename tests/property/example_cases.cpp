// Random calls made from the examples in the records of ops.
#include "tests/property/example_cases.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/base/element_types.h"
#include "runtime/plan/model/cost.h"
#include "tests/property/cases/draw.h"
#include "tests/support/example.h"

namespace flow::test {
namespace {

using Examples = std::vector<std::string_view>;

const ops::OpSpec& op_of(std::string_view example) {
  return *ops::find_spec(example.substr(0, example.find('(')));
}

/// The ops of which calls can be taken from the example's jobs.
std::set<const ops::OpSpec*> ops_in(std::string_view example) {
  std::set<const ops::OpSpec*> found{&op_of(example)};
  if (!has_gradient(example, false)) return found;
  const plan::Job job = gradient_job_of_example(example, false);
  for (const plan::Step& step : job.steps)
    if (step.op->internal) found.insert(step.op.spec());
  return found;
}

const Examples& examples_with(std::string_view op) {
  static const std::map<std::string_view, Examples> kAll = [] {
    std::map<std::string_view, Examples> all;
    for (const ops::OpSpec* spec : ops::all_specs())
      for (const std::string_view example : spec->infer ? spec->examples : Examples())
        for (const ops::OpSpec* one : ops_in(example)) all[one->name].push_back(example);
    return all;
  }();
  const auto found = kAll.find(op);
  FLOW_CHECK(found != kAll.end(),
             "no random calls of {}: give it an example, or add them to tests/property/cases", op);
  return found->second;
}

/// The example with each dtype and extent replaced.
template <typename Replace>
std::string with_operands(std::string_view example, Replace replace) {
  const size_t open = example.find('('), close = example.find(')');
  std::string made(example.substr(0, open)), word;
  for (const char c : example.substr(open, close + 1 - open)) {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (!word.empty()) made += replace(word);
    word.clear();
    made += c;
  }
  return made + std::string(example.substr(close + 1));
}

/// Extents as any_shape draws them; now and then two in the place of one.
std::vector<std::string> draw_axes(Random& random, size_t count) {
  Integers extents(count);
  draw_extents(random, extents);
  std::vector<std::string> axes;
  for (const int64_t e : extents) {
    axes.push_back(std::to_string(e));
    if (random_between(random, 0, 2) == 0) axes.back() += "," + std::to_string(extent(random, 3));
  }
  return axes;
}

/// The example with other extents and integer dtypes. What was equal stays so; an extent of 1,
/// which may be repeated, stays 1.
std::string redrawn(std::string_view example, Random& random) {
  std::map<std::string, std::string> drawn;
  with_operands(example, [&](const std::string& word) { return drawn[word] = word; });
  std::vector<std::string*> extents;
  constexpr std::string_view kIntegers[] = {"i8", "i32", "i64", "u8"};
  for (auto& [word, instead] : drawn) {
    if (std::ranges::find(kIntegers, word) != std::end(kIntegers)) {
      instead = kIntegers[random_between(random, 0, 3)];
    } else if (std::isdigit(static_cast<unsigned char>(word[0])) && word != "1") {
      extents.push_back(&instead);
    }
  }
  const std::vector<std::string> axes = draw_axes(random, extents.size());
  for (size_t i = 0; i < extents.size(); ++i) *extents[i] = axes[i];
  return with_operands(example, [&](const std::string& word) { return drawn.at(word); });
}

/// Is the reference done with it soon?
bool is_cheap(const plan::Job& job) {
  double elements = 0, operations = 0;
  for (const plan::Tensor& tensor : job.tensors)
    elements += static_cast<double>(tensor.shape.elements());
  for (const plan::Step& step : job.steps) operations += plan::flops(job, step);
  return elements < 1e6 && operations < 1e7;
}

/// The job of the example in which the op is called.
plan::Job job_with(std::string_view op, std::string_view example) {
  return op_of(example).name == op ? job_of_example(example, false)
                                   : gradient_job_of_example(example, false);
}

/// The same of a redrawn example; nothing if it is invalid or takes long.
std::optional<plan::Job> usable_job(std::string_view op, std::string_view example) {
  if (!is_valid_example(example, false)) return {};
  plan::Job job = job_with(op, example);
  const auto is_call = [&](const plan::Step& step) { return step.op.name() == op; };
  if (!is_cheap(job) || std::ranges::none_of(job.steps, is_call)) return {};
  return job;
}

plan::Job redrawn_job(std::string_view op, std::string_view example, Random& random) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i)
    if (auto job = usable_job(op, redrawn(example, random))) return *std::move(job);
  return job_with(op, example);
}

/// An operand in whose memory the first result may lie, or none.
int draw_alias(const KernelCase& one, Random& random) {
  std::vector<int> choices{-1};
  for (const size_t i : ops::find_spec(one.op)->in_place)
    if (i < one.inputs.size() && one.inputs[i].dtype() == one.results[0].dtype &&
        one.inputs[i].shape() == one.results[0].shape)
      choices.push_back(static_cast<int>(i));
  const int64_t last = std::ssize(choices) - 1;
  return choices[static_cast<size_t>(random_between(random, 0, last))];
}

KernelCase case_of(const plan::Job& job, const plan::Step& step, const Arrays& values) {
  KernelCase one{step.op.name(), {step.attributes.begin(), step.attributes.end()}, {}, {}};
  for (const plan::TensorId id : step.inputs) one.inputs.push_back(values.at(job[id].name));
  for (const plan::TensorId id : step.outputs)
    one.results.push_back({job[id].dtype, job[id].shape});
  return one;
}

/// Numbers in [-1, 1] become numbers of the domain.
void move_into(ops::Domain domain, Array& array) {
  visit_float(array.dtype(), [&]<typename T>(T) {
    for (T& x : array.as<T>()) {
      if (domain == ops::Domain::kPositive) x = std::abs(x) + T(0.1);
      if (domain == ops::Domain::kWide) x *= 8;
      if (domain == ops::Domain::kInside) x *= T(0.9);
      if (domain == ops::Domain::kAboveOne) x = std::abs(x) + T(1.1);
    }
  });
}

/// Operand i of the call.
Array random_operand(const plan::Job& job, const plan::Step& call, size_t i, Random& random) {
  const plan::Tensor& tensor = job[call.inputs[i]];
  if (const ops::LimitRule limit = call.op->operand(i, tensor.dtype).limit) {
    std::vector<Shape> shapes;
    for (const plan::TensorId id : call.inputs) shapes.push_back(job[id].shape);
    return random_labels(random, tensor.dtype, tensor.shape, limit(shapes, call.attributes));
  }
  Array array = random_array(random, tensor.dtype, tensor.shape);
  if (is_float(tensor.dtype)) move_into(call.op->domain, array);
  return array;
}

/// Operand i of a layer. Operands of integers only are indices, of which examples have at least 10.
Array operand_of_layer(const ops::OpSpec& layer, size_t i, const plan::Tensor& tensor,
                       Random& random) {
  if (layer.operand(i).accepts == ops::Accepts::kInteger)
    return random_labels(random, tensor.dtype, tensor.shape, 10);
  Array array = random_array(random, tensor.dtype, tensor.shape);
  if (is_float(tensor.dtype)) move_into(layer.domain, array);
  return array;
}

}  // namespace

Arrays inputs_of_example(std::string_view example, const plan::Job& job, Random& random) {
  const ops::OpSpec& op = op_of(example);
  if (op.infer) return random_inputs(job, random);
  Arrays values;
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    const plan::Tensor& tensor = job[job.inputs[i].tensor];
    values.emplace(tensor.name, tensor.name.starts_with("in_")
                                    ? random_array(random, tensor.dtype, tensor.shape)
                                    : operand_of_layer(op, i, tensor, random));
  }
  return values;
}

Arrays random_inputs(const plan::Job& job, Random& random) {
  const plan::Step& call = job.steps.front();
  Arrays values;
  for (const plan::Input& input : job.inputs) {
    const plan::Tensor& tensor = job[input.tensor];
    const auto place = std::ranges::find(call.inputs, input.tensor);
    const auto i = static_cast<size_t>(place - call.inputs.begin());
    values.emplace(tensor.name, i < call.inputs.size()
                                    ? random_operand(job, call, i, random)
                                    : random_array(random, tensor.dtype, tensor.shape));
  }
  return values;
}

KernelCase example_case(const std::string& op, Random& random) {
  const Examples& examples = examples_with(op);
  const int64_t last = std::ssize(examples) - 1;
  const plan::Job job =
      redrawn_job(op, examples[static_cast<size_t>(random_between(random, 0, last))], random);
  Arrays values = random_inputs(job, random);
  for (const plan::Step& step : job.steps) {
    KernelCase one = case_of(job, step, values);
    if (step.op.name() == op) {
      one.results[0].alias = draw_alias(one, random);
      return one;
    }
    KernelRun run = run_kernel(one, {cpu::reference_kernels()});
    for (size_t i = 0; i < one.results.size(); ++i)
      values.insert_or_assign(job[step.outputs[i]].name, std::move(run.outputs[i]));
  }
  throw std::logic_error("no step of " + op);
}

int64_t terms_of_example(const KernelCase& one) {
  int64_t most = 0;
  for (const Array& input : one.inputs) most = std::max(most, input.shape().elements());
  const bool wide = std::ranges::any_of(examples_with(one.op), [](std::string_view example) {
    return op_of(example).domain == ops::Domain::kWide;
  });
  const int64_t least = ops::find_spec(one.op)->elementwise && !wide ? 1 : 2;
  const int64_t terms = std::max(least, most / one.results[0].shape.elements());
  return wide ? 8 * terms : terms;
}

}  // namespace flow::test
