// Inputs made from the seed and the step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/rounding.h"
#include "runtime/exec/input/source.h"
#include "runtime/plan/model/generators.h"

namespace flow::exec {

namespace {

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

std::vector<double> fixed_values(const std::string& type, double value, const InputSpec& input) {
  std::vector<double> values(static_cast<size_t>(input.shape.elements()), value);
  if (type == "iota") std::iota(values.begin(), values.end(), 0.0);
  return values;
}

}  // namespace

std::unique_ptr<Source> make_generator(const plan::FromGenerator& from, const InputSpec& input,
                                       uint64_t seed) {
  const plan::Generator* generator = plan::find_generator(from.type);
  FLOW_CHECK(generator, "generator {}", from.type);
  const auto faults = plan::faults_of(from, input.dtype, input.shape);
  if (!faults.empty())
    throw RequestError(
        fmt::format("{}: input `{}`: {}", input.where, input.name, faults.front().message),
        faults.front().hint);
  std::array<double, 2> numbers = {0, 1};  // of random_uniform and random_normal, where not given
  for (size_t i = 0; i < generator->numbers.size(); ++i) {
    const auto found = from.values.find(std::string(generator->numbers[i]));
    if (found != from.values.end()) numbers[i] = found->second;
  }
  if (from.type == "constant" || from.type == "iota") {
    Array value(input.dtype, input.shape);
    round_to(fixed_values(from.type, numbers[0], input), input.dtype, value.bytes());
    return make_fixed_source(std::move(value));
  }
  return std::make_unique<RandomSource>(from.type, numbers[0], numbers[1], input, seed);
}

plan::InputSource parse_input_source(const std::string& name, const std::string& text) {
  if (text == "@-") return plan::FromNpy{"/dev/stdin"};
  if (text.starts_with('@') && text.size() > 1) return plan::FromNpy{text.substr(1)};
  const std::vector<std::string> parts = split(text, ':');
  const plan::Generator* generator = plan::find_generator(parts.front());
  const auto fail = [&](const std::string& what) {
    throw RequestError(fmt::format("--input {}={}: {}", name, text, what),
                       "use @FILE.npy, random_uniform:LOW:HIGH, random_normal:MEAN:STDDEV, "
                       "random_int:LOW:HIGH, constant:VALUE or iota");
  };
  if (!generator) fail(fmt::format("unknown source `{}`", parts.front()));
  if (parts.size() != generator->numbers.size() + 1)
    fail(fmt::format("{} takes {} numbers; found {}", generator->type, generator->numbers.size(),
                     parts.size() - 1));
  plan::FromGenerator from{std::string(generator->type), {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    double value = 0;
    const char* end = parts[i].data() + parts[i].size();
    const auto [rest, error] = std::from_chars(parts[i].data(), end, value);
    if (error != std::errc() || rest != end) fail(fmt::format("`{}` is not a number", parts[i]));
    from.values[std::string(generator->numbers[i - 1])] = value;
  }
  return from;
}

}  // namespace flow::exec
