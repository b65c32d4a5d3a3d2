// Measures repeated work with events.
#include "runtime/cuda/libraries/stopwatch.h"

#include <algorithm>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {
namespace {

/// Returns numbers between -1 and 1, evenly distributed, for a float dtype. Integers and bools are
/// filled with ones, unless the part has a number.
std::vector<std::byte> pattern(const TrialMemory::Part& part) {
  constexpr int64_t kElements = 4096;
  std::vector<std::byte> made(kElements * size_of(part.dtype), std::byte{1});
  if (part.number) std::fill_n(reinterpret_cast<int32_t*>(made.data()), kElements, *part.number);
  if (!is_float(part.dtype)) return made;
  visit_any_float(part.dtype, [&]<typename T>(T) {
    auto* elements = reinterpret_cast<T*>(made.data());
    for (int64_t i = 0; i < kElements; ++i)  // an odd factor visits each residue once
      elements[i] = convert<T>(
          static_cast<float>(i * 1657 % kElements) / static_cast<float>(kElements / 2) - 1.0F);
  });
  return made;
}

/// Fills the memory with the pattern by doubling the filled part with each copy.
void fill(Driver& driver, Stream stream, const TrialMemory::Part& part, std::byte* memory) {
  const std::vector<std::byte> first = pattern(part);
  const size_t bytes = part.bytes;
  size_t filled = std::min(bytes, first.size());
  driver.copy(memory, first.data(), filled, stream);
  driver.synchronize(stream);  // `first` is destroyed on return
  while (filled < bytes) {
    const size_t more = std::min(filled, bytes - filled);
    driver.copy(memory + filled, memory, more, stream);
    filled += more;
  }
}

}  // namespace

Stopwatch::Stopwatch(Driver& driver)
    : driver_(driver),
      stream_(driver, driver.create_stream()),
      begin_(driver, driver.create_timed_event()),
      end_(driver, driver.create_timed_event()) {}

double Stopwatch::sample(const std::function<bool()>& put, int runs) const {
  driver_.record(begin_.get(), stream_.get());
  for (int i = 0; i < runs; ++i)
    if (!put()) return -1;
  driver_.record(end_.get(), stream_.get());
  driver_.synchronize(end_.get());
  return driver_.milliseconds_between(begin_.get(), end_.get()) / runs;
}

std::optional<double> Stopwatch::time(const std::function<bool()>& put) const {
  constexpr int kSamples = 5, kMostRuns = 20;
  constexpr double kSample = 0.5;  // ms; the resolution of events is half a microsecond
  try {
    if (sample(put, 1) < 0) return {};  // the first run loads the kernels
    double least = sample(put, 1);
    const int runs = std::clamp(static_cast<int>(kSample / std::max(least, 1e-3)), 1, kMostRuns);
    for (int i = 0; i < kSamples; ++i) least = std::min(least, sample(put, runs));
    return least < 0 ? std::nullopt : std::optional(least);
  } catch (const RunError&) {
    return {};
  }
}

std::optional<size_t> fastest_of(size_t count,
                                 const std::function<std::optional<double>(size_t)>& time_of) {
  std::optional<size_t> winner;
  double least = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<double> time = time_of(i);
    if (!time || (winner && *time >= least)) continue;
    winner = i, least = *time;
  }
  return winner;
}

TrialMemory::TrialMemory(Driver& driver, Stream stream, std::span<const Part> parts,
                         size_t workspace) {
  size_t bytes = aligned(workspace);
  for (const Part& part : parts) bytes += aligned(part.bytes);
  memory_ = DeviceBytes(driver, driver.allocate(std::max(bytes, kAlignment)));
  workspace_ = memory_.get();
  std::byte* next = workspace_ + aligned(workspace);
  for (const Part& part : parts) {
    parts_.push_back(part.bytes > 0 ? next : nullptr);
    if (part.bytes > 0) fill(driver, stream, part, next);
    next += aligned(part.bytes);
  }
}

}  // namespace flow::cuda
