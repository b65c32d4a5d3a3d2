// Inputs made from the seed and the step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/exec/rounding.h"
#include "runtime/exec/source.h"

namespace flow::exec {

namespace {

/// A generator of the language, the names of its numbers in the order of `--input`.
struct Generator {
  std::string type;
  std::vector<std::string> numbers;
};

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all = {{"random_uniform", {"low", "high"}},
                                             {"random_normal", {"mean", "stddev"}},
                                             {"random_int", {"low", "high"}},
                                             {"constant", {"value"}},
                                             {"iota", {}}};
  return all;
}

const Generator* find_generator(const std::string& type) {
  const auto found = std::ranges::find(generators(), type, &Generator::type);
  return found == generators().end() ? nullptr : &*found;
}

/// The same value each step.
class FixedSource : public Source {
 public:
  FixedSource(const std::vector<double>& values, DType dtype)
      : bytes_(values.size() * size_of(dtype)) {
    round_to(values, dtype, bytes_);
  }
  bool fill(const Reading&, std::span<std::byte> out) override {
    std::ranges::copy(bytes_, out.begin());
    return true;
  }
  bool varies() const override { return false; }

 private:
  std::vector<std::byte> bytes_;
};

class RandomSource : public Source {
 public:
  RandomSource(std::string type, double first, double second, InputSpec input, uint64_t seed)
      : type_(std::move(type)),
        first_(first),
        second_(second),
        input_(std::move(input)),
        seed_(seed),
        values_(static_cast<size_t>(input_.shape.elements())),
        integers_(type_ == "random_int" ? values_.size() : 0) {}

  bool fill(const Reading& reading, std::span<std::byte> out) override {
    const Draw draw{seed_, input_.name, static_cast<uint32_t>(reading.step)};
    const auto n = static_cast<int64_t>(values_.size());
    if (type_ == "random_uniform") {
      draw_uniform(draw, first_, second_, values_.data(), n);
    } else if (type_ == "random_normal") {
      draw_normal(draw, values_.data(), n);
      for (double& value : values_) value = first_ + second_ * value;
    } else {
      draw_integers(draw, static_cast<int64_t>(first_), static_cast<int64_t>(second_),
                    integers_.data(), n);
      std::ranges::copy(integers_, values_.begin());
    }
    round_to(values_, input_.dtype, out);
    return true;
  }

 private:
  std::string type_;
  double first_, second_;  // low and high, or mean and deviation
  InputSpec input_;
  uint64_t seed_;
  std::vector<double> values_;
  std::vector<int64_t> integers_;
};

[[noreturn]] void refuse(const InputSpec& input, const std::string& what) {
  throw RequestError(fmt::format("{}: input `{}`: {}", input.where, input.name, what));
}

void check_integers(const InputSpec& input, double low, double high) {
  constexpr double kWords = 0x1p32;  // an element is made of one 32-bit word
  if (low != std::floor(low) || high != std::floor(high) || std::abs(low) > 0x1p52 ||
      !(low < high) || high - low > kWords)
    refuse(input, fmt::format("random_int from {} to {} is no range of at most 2^32 integers",
                              shortest(low), shortest(high)));
  if (!fits(low, input.dtype) || !fits(high - 1, input.dtype))
    refuse(input, fmt::format("random_int from {} to {} does not fit {}", shortest(low),
                              shortest(high), name_of(input.dtype)));
}

std::vector<double> fixed_values(const std::string& type, double value, const InputSpec& input) {
  std::vector<double> values(static_cast<size_t>(input.shape.elements()), value);
  if (type == "iota") std::iota(values.begin(), values.end(), 0.0);
  for (const double each : values)
    if (!fits(each, input.dtype))
      refuse(input, fmt::format("{} makes {}, which is no {}", type, shortest(each),
                                name_of(input.dtype)));
  return values;
}

}  // namespace

std::unique_ptr<Source> make_generator(const plan::FromGenerator& from, const InputSpec& input,
                                       uint64_t seed) {
  const Generator* generator = find_generator(from.type);
  FLOW_CHECK(generator, "generator {}", from.type);
  std::array<double, 2> numbers = {0, 1};  // of random_uniform and random_normal, where not given
  for (size_t i = 0; i < generator->numbers.size(); ++i) {
    const auto found = from.values.find(generator->numbers[i]);
    if (found != from.values.end()) numbers[i] = found->second;
    if (!std::isfinite(numbers[i]) && from.type != "constant")
      refuse(input,
             fmt::format("{} of {} is {}", generator->numbers[i], from.type, shortest(numbers[i])));
  }
  if (from.type == "constant" || from.type == "iota")
    return std::make_unique<FixedSource>(fixed_values(from.type, numbers[0], input), input.dtype);
  if (from.type == "random_int")
    check_integers(input, numbers[0], numbers[1]);
  else if (!is_float(input.dtype))
    refuse(input,
           fmt::format("{} makes fractions, which are no {}", from.type, name_of(input.dtype)));
  return std::make_unique<RandomSource>(from.type, numbers[0], numbers[1], input, seed);
}

plan::InputSource parse_input_source(const std::string& name, const std::string& text) {
  if (text.starts_with('@')) return plan::FromNpy{text.substr(1)};
  const std::vector<std::string> parts = split(text, ':');
  const Generator* generator = find_generator(parts.front());
  const auto fail = [&](const std::string& what) {
    throw RequestError(fmt::format("--input {}={}: {}", name, text, what),
                       "@FILE.npy, random_uniform:LOW:HIGH, random_normal:MEAN:STDDEV, "
                       "random_int:LOW:HIGH, constant:VALUE or iota");
  };
  if (!generator) fail(fmt::format("`{}` is no source of values", parts.front()));
  if (parts.size() != generator->numbers.size() + 1)
    fail(fmt::format("{} takes {} numbers, and {} are given", generator->type,
                     generator->numbers.size(), parts.size() - 1));
  plan::FromGenerator from{generator->type, {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    double value = 0;
    const char* end = parts[i].data() + parts[i].size();
    const auto [rest, error] = std::from_chars(parts[i].data(), end, value);
    if (error != std::errc() || rest != end) fail(fmt::format("`{}` is no number", parts[i]));
    from.values[generator->numbers[i - 1]] = value;
  }
  return from;
}

}  // namespace flow::exec
