// Reference: random numbers, one Philox block at a time, with the C library's functions.
#include <cmath>
#include <numbers>

#include "runtime/base/element_types.h"
#include "runtime/base/index_maps.h"
#include "runtime/base/philox.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// What the elements of the first result are drawn from.
struct WordSource {
  explicit WordSource(const Request& request)
      : key(philox_key(request.seed, request.step.attributes.get<std::string>("consumer"))),
        place(
            whole_index(request.outputs[0].shape, request.outputs[0].batch_axis, request.shards)) {}

  /// The block of an element, and its place there.
  std::pair<PhiloxBlock, size_t> at(int64_t element, const CallState& state) const {
    const auto word = static_cast<uint64_t>(place.at(element, state.shard));
    return {philox_block(key, static_cast<uint32_t>(state.step), word / 4,
                         static_cast<uint32_t>(state.pass)),
            word % 4};
  }

  PhiloxKey key;
  WholeIndex place;
};

/// The cosine of 2 pi n / 2^24, where quarter turns are left out: near a quarter, the angle would
/// have too few digits. Of the sine: of a quarter less.
double cosine(uint32_t n) {
  const auto quarters = static_cast<int32_t>((n + (1 << 21)) >> 22);
  const double rest =
      (static_cast<int32_t>(n) - (quarters << 22)) * (2 * std::numbers::pi * 0x1p-24);
  switch (quarters % 4) {
    case 0:
      return std::cos(rest);
    case 1:
      return -std::sin(rest);
    case 2:
      return -std::cos(rest);
    default:
      return std::sin(rest);
  }
}

double unit(uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

/// y[i] = value(block, place in it)
template <typename Value>
Kernel draw_each(const Request& request, Value value) {
  Kernel kernel;
  visit_float(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [value, source = WordSource(request), n = request.outputs[0].shape.elements()](
                        const Buffers& buffers, const CallState& state) {
      for (int64_t i = 0; i < n; ++i) {
        const auto [block, place] = source.at(i, state);
        output<T>(buffers, 0)[i] = static_cast<T>(value(block, place));
      }
    };
  });
  return kernel;
}

Kernel prepare_random_normal(const Request& request) {
  const double mean = number(request, "mean"), stddev = number(request, "stddev");
  return draw_each(request, [=](const PhiloxBlock& block, size_t place) {
    const size_t pair = place / 2 * 2;
    const double radius = std::sqrt(-2 * std::log(unit(block[pair]) + 0x1p-24));
    constexpr uint32_t kTurn = 1 << 24;
    const uint32_t angle = block[pair + 1] >> 8;
    const uint32_t less = place % 2 == 0 ? 0 : kTurn / 4;
    return mean + stddev * (radius * cosine((angle + kTurn - less) % kTurn));
  });
}

Kernel prepare_random_uniform(const Request& request) {
  const double minimum = number(request, "minimum"), range = number(request, "maximum") - minimum;
  return draw_each(request, [=](const PhiloxBlock& block, size_t place) {
    return minimum + range * unit(block[place]);
  });
}

Kernel prepare_gumbel(const Request& request) {
  return draw_each(request, [](const PhiloxBlock& block, size_t place) {
    return -std::log(-std::log(unit(block[place]) + 0x1p-25));
  });
}

Kernel prepare_bernoulli(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename P>(P) {
    visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
      kernel.launch = [source = WordSource(request), n = request.outputs[0].shape.elements()](
                          const Buffers& buffers, const CallState& state) {
        for (int64_t i = 0; i < n; ++i) {
          const auto [block, place] = source.at(i, state);
          const bool one = block[place] * 0x1p-32 < double_at<P>(buffers, 0, i);
          output<T>(buffers, 0)[i] = convert<T>(one);
        }
      };
    });
  });
  return kernel;
}

/// The sums up to each weight, in the order of additions that the op has.
template <typename T>
std::vector<double> sums_of(const T* weights, int64_t classes) {
  constexpr int64_t kPieceOfWeights = 64;
  std::vector<double> sums;
  double before = 0, piece = 0, running = 0;
  for (int64_t i = 0; i < classes; ++i) {
    if (i % kPieceOfWeights == 0) before += piece, piece = 0, running = before;
    const double weight = weights[i] > 0 ? static_cast<double>(weights[i]) : 0.0;
    piece += weight;
    running += weight;
    sums.push_back(running);
    if ((i + 1) % kPieceOfWeights == 0 || i + 1 == classes) sums.back() = before + piece;
  }
  return sums;
}

Kernel prepare_draw_indices(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int64_t classes = x[x.rank() - 1], rows = x.elements() / classes;
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, source = WordSource(request), n = request.outputs[0].shape.elements()](
                        const Buffers& buffers, const CallState& state) {
      const int64_t samples = n / rows;
      for (int64_t row = 0; row < rows; ++row) {
        const auto sums = sums_of(input<T>(buffers, 0) + row * classes, classes);
        const bool drawable = sums.back() > 0 && std::isfinite(sums.back());
        for (int64_t i = row * samples; i < (row + 1) * samples; ++i) {
          const auto [block, place] = source.at(i, state);
          const double target = block[place] * 0x1p-32 * sums.back();
          const auto found = std::ranges::upper_bound(sums, target);
          output<int64_t>(buffers, 0)[i] = drawable ? found - sums.begin() : -1;
        }
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> random_draws() {
  static constexpr KernelEntry kKernels[] = {
      {"random_normal", prepare_random_normal},
      {"random_uniform", prepare_random_uniform},
      {"gumbel", prepare_gumbel},
      {"bernoulli", prepare_bernoulli},
      {"draw_indices", prepare_draw_indices},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
