// Runs single kernels for the property tests.
#include "tests/property/kernel_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "ops/core/spec.h"
#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::test {
namespace {

/// 64-byte aligned memory, filled with bytes that no result should keep, as is a margin behind it.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : bytes_(bytes),
        size_((bytes + 191) / 64 * 64),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, size_))) {
    std::memset(data_.get(), kFilling, size_);
  }
  std::byte* data() const { return data_.get(); }
  /// Was nothing written behind it?
  bool has_margin() const {
    return std::all_of(data() + bytes_, data() + size_,
                       [](std::byte byte) { return byte == std::byte{kFilling}; });
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  static constexpr uint8_t kFilling = 0xA5;
  size_t bytes_, size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// Which 4-D operands lie channels-last: activations, not the weights of a convolution.
bool is_activation(const std::string& op, bool input, size_t i) {
  const ops::OpSpec& spec = *ops::find_spec(op);
  return (input ? spec.operand(i).images : spec.result(i).images) != ops::Images::kFilters;
}

cpu::TensorDesc describe(const KernelCase& one, bool input, size_t i, cpu::Layout layout) {
  const Result output = input ? Result{} : one.results[i];
  const Shape& shape = input ? one.inputs[i].shape() : output.shape;
  const bool lies_so = shape.rank() == 4 && is_activation(one.op, input, i);
  return {{"operand", input ? one.inputs[i].dtype() : output.dtype, shape},
          lies_so ? layout : cpu::Layout::kPlain};
}

void copy_laid_out(const cpu::TensorDesc& desc, cpu::Layout from, const std::byte* in,
                   cpu::Layout to, std::byte* out) {
  if (from == to)
    std::memcpy(out, in, static_cast<size_t>(desc.shape.elements()) * size_of(desc.dtype));
  else
    cpu::reorder(1, size_of(desc.dtype), desc.shape, from, in, to, out);
}

}  // namespace

std::string KernelCase::str() const {
  std::string text = op + "(";
  for (const Array& input : inputs)
    text += fmt::format("{}{} ", name_of(input.dtype()), input.shape().str());
  text += ")";
  for (const auto& [name, value] : attributes) {
    text += " " + name;
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
      text += "=" + Shape(*integers).str();
    if (const auto* integer = std::get_if<int64_t>(&value)) text += fmt::format("={}", *integer);
    if (const auto* number = std::get_if<double>(&value)) text += fmt::format("={}", *number);
    if (const auto* flag = std::get_if<bool>(&value)) text += fmt::format("={}", *flag);
  }
  return text;
}

KernelRun run_kernel(const KernelCase& one, const KernelSettings& settings) {
  plan::Step step;
  step.op = step.name = one.op;
  step.where = "job.yaml:1:1";
  for (const auto& [name, value] : one.attributes) step.attributes.set(name, value);
  cpu::Request request{{.step = step, .seed = 7}, settings.threads};
  std::vector<Memory> memory;
  std::vector<std::byte*> inputs, outputs;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const cpu::TensorDesc desc = describe(one, true, i, settings.layout);
    memory.emplace_back(one.inputs[i].bytes().size());
    copy_laid_out(desc, cpu::Layout::kPlain, one.inputs[i].bytes().data(), desc.layout,
                  memory.back().data());
    inputs.push_back(memory.back().data());
    request.inputs.push_back(desc);
  }
  for (size_t i = 0; i < one.results.size(); ++i) {
    const cpu::TensorDesc desc = describe(one, false, i, settings.layout);
    const int alias = one.results[i].alias;
    if (alias < 0)
      memory.emplace_back(static_cast<size_t>(desc.shape.elements()) * size_of(desc.dtype));
    outputs.push_back(alias < 0 ? memory.back().data() : inputs[static_cast<size_t>(alias)]);
    request.outputs.push_back(desc);
  }
  const cpu::Kernel kernel = cpu::find_kernel(settings.kernels, one.op)->prepare(request);
  const Memory workspace(kernel.workspace);
  KernelRun run;
  cpu::CallState state{
      .step = settings.step, .learning_rate = settings.learning_rate, .fault = &run.fault};
  kernel.launch({inputs, outputs, {}, workspace.data()}, state);
  FLOW_CHECK(workspace.has_margin() && std::ranges::all_of(memory, &Memory::has_margin),
             "{} writes beyond its memory", one.op);
  for (size_t i = 0; i < one.results.size(); ++i) {
    Array array(one.results[i].dtype, one.results[i].shape);
    copy_laid_out(request.outputs[i], request.outputs[i].layout, outputs[i], cpu::Layout::kPlain,
                  array.bytes().data());
    run.outputs.push_back(std::move(array));
  }
  return run;
}

bool has_dtype_attribute(const std::string& op) {
  const auto is_dtype = [](const auto& attribute) { return attribute.kind == ops::Kind::kDType; };
  return std::ranges::any_of(ops::find_spec(op)->plan_attributes, is_dtype);
}

bool takes_channels_last(const KernelCase& one) {
  if (cpu::find_kernel(cpu::fast_kernels(), one.op)->layouts == cpu::Layouts::kPlain) return false;
  for (const Array& input : one.inputs)
    if (input.shape().rank() == 4 && !cpu::layouts_coincide(input.shape())) return true;
  return false;
}

int64_t random_between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Array random_array(Random& random, DType dtype, const Shape& shape) {
  Array array(dtype, shape);
  if (dtype == DType::kBool) {
    for (bool& element : array.as<bool>()) element = random_between(random, 0, 1) == 1;
  } else if (is_integer(dtype)) {
    cpu::visit_integer(dtype, [&]<typename T>(T) {
      for (T& element : array.as<T>())
        element = static_cast<T>(random_between(random, std::is_signed_v<T> ? -9 : 0, 9));
    });
  } else {
    std::uniform_real_distribution<double> uniform(-1, 1);
    cpu::visit_float(dtype, [&]<typename T>(T) {
      for (T& element : array.as<T>()) element = static_cast<T>(uniform(random));
    });
  }
  return array;
}

Array random_labels(Random& random, DType dtype, const Shape& shape, int64_t classes) {
  Array array(dtype, shape);
  cpu::visit_integer(dtype, [&]<typename T>(T) {
    for (T& element : array.as<T>())
      element = static_cast<T>(random_between(random, 0, std::min<int64_t>(classes, 127) - 1));
  });
  return array;
}

Array widened(const Array& array) {
  if (array.dtype() != DType::kFloat32) return array;
  Array wide(DType::kFloat64, array.shape());
  std::copy(array.as<float>().begin(), array.as<float>().end(), wide.as<double>().begin());
  return wide;
}

KernelCase widened(const KernelCase& one) {
  KernelCase wide = one;
  for (Array& input : wide.inputs) input = widened(input);
  for (Result& result : wide.results)
    if (result.dtype == DType::kFloat32) result.dtype = DType::kFloat64;
  return wide;
}

namespace {

Array converted(const Array& array, DType to) {
  return visit_any_float(array.dtype(), [&]<typename From>(From) {
    return visit_any_float(to, [&]<typename To>(To) {
      Array made(to, array.shape());
      std::ranges::transform(array.as<From>(), made.as<To>().begin(), convert<To, From>);
      return made;
    });
  });
}

}  // namespace

KernelCase rounded(const KernelCase& one, DType low_precision) {
  KernelCase made = one;
  for (Array& input : made.inputs)
    if (input.dtype() == DType::kFloat32) input = converted(input, low_precision);
  if (one.op != "matmul" && one.op != "bias_add_grad")
    for (Result& result : made.results)
      if (result.dtype == DType::kFloat32) result.dtype = low_precision;
  return made;
}

KernelCase in_float32(const KernelCase& low_precision) {
  KernelCase made = low_precision;
  for (Array& input : made.inputs)
    if (is_low_precision(input.dtype())) input = converted(input, DType::kFloat32);
  for (Result& result : made.results)
    if (is_low_precision(result.dtype)) result.dtype = DType::kFloat32;
  return made;
}

double number_at(const Array& array, int64_t i) {
  return visit_dtype(array.dtype(), [&]<typename T>(T) {
    return convert<double>(reinterpret_cast<const T*>(array.bytes().data())[i]);
  });
}

}  // namespace flow::test
