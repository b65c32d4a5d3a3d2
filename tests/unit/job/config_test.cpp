// Job files written out: every op means the same with its defaults and without them.
#include <fmt/format.h>

#include "compiler/ir/describe_ops.h"
#include "runtime/base/text.h"
#include "runtime/plan/serialize.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

std::string written(const std::string& text, Writing writing) {
  CompileRequest request;
  request.file = "job.yaml";
  request.writing = writing;
  return compile_text(request, text).job_file;
}

/// The dtypes of examples: "f32", "bool".
std::string dtype_named(const std::string& word) {
  for (const DType dtype : all_dtypes()) {
    const std::string name(name_of(dtype));
    const size_t digits = name.find_first_of("0123456789");
    const bool is_short =
        digits != std::string::npos && word == name.substr(0, 1) + name.substr(digits);
    if (word == name || is_short) return name;
  }
  return {};
}

std::string job_of_call(const std::string& inputs, const std::string& call,
                        const std::string& result = "y") {
  return fmt::format(
      "flow: 1\njobs:\n  j:\n    type: predict\n    inputs: {{{}}}\n    graph: {{y: {{{}}}}}\n"
      "    returns: {{value: {}}}\n    run: {{checkpoint: {{load: none}}}}\n",
      inputs, call, result);
}

/// An attribute's value as job files write it: examples have pads in a row, [0,1,2,3].
std::string value_named(const ops::AttributeSpec& def, const std::string& text) {
  if (def.type == ops::AttributeType::kIndex || def.type == ops::AttributeType::kEquation)
    return fmt::format("\"{}\"", text);
  const bool in_a_row = def.type == ops::AttributeType::kPadding && text.starts_with('[');
  if (!in_a_row || text.starts_with("[[")) return text;
  const std::vector<std::string> numbers = split(text.substr(1, text.size() - 2), ',');
  std::vector<std::string> nested;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    nested.push_back(fmt::format("[{}, {}]", numbers[i], numbers[i + 1]));
  return fmt::format("[{}]", join(nested, ", "));
}

/// The job file of an example: "softmax(f32[3,4,2]) axis=1".
std::string job_of(const ops::OpSpec& op, const std::string& example) {
  const size_t open = example.find('('), close = example.find(')');
  std::vector<std::string> inputs, names;
  std::string named;  // operands that their dtypes tell apart
  for (std::string rest = example.substr(open + 1, close - open - 1); !rest.empty();) {
    const size_t shape = rest.find('['), end = rest.find(']') + 1;
    const std::string name = fmt::format("in{}", inputs.size());
    const std::string dtype = dtype_named(rest.substr(0, shape));
    const ops::OperandSpec& operand = op.operand(inputs.size(), *parse_dtype(dtype));
    inputs.push_back(
        fmt::format("{}: {{shape: {}, dtype: {}}}", name, rest.substr(shape, end - shape), dtype));
    if (op.optional_by_dtype && operand.optional)
      named += fmt::format(", {}: {}", operand.name, name);
    else
      names.push_back(name);
    rest.erase(0, std::min(rest.size(), end));
    rest.erase(0, std::min(rest.size(), rest.find_first_not_of(", ")));
  }
  std::string call = fmt::format("op: {}, in: [{}]{}", op.name, join(names, ", "), named);
  for (const std::string& word : split(example.substr(close + 1), ' ')) {
    const size_t equals = word.find('=');
    if (word.empty()) continue;
    const std::string name = word.substr(0, equals);
    call +=
        fmt::format(", {}: {}", name, value_named(*op.attribute(name), word.substr(equals + 1)));
  }
  return job_of_call(join(inputs, ", "), call, op.results[0].variadic ? "y.out0" : "y");
}

void check_forms(const std::string& text) {
  CAPTURE(text);
  const std::string hash = plan::hash(plan_of(text));
  for (const Writing writing : {Writing::kResolved, Writing::kFull, Writing::kMinimal}) {
    const std::string form = written(text, writing);
    CAPTURE(form);
    CHECK(plan::hash(plan_of(form)) == hash);
    CHECK(written(form, writing) == form);
  }
}

}  // namespace

TEST_CASE("Every op means the same with its defaults written out, and without them", "[job]") {
  size_t examples = 0;
  for (const ops::OpSpec* op : ops::written_specs())
    for (const std::string_view example : op->examples) {
      check_forms(job_of(*op, std::string(example)));
      ++examples;
    }
  CHECK(examples > 100);
}

TEST_CASE("So does every layer", "[job]") {
  const std::pair<const char*, const char*> kLayers[] = {
      {"[4, 8], dtype: float32", "op: dense, units: 3"},
      {"[4, 8], dtype: float32",
       "op: dense, units: 3, kernel_initializer: {type: kaiming, mode: fan_in}, bias_regularizer: "
       "{l2: 0.1}, trainable: true"},
      {"[4, 8, 5], dtype: float32", "op: conv1d, filters: 3, kernel_size: 3, strides: 1"},
      {"[4, 8, 5, 5], dtype: float32", "op: conv2d, filters: 4, kernel_size: [3, 3], groups: 2"},
      {"[4, 8, 5, 5], dtype: float32",
       "op: conv2d_transpose, filters: 3, kernel_size: 3, use_bias: true"},
      {"[4, 8, 5, 5], dtype: float32", "op: batch_normalization"},
      {"[4, 8], dtype: float32", "op: layer_norm, epsilon: 0.00001"},
      {"[4, 8], dtype: float32", "op: rms_norm, axis: 0"},
      {"[4, 8, 5, 5], dtype: float32", "op: group_norm, groups: 2"},
      {"[4, 8, 5, 5, 5], dtype: float32", "op: conv3d, filters: 4, kernel_size: [1, 3, 3]"},
      {"[4, 8, 5], dtype: float32", "op: conv1d_transpose, filters: 3, kernel_size: 3"},
      {"[4, 8], dtype: float32", "op: prelu, alpha_initializer: 0.25"},
      {"[4, 8, 5], dtype: float32", "op: instance_norm, epsilon: 0.00001"},
      {"[4, 8], dtype: float32", "op: dropout, rate: 0.5"},
      {"[4, 8], dtype: float32", "op: flatten"},
      {"[4], dtype: int32",
       "op: embedding, vocab_size: 9, units: 2, embeddings_initializer: {type: random_normal, "
       "stddev: 2e-2}"},
      {"[4, 3], dtype: int32",
       "op: embedding_bag, vocab_size: 9, units: 2, mode: mean, padding: 0"},
  };
  for (const auto& [input, call] : kLayers)
    check_forms(
        job_of_call(fmt::format("x: {{shape: {}}}", input), fmt::format("{}, in: x", call)));
  check_forms(job_of_call("", "op: variable, shape: [3], initializer: {type: zeros}"));
}

}  // namespace flow
