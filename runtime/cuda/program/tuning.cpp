// Times candidates and chooses the fastest one.
#include "runtime/cuda/program/tuning.h"

#include <algorithm>
#include <new>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/cuda/libraries/validate_epilogues.h"

namespace flow::cuda {
namespace {

/// Returns the largest workspace of kernels that are tried in the same memory.
template <typename Kernels>
size_t most_workspace(const Kernels& kernels) {
  size_t bytes = 0;
  for (const auto& kernel : kernels) bytes = std::max(bytes, kernel.workspace);
  return bytes;
}

/// The library expects candidates after these to be slow.
constexpr size_t kCandidates = 8;

TrialMemory::Part part(const Shape& shape, DType dtype) { return {dtype, bytes_of(shape, dtype)}; }
TrialMemory::Part optional_part(bool there, const Shape& shape, DType dtype) {
  return there ? part(shape, dtype) : TrialMemory::Part{dtype, 0};
}

/// The parts are a, b, bias and out.
std::vector<TrialMemory::Part> trial_parts(const MatmulSpec& spec) {
  const DType sum = sum_of(spec.dtype);
  return {part(spec.a, spec.dtype), part(spec.b, spec.dtype),
          optional_part(spec.epilogue.bias, {spec.out[spec.out.rank() - 1]}, sum),
          part(spec.out, sum)};
}

/// The parts are first, second, bias and out.
std::vector<TrialMemory::Part> trial_parts(const ConvolutionSpec& spec) {
  using enum ConvolutionSpec::Pass;
  const bool forward = spec.pass == kForward, data = spec.pass == kGradData;
  const Shape &first = data ? spec.y : spec.x, &second = forward || data ? spec.w : spec.y,
              &out = forward ? spec.y
                     : data  ? spec.x
                             : spec.w;
  return {part(first, spec.dtype), part(second, spec.dtype),
          optional_part(spec.epilogue.bias, {spec.w[0]}, spec.dtype), part(out, spec.dtype)};
}

/// Returns a part with the lengths of all batches, which is empty if the spec has no lengths.
TrialMemory::Part lengths_part(const AttentionSpec& spec, int64_t length) {
  TrialMemory::Part lengths = optional_part(spec.lengths, {spec.query[0]}, DType::kInt32);
  lengths.number = static_cast<int32_t>(length);
  return lengths;
}

/// The parts are query, key, value, out, log_sums, dy, dquery, dkey, dvalue, bias, and the lengths
/// of queries and of keys.
std::vector<TrialMemory::Part> trial_parts(const AttentionSpec& spec) {
  const bool grad = spec.pass == AttentionSpec::Pass::kGrad;
  const DType dtype = spec.dtype;
  return {part(spec.query, dtype),
          part(spec.key, dtype),
          part(spec.value, dtype),
          part(spec.out(), dtype),
          optional_part(grad || spec.log_sums, spec.log_sums_shape(), DType::kFloat32),
          optional_part(grad, spec.out(), dtype),
          optional_part(grad, spec.query, dtype),
          optional_part(grad, spec.key, dtype),
          optional_part(grad, spec.value, dtype),
          optional_part(spec.bias.has_value(), spec.bias.value_or(Shape{}), dtype),
          lengths_part(spec, spec.query[2]),
          lengths_part(spec, spec.key[2])};
}

LibraryBuffers buffers_of(const LibraryKernel&, const TrialMemory& memory) {
  return {memory.part(0), memory.part(1), memory.part(2), memory.part(3), memory.workspace()};
}

AttentionBuffers buffers_of(const AttentionKernel&, const TrialMemory& memory) {
  return {memory.part(0),     memory.part(1),  memory.part(2), memory.part(3), memory.part(4),
          memory.workspace(), memory.part(5),  memory.part(6), memory.part(7), memory.part(8),
          memory.part(9),     memory.part(10), memory.part(11)};
}

}  // namespace

TimedLibraries::TimedLibraries(Libraries& libraries, Driver& driver, const Choices& choices)
    : libraries_(libraries), driver_(driver), choices_(choices), stopwatch_(driver) {}

Expected<LibraryKernel> TimedLibraries::find(const MatmulSpec& spec) {
  if (spec.aside != Aside::kNothing) return libraries_.find(spec);
  return choose<MatmulSpec, LibraryKernel>(libraries_, spec);
}
Expected<LibraryKernel> TimedLibraries::find(const ConvolutionSpec& spec) {
  return choose<ConvolutionSpec, LibraryKernel>(libraries_, spec);
}
Expected<AttentionKernel> TimedLibraries::find(const AttentionSpec& spec) {
  return choose<AttentionSpec, AttentionKernel>(libraries_, spec);
}

template <typename Spec, typename Found>
Expected<Found> TimedLibraries::choose(KernelFinder<Spec, Found>& finder, const Spec& spec) {
  const std::string key = finder.describe(spec);
  if (const auto kept = choices_.find(key))
    if (auto kernel = finder.restore(spec, *kept)) return *std::move(kernel);
  const std::vector<Found> candidates = finder.candidates(spec, kCandidates);
  if (candidates.empty()) return finder.find(spec);  // its error states the reason
  const std::optional<size_t> winner = fastest(spec, candidates);
  Found chosen = candidates[winner.value_or(0)];
  choices_.store(key, chosen.plan, winner.has_value());
  chosen.plan.clear();
  return chosen;
}

/// Returns nothing if no candidate could be tried, for example because of too little memory.
template <typename Spec, typename Found>
std::optional<size_t> TimedLibraries::fastest(const Spec& spec,
                                              const std::vector<Found>& candidates) {
  std::optional<TrialMemory> memory;
  try {
    memory.emplace(driver_, stopwatch_.stream(), trial_parts(spec), most_workspace(candidates));
  } catch (const RunError&) {
    return {};
  }
  const auto buffers = buffers_of(candidates[0], *memory);
  return fastest_of(candidates.size(), [&](size_t i) -> std::optional<double> {
    if (!is_right(candidates[i], spec)) return {};
    return stopwatch_.time([&] { return !candidates[i].try_run(buffers, stopwatch_.stream()); });
  });
}

/// A relu must keep NaN, which only some algorithms do.
bool TimedLibraries::is_right(const LibraryKernel& kernel, const MatmulSpec& spec) {
  if (!spec.epilogue.relu) return true;
  try {
    return passes_validation(kernel, spec, driver_);
  } catch (const RunError&) {
    return false;
  }
}

namespace {

/// The operands of a step in the form that its launch expects.
class TrialBuffers {
 public:
  TrialBuffers(const Request& request, size_t workspace, Driver& driver, Stream stream)
      : memory_(driver, stream, parts_of(request), workspace) {
    size_t next = 0;
    for (size_t i = 0; i < request.inputs.size(); ++i) inputs_.push_back(memory_.part(next++));
    for (size_t i = 0; i < request.outputs.size(); ++i) outputs_.push_back(memory_.part(next++));
    for (const auto& operands : request.epilogue_operands) {
      operands_.emplace_back();
      for (size_t i = 0; i < operands.size(); ++i) operands_.back().push_back(memory_.part(next++));
    }
    for (const auto& operands : operands_) epilogue_operands_.emplace_back(operands);
  }

  Buffers buffers() const { return {inputs_, outputs_, epilogue_operands_, memory_.workspace()}; }

 private:
  static std::vector<TrialMemory::Part> parts_of(const Request& request) {
    std::vector<TrialMemory::Part> parts;
    const auto add = [&](const std::vector<TensorDesc>& tensors) {
      for (const TensorDesc& tensor : tensors)
        parts.push_back({tensor.dtype, tensor.used ? bytes_of(tensor.shape, tensor.dtype) : 0});
    };
    add(request.inputs);
    add(request.outputs);
    std::ranges::for_each(request.epilogue_operands, add);
    return parts;
  }

  TrialMemory memory_;
  std::vector<std::byte*> inputs_, outputs_;
  std::vector<std::vector<std::byte*>> operands_;
  std::vector<std::span<std::byte* const>> epilogue_operands_;
};

}  // namespace

KernelTimer::KernelTimer(Driver& driver, const Choices& choices)
    : driver_(driver), choices_(choices), stopwatch_(driver) {}

size_t KernelTimer::fastest(const std::string& key, const Request& request,
                            std::span<const Kernel> kernels) {
  if (const auto kept = choices_.find(key);
      kept && kept->size() == 1 && (*kept)[0] < kernels.size())
    return (*kept)[0];
  const std::optional<size_t> winner = measure(request, kernels);
  const uint8_t choice = static_cast<uint8_t>(winner.value_or(0));
  choices_.store(key, {&choice, 1}, winner.has_value());
  return choice;
}

/// Returns nothing if no kernel could be tried, for example because of too little memory.
std::optional<size_t> KernelTimer::measure(const Request& request,
                                           std::span<const Kernel> kernels) const {
  std::optional<TrialBuffers> memory;
  DeviceBytes call;
  PinnedBytes fault;
  try {
    memory.emplace(request, most_workspace(kernels), driver_, stopwatch_.stream());
    call = DeviceBytes(driver_, driver_.allocate(sizeof(CallBlock)));
    driver_.clear(call.get(), sizeof(CallBlock), stopwatch_.stream());
    fault = PinnedBytes(driver_, driver_.allocate_pinned(sizeof(FaultBlock)));
  } catch (const RunError&) {
    return {};
  }
  const LaunchState state{driver_, stopwatch_.stream(),
                          reinterpret_cast<const CallBlock*>(call.get()),
                          new (fault.get()) FaultBlock};
  return fastest_of(kernels.size(), [&](size_t i) {
    return stopwatch_.time([&] {
      kernels[i].launch(memory->buffers(), state);
      return true;
    });
  });
}

}  // namespace flow::cuda
