// The parts of `sample` that all devices share: the order of logits, their weights as integers, and
// the draw. Integers have the same sum in any order, so tokens do not depend on threads, chunks or
// the device. Device code includes this file, so it does not use libm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/base/index_maps.h"
#include "runtime/base/philox.h"

namespace flow {

/// The parameters of a draw.
struct Sampling {
  double temperature = 1;  // if 0, the token of the largest logit is taken
  double top_p = 1;        // the share of the total weight that the likeliest tokens must reach
                           // together
  int64_t top_k = 0;       // the number of likeliest tokens that are kept; 0 keeps all
  PhiloxKey key = {};
  bool by_pass = false;  // passes of a loop draw different numbers at the same position
};

/// The largest number of tokens. Weights are at most kUnitWeight, so the sum over more tokens could
/// overflow.
inline constexpr int64_t kMostTokens = int64_t{1} << 22;

/// The weight of the likeliest token. Other weights are rounded down, so tokens that are less than
/// 2^-40 times as likely are never drawn.
inline constexpr int kWeightBits = 40;
inline constexpr uint64_t kUnitWeight = uint64_t{1} << kWeightBits;

/// Unsigned integers in the same order as the logits. NaN is the smallest, and both zeros are
/// equal.
template <typename T>
using OrderOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
FLOW_HOST_DEVICE inline OrderOf<T> order_of(T x) {
  using Bits = OrderOf<T>;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  if (x != x) return 0;
  const Bits bits = bits_as<Bits>(x + T{0});
  return bits & kSign ? ~bits : bits | kSign;
}

/// Returns the logit with this order. REQUIRES: the order is that of a number.
template <typename T>
FLOW_HOST_DEVICE inline T logit_of(OrderOf<T> order) {
  using Bits = OrderOf<T>;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  return bits_as<T>(order & kSign ? static_cast<Bits>(order ^ kSign) : static_cast<Bits>(~order));
}

/// Returns floor(2^40 e^x) for x <= 0, with e^x accurate to a few units in the last place: x = n ln
/// 2 + r with |r| <= ln 2 / 2, and e^r is computed by its Taylor series. The two parts of ln 2 are
/// those of fdlibm.
FLOW_HOST_DEVICE inline uint64_t exp_weight(double x) {
  constexpr double kLeast = -28;  // 2^40 e^-28 < 1
  constexpr double kLog2E = 1.44269504088896338700e+00;
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  if (!(x > kLeast)) return 0;
  const int n = static_cast<int>(x * kLog2E - 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1;
  for (int i = 13; i > 0; --i) sum = 1 + sum * r / i;
  const auto scale = bits_as<double>(static_cast<uint64_t>(1023 + kWeightBits + n) << 52);
  return static_cast<uint64_t>(sum * scale);
}

/// Returns the weight of a logit, where `most` is the largest logit.
template <typename T>
FLOW_HOST_DEVICE inline uint64_t weight_of(T x, T most, double temperature) {
  if (order_of(x) == order_of(most)) return kUnitWeight;
  return exp_weight((static_cast<double>(x) - static_cast<double>(most)) / temperature);
}

/// Returns the part of the total weight `all` that the likeliest tokens must reach together.
FLOW_HOST_DEVICE inline uint64_t kept_weight(uint64_t all, double top_p) {
  const auto share = static_cast<uint64_t>(top_p * static_cast<double>(all));
  return share < 1 ? 1 : share > all ? all : share;
}

/// Returns the high word of a product.
FLOW_HOST_DEVICE inline uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = static_cast<uint32_t>(a), a1 = a >> 32;
  const uint64_t b0 = static_cast<uint32_t>(b), b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  return a1 * b1 + (middle >> 32) + ((a0 * b1 + static_cast<uint32_t>(middle)) >> 32);
}

/// Returns a number in [0, all), which is a function of (seed, entry, position, row, pass).
FLOW_HOST_DEVICE inline uint64_t draw_weight(const Sampling& sampling, int64_t position,
                                             uint64_t row, int64_t pass, uint64_t all) {
  const PhiloxBlock words = philox_block(sampling.key, static_cast<uint32_t>(position), row,
                                         sampling.by_pass ? static_cast<uint32_t>(pass) : 0);
  return multiply_high(all, uint64_t{words.words[0]} << 32 | words.words[1]);
}

/// A step of `sample`.
struct SampleProblem {
  int64_t rows, tokens;
  Sampling sampling;
  DType position;        // the dtype of operand 1, the positions at which numbers are drawn
  bool position_of_row;  // each row has a separate position
  WholeIndex place;      // maps a shard's row to the row of the whole batch
  int64_t whole_rows;    // the number of rows of the whole batch

  /// Returns the element of operand 1 that is the position of a row.
  FLOW_HOST_DEVICE int64_t position_at(int64_t row) const { return position_of_row ? row : 0; }
  /// Returns a number in [0, all) for a row of this call.
  template <typename Call>
  FLOW_HOST_DEVICE uint64_t draw(int64_t row, int64_t at, const Call& call, uint64_t all) const {
    const int64_t number = call.step * whole_rows + place.at(row, call.shard);
    return draw_weight(sampling, at, static_cast<uint64_t>(number), call.pass, all);
  }
};

template <typename Request>
SampleProblem sample_problem(const Request& request) {
  const Shape& logits = request.inputs[0].shape;
  const auto& out = request.outputs[0];
  const auto& attributes = request.step.attributes;
  const auto number = [&](const char* name) { return attributes.template get<double>(name); };
  const Sampling sampling{
      number("temperature"), number("top_p"), attributes.template get<int64_t>("top_k"),
      philox_key(request.seed, attributes.template get<std::string>("consumer")),
      attributes.has("by_pass")};
  const bool draws = request.inputs.size() > 1;
  const int64_t rows = out.shape.elements();
  return {rows,
          logits[logits.rank() - 1],
          sampling,
          draws ? request.inputs[1].dtype : DType::kInt32,
          draws && request.inputs[1].shape.rank() > 0,
          whole_index(out.shape, out.batch_axis, request.shards),
          rows * (out.batch_axis >= 0 ? request.shards : 1)};
}

}  // namespace flow
