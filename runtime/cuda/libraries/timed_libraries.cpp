// Trials of candidates.
#include "runtime/cuda/libraries/timed_libraries.h"

#include <algorithm>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/cuda/libraries/validate_epilogues.h"

namespace flow::cuda {
namespace {

/// Those behind them are slow by the library's own account.
constexpr size_t kCandidates = 8;

TrialMemory::Part part(const Shape& shape, DType dtype) { return {dtype, bytes_of(shape, dtype)}; }
TrialMemory::Part optional_part(bool there, const Shape& shape, DType dtype) {
  return there ? part(shape, dtype) : TrialMemory::Part{dtype, 0};
}

/// a, b, bias, out.
std::vector<TrialMemory::Part> trial_parts(const MatmulSpec& spec) {
  const DType sum = sum_of(spec.dtype);
  return {part(spec.a, spec.dtype), part(spec.b, spec.dtype),
          optional_part(spec.epilogue.bias, {spec.out[spec.out.rank() - 1]}, sum),
          part(spec.out, sum)};
}

/// First, second, bias, out.
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

/// Of all batches; 0 where the spec has no lengths.
TrialMemory::Part lengths_part(const AttentionSpec& spec, int64_t length) {
  TrialMemory::Part lengths = optional_part(spec.lengths, {spec.query[0]}, DType::kInt32);
  lengths.number = static_cast<int32_t>(length);
  return lengths;
}

/// Query, key, value, out, log_sums, dy, dquery, dkey, dvalue, bias, lengths of queries and of
/// keys.
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
/// It has one algorithm.
Expected<RecurrentKernel> TimedLibraries::find(const RecurrentSpec& spec) {
  return libraries_.find(spec);
}

std::string TimedLibraries::describe(const MatmulSpec& spec) const {
  return libraries_.describe(spec);
}
std::string TimedLibraries::describe(const ConvolutionSpec& spec) const {
  return libraries_.describe(spec);
}
std::string TimedLibraries::describe(const AttentionSpec& spec) const {
  return libraries_.describe(spec);
}

template <typename Spec, typename Found>
Expected<Found> TimedLibraries::choose(KernelFinder<Spec, Found>& finder, const Spec& spec) {
  const std::string key = finder.describe(spec);
  if (const auto kept = choices_.find(key))
    if (auto kernel = finder.restore(spec, *kept)) return *std::move(kernel);
  const std::vector<Found> candidates = finder.candidates(spec, kCandidates);
  if (candidates.empty()) return finder.find(spec);  // which says why
  const std::optional<size_t> winner = fastest(spec, candidates);
  Found chosen = candidates[winner.value_or(0)];
  choices_.store(key, chosen.plan, winner.has_value());
  chosen.plan.clear();
  return chosen;
}

/// None where nothing could be tried, for lack of memory, say.
template <typename Spec, typename Found>
std::optional<size_t> TimedLibraries::fastest(const Spec& spec,
                                              const std::vector<Found>& candidates) {
  size_t workspace = 0;
  for (const Found& kernel : candidates) workspace = std::max(workspace, kernel.workspace);
  std::optional<TrialMemory> memory;
  try {
    memory.emplace(driver_, stopwatch_.stream(), trial_parts(spec), workspace);
  } catch (const RunError&) {
    return {};
  }
  const auto buffers = buffers_of(candidates[0], *memory);
  return fastest_of(candidates.size(), [&](size_t i) -> std::optional<double> {
    if (!is_right(candidates[i], spec)) return {};
    return stopwatch_.time([&] { return !candidates[i].try_run(buffers, stopwatch_.stream()); });
  });
}

/// A relu has to keep NaN, and only some algorithms do.
bool TimedLibraries::is_right(const LibraryKernel& kernel, const MatmulSpec& spec) {
  if (!spec.epilogue.relu) return true;
  try {
    return passes_validation(kernel, spec, driver_);
  } catch (const RunError&) {
    return false;
  }
}

}  // namespace flow::cuda
