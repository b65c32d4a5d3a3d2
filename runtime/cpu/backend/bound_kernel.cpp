// Turns a plan step into actions: chooses its kernel, reorders operands if the kernel requires
// another layout, and runs the epilogue ops that the kernel does not fuse separately on its result.
#include "runtime/cpu/backend/bound_kernel.h"

#include <algorithm>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/onednn_status.h"
#include "runtime/plan/model/cost.h"
#include "runtime/plan/model/shards.h"

namespace flow::cpu {
namespace {

using plan::TensorId;

/// An operand with its description.
struct Value {
  Operand operand;
  TensorDesc desc;
};

bool fits(const TensorDesc& desc, Layout layout) {
  return desc.shape.rank() != 4 || desc.layout == layout || layouts_coincide(desc.shape);
}

bool has_float64(const plan::Job& job, const plan::Step& step) {
  const auto is_float64 = [&](TensorId id) {
    return id.valid() && job[id].dtype == DType::kFloat64;
  };
  return std::ranges::any_of(step.inputs, is_float64) ||
         std::ranges::any_of(step.outputs, is_float64);
}

const KernelEntry& choose_kernel(const plan::Job& job, const plan::Step& step,
                                 std::span<const KernelEntry> kernels) {
  const KernelEntry* entry = nullptr;
  if (kernels.empty() && has_float64(job, step)) {
    entry = find_kernel(double_kernels(), step.op.name());
    kernels = reference_kernels();
  }
  if (!entry) entry = find_kernel(kernels.empty() ? fast_kernels() : kernels, step.op.name());
  if (!entry)
    throw RunError(fmt::format("the CPU has no kernel for `{}`", step.op.name()),
                   "rebuild the plan with this version of flowc");
  return *entry;
}

class KernelBinder {
 public:
  KernelBinder(const BindContext& context, const plan::Step& step)
      : context_(context),
        step_(step),
        index_(static_cast<size_t>(&step - context.job.steps.data())),
        threads_(choose_threads(context.job, step, context.threads)) {}

  BoundKernel build() {
    std::vector<Value> inputs, outputs;
    for (TensorId id : step_.inputs) inputs.push_back(value_of(id));
    for (TensorId id : step_.outputs) outputs.push_back(value_of(id));
    run(step_, std::move(inputs), std::move(outputs));
    bound_.kernel += "; " + counted(static_cast<uint64_t>(threads_), "thread");
    return std::move(bound_);
  }

 private:
  /// A second result that no step reads is described like the first one, because kernels only check
  /// whether it is used.
  Value value_of(TensorId id) const {
    if (!id.valid()) {
      TensorDesc desc = value_of(step_.outputs[0]).desc;
      desc.used = false;
      return {Operand{}, desc};
    }
    const plan::Tensor& tensor = context_.job[id];
    Value value{Operand{Operand::Kind::kTensor, id, 0},
                TensorDesc{{tensor.name, tensor.dtype, tensor.shape, true, tensor.batch_axis},
                           context_.layouts[id.index()]}};
    const exec::TensorSlice slice = context_.division.slice(index_, id);
    if (slice.bounds.empty()) return value;
    value.operand.offset = slice.offset;
    value.desc.shape = {slice.elements};
    value.desc.layout = Layout::kPlain;
    value.desc.bounds = slice.bounds;
    return value;
  }

  size_t reserve(size_t bytes) {
    const size_t offset = bound_.workspace;
    bound_.workspace += round_up(bytes, 64);
    return offset;
  }

  Value temporary(TensorDesc desc) {
    const size_t offset = reserve(bytes_of(desc.shape, desc.dtype));
    return {Operand{Operand::Kind::kWorkspace, TensorId{}, offset}, std::move(desc)};
  }

  void add_reorder(const Value& from, const Value& to) {
    Action action;
    action.inputs = {from.operand};
    action.outputs = {to.operand};
    action.launch = [threads = threads_, element = size_of(from.desc.dtype),
                     shape = from.desc.shape, from_layout = from.desc.layout,
                     to_layout = to.desc.layout](const Buffers& b, const CallState&) {
      reorder(threads, element, shape, from_layout, b.inputs[0], to_layout, b.outputs[0]);
    };
    add_action(std::move(action), "reorder");
  }

  void add_action(Action action, const std::string& what) {
    bound_.kernel += (bound_.kernel.empty() ? "" : ", ") + what;
    bound_.actions.push_back(std::move(action));
  }

  /// Returns the layout in which a kSame kernel sees its 4-D operands.
  static Layout common_layout(const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
    const auto channels_last = [](const Value& value) {
      return value.desc.used && !fits(value.desc, Layout::kPlain);
    };
    return std::ranges::any_of(inputs, channels_last) || std::ranges::any_of(outputs, channels_last)
               ? Layout::kChannelsLast
               : Layout::kPlain;
  }

  /// Returns the values as the kernel requires them: described in its layout, and moved to the
  /// workspace if that changes the order of bytes.
  std::vector<Value> as_wanted(const std::vector<Value>& values, const KernelEntry& kernel,
                               Layout common) {
    std::vector<Value> wanted = values;
    if (kernel.layouts == Layouts::kEach) return wanted;
    for (Value& value : wanted) {
      if (value.desc.shape.rank() != 4 || value.desc.layout == common) continue;
      const bool other_bytes = value.desc.used && !fits(value.desc, common);
      value.desc.layout = common;
      if (other_bytes) value = temporary(value.desc);
    }
    return wanted;
  }

  static bool moved(const Value& given, const Value& wanted) {
    return given.operand.kind != wanted.operand.kind ||
           given.operand.offset != wanted.operand.offset;
  }

  /// Returns true if writing `output` early would destroy an operand of an epilogue op.
  bool overwrites_epilogue_operand(const Value& output) const {
    if (output.operand.kind != Operand::Kind::kTensor) return false;
    const TensorId owner = context_.owners[output.operand.tensor.index()];
    for (const plan::EpilogueOp& fused : step_.epilogue)
      for (TensorId id : fused.operands)
        if (context_.owners[id.index()] == owner) return true;
    return false;
  }

  /// Adds the actions of one op: reorders, the kernel, its epilogue ops, and reorders of results.
  /// If the kernel does not accept 16-bit floats, its operands are widened and its results are
  /// rounded.
  void run(const plan::Step& step, const std::vector<Value>& inputs,
           const std::vector<Value>& outputs) {
    const KernelEntry& entry = choose_kernel(context_.job, step, context_.kernels);
    const bool low_precision = computes_low_precision(step, inputs);
    if ((low_precision && !entry.low_precision) || !run_as_given(entry, step, inputs, outputs))
      run_widened(entry, step, inputs, outputs);
  }

  /// Returns true if the op computes with 16-bit floats or rounds its result, rather than moving
  /// elements.
  static bool computes_low_precision(const plan::Step& step, const std::vector<Value>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_factor(step, inputs, i)) return true;
    return rounds(step);
  }

  static bool rounds(const plan::Step& step) {
    return !step.epilogue.empty() && step.epilogue.back().op->epilogue == ops::Epilogue::kCast;
  }

  static bool is_factor(const plan::Step& step, const std::vector<Value>& inputs, size_t i) {
    return is_low_precision(inputs[i].desc.dtype) && step.op->operand(i).low_precision;
  }

  void run_widened(const KernelEntry& entry, const plan::Step& step, std::vector<Value> inputs,
                   const std::vector<Value>& outputs) {
    const auto wide = [this](TensorDesc desc) {
      desc.dtype = DType::kFloat32;
      return temporary(std::move(desc));
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_factor(step, inputs, i)) continue;
      const Value given = std::exchange(inputs[i], wide(inputs[i].desc));
      add_cast(given, inputs[i]);
    }
    std::vector<Value> made = outputs;
    for (Value& value : made)
      if (value.desc.used && is_low_precision(value.desc.dtype)) value = wide(value.desc);
    plan::Step widened = step;
    if (rounds(step)) widened.epilogue.pop_back();
    FLOW_CHECK(run_as_given(entry, widened, inputs, made), "step {}", step.name);
    for (size_t i = 0; i < made.size(); ++i)
      if (moved(outputs[i], made[i])) add_cast(made[i], outputs[i]);
  }

  void add_cast(const Value& from, const Value& to) {
    plan::Step step;
    step.op = "cast";
    step.attributes.set("dtype", to.desc.dtype);
    run(step, {from}, {to});
  }

  /// Returns false, without adding anything, if the kernel does not accept these operands.
  bool run_as_given(const KernelEntry& entry, const plan::Step& step,
                    const std::vector<Value>& inputs, const std::vector<Value>& outputs) {
    const size_t reserved = bound_.workspace;
    const Layout common =
        entry.layouts == Layouts::kSame ? common_layout(inputs, outputs) : Layout::kPlain;
    std::vector<Value> in = as_wanted(inputs, entry, common);
    std::vector<Value> out = as_wanted(outputs, entry, common);
    std::vector<std::vector<Value>> epilogue_operands;
    for (const plan::EpilogueOp& fused : step.epilogue) {
      epilogue_operands.emplace_back();
      for (TensorId id : fused.operands) epilogue_operands.back().push_back(value_of(id));
    }
    const Kernel kernel = prepare_kernel(entry, step, in, out, epilogue_operands);
    FLOW_CHECK(kernel.fused <= step.epilogue.size(), "step {}", step.name);
    const bool ops_apart = kernel.fused < step.epilogue.size();
    // Separate epilogue ops work in place on the kernel's result, which must not be rounded yet.
    if (!kernel.launch || (ops_apart && is_low_precision(out[0].desc.dtype))) {
      bound_.workspace = reserved;
      return false;
    }
    for (size_t i = 0; i < in.size(); ++i)
      if (moved(inputs[i], in[i])) add_reorder(inputs[i], in[i]);
    if (ops_apart && overwrites_epilogue_operand(out[0])) out[0] = temporary(out[0].desc);
    epilogue_operands.resize(kernel.fused);
    add_launch(kernel, name_of_kernel(entry, kernel), in, out, epilogue_operands);
    for (size_t i = kernel.fused; i < step.epilogue.size(); ++i) {
      const bool last = i + 1 == step.epilogue.size();
      run_op(step.epilogue[i], out[0], last ? outputs[0] : out[0]);
    }
    for (size_t i = ops_apart ? 1 : 0; i < out.size(); ++i)
      if (moved(outputs[i], out[i])) add_reorder(out[i], outputs[i]);
    return true;
  }

  void run_op(const plan::EpilogueOp& fused, const Value& running, const Value& result) {
    plan::Step step;
    step.op = fused.op;
    step.name = fused.name;
    step.inputs = step_.outputs;
    step.inputs.resize(1);
    step.inputs.insert(step.inputs.end(), fused.operands.begin(), fused.operands.end());
    step.outputs = {step_.outputs[0]};
    step.attributes = fused.attributes;
    step.where = step_.where;
    std::vector<Value> inputs = {running};
    for (TensorId id : fused.operands) inputs.push_back(value_of(id));
    run(step, std::move(inputs), {result});
  }

  Kernel prepare_kernel(const KernelEntry& entry, const plan::Step& step,
                        const std::vector<Value>& in, const std::vector<Value>& out,
                        const std::vector<std::vector<Value>>& epilogue) const {
    Request request{
        {.step = step, .seed = context_.job.seed, .shards = plan::shards_of(context_.job)},
        threads_,
        context_.ranks};
    for (const Value& value : in) request.inputs.push_back(value.desc);
    for (const Value& value : out) request.outputs.push_back(value.desc);
    for (const std::vector<Value>& operands : epilogue) {
      request.epilogue_operands.emplace_back();
      for (const Value& value : operands) request.epilogue_operands.back().push_back(value.desc);
    }
    if (!entry.generates_code) return entry.prepare(request);
    return generate_code([&] { return entry.prepare(request); });
  }

  /// Returns the name of the implementation that runs the op: a library's, or that of the project's
  /// own loops.
  static std::string name_of_kernel(const KernelEntry& entry, const Kernel& kernel) {
    if (!kernel.library.empty()) return kernel.library;
    return find_kernel(reference_kernels(), entry.op) == &entry ? "reference" : "flow";
  }

  void add_launch(const Kernel& kernel, const std::string& what, const std::vector<Value>& in,
                  const std::vector<Value>& out, const std::vector<std::vector<Value>>& epilogue) {
    Action action;
    action.launch = kernel.launch;
    for (const Value& value : in) action.inputs.push_back(value.operand);
    for (const Value& value : out) action.outputs.push_back(value.operand);
    for (const std::vector<Value>& operands : epilogue) {
      action.epilogue.emplace_back();
      for (const Value& value : operands) action.epilogue.back().push_back(value.operand);
    }
    action.workspace = reserve(kernel.workspace);
    bound_.gathered += kernel.gathered;
    add_action(std::move(action), what);
  }

  const BindContext& context_;
  const plan::Step& step_;
  const size_t index_;  // the index of the step
  int threads_;
  BoundKernel bound_;
};

constexpr int kMostThreads = 256;
// Durations in seconds above which several threads are worthwhile.
constexpr double kSharedCall = 60e-6, kSharedStep = 4e-6;

}  // namespace

std::vector<const KernelEntry*> choose_kernels(const plan::Job& job,
                                               std::span<const KernelEntry> kernels) {
  std::vector<const KernelEntry*> chosen;
  for (const plan::Step& step : job.steps) {
    try {
      chosen.push_back(&choose_kernel(job, step, kernels));
    } catch (const RunError& error) {
      throw exec::at_step(step, error);
    }
  }
  return chosen;
}

BoundKernel bind_kernel(const BindContext& context, const plan::Step& step) {
  try {
    return KernelBinder(context, step).build();
  } catch (const RunError& error) {
    throw exec::at_step(step, error);
  }
}

int choose_threads(const plan::Job& job, int requested) {
  if (requested > 0) return std::min(requested, kMostThreads);
  return plan::estimate_call_seconds(job) < kSharedCall ? 1
                                                        : std::min(usable_cores(), kMostThreads);
}

int choose_threads(const plan::Job& job, const plan::Step& step, int threads) {
  return plan::estimate_seconds(job, step) < kSharedStep ? 1 : threads;
}

}  // namespace flow::cpu
