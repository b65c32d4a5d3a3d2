// Inputs made from the seed and the step.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/rounding.h"
#include "runtime/exec/input/source.h"
#include "runtime/plan/model/generators.h"

namespace flow::exec {

namespace {

namespace generators = plan::generators;

/// Values that are drawn anew in each step.
template <typename From>
class RandomSource : public Source {
 public:
  RandomSource(From from, InputSpec input, uint64_t seed)
      : from_(from),
        input_(std::move(input)),
        seed_(seed),
        values_(static_cast<size_t>(input_.shape.elements())),
        integers_(std::is_same_v<From, generators::Integers> ? values_.size() : 0) {}

  bool fill(const Reading& reading, std::span<std::byte> out) override {
    draw_values(from_, {seed_, input_.name, static_cast<uint32_t>(reading.step)});
    round_to(values_, input_.dtype, out);
    return true;
  }

 private:
  void draw_values(const generators::Uniform& from, const Draw& draw) {
    draw_uniform(draw, from.low, from.high, values_.data(), count());
  }

  void draw_values(const generators::Normal& from, const Draw& draw) {
    draw_normal(draw, values_.data(), count());
    for (double& value : values_) value = from.mean + from.stddev * value;
  }

  void draw_values(const generators::Integers& from, const Draw& draw) {
    draw_integers(draw, static_cast<int64_t>(from.low), static_cast<int64_t>(from.high),
                  integers_.data(), count());
    std::ranges::copy(integers_, values_.begin());
  }

  int64_t count() const { return static_cast<int64_t>(values_.size()); }

  From from_;
  InputSpec input_;
  uint64_t seed_;
  std::vector<double> values_;
  std::vector<int64_t> integers_;
};

/// Makes the source of a generator.
struct SourceMaker {
  const InputSpec& input;
  uint64_t seed;

  std::unique_ptr<Source> operator()(const generators::Constant& from) const {
    return fixed(std::vector<double>(count(), from.value));
  }

  std::unique_ptr<Source> operator()(const generators::Iota&) const {
    std::vector<double> values(count());
    std::iota(values.begin(), values.end(), 0.0);
    return fixed(values);
  }

  template <typename From>
  std::unique_ptr<Source> operator()(const From& from) const {
    return std::make_unique<RandomSource<From>>(from, input, seed);
  }

  size_t count() const { return static_cast<size_t>(input.shape.elements()); }

  std::unique_ptr<Source> fixed(const std::vector<double>& values) const {
    Array value(input.dtype, input.shape);
    round_to(values, input.dtype, value.bytes());
    return make_fixed_source(std::move(value));
  }
};

}  // namespace

std::unique_ptr<Source> make_generator(const plan::FromGenerator& from, const InputSpec& input,
                                       uint64_t seed) {
  const auto faults = plan::faults_of(from, input.dtype, input.shape);
  if (!faults.empty())
    throw RequestError(
        fmt::format("{}: input `{}`: {}", input.where, input.name, faults.front().message),
        faults.front().hint);
  return std::visit(SourceMaker{input, seed}, from);
}

plan::InputSource parse_input_source(const std::string& name, const std::string& text) {
  if (text == "@-") return plan::FromNpy{"/dev/stdin"};
  if (text.starts_with('@') && text.size() > 1) return plan::FromNpy{text.substr(1)};
  const std::vector<std::string> parts = split(text, ':');
  const auto fail = [&](const std::string& what) {
    throw RequestError(fmt::format("--input {}={}: {}", name, text, what),
                       "use @FILE.npy, random_uniform:LOW:HIGH, random_normal:MEAN:STDDEV, "
                       "random_int:LOW:HIGH, constant:VALUE or iota");
  };
  const auto number = [&](const std::string& part) {
    double value = 0;
    const char* end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data(), end, value);
    if (error != std::errc() || rest != end) fail(fmt::format("`{}` is not a number", part));
    return value;
  };
  plan::FromGenerator from;
  if (!plan::set_type(from, parts.front())) fail(fmt::format("unknown source `{}`", parts.front()));
  const auto set_numbers = [&]<typename T>(T& record) {
    constexpr size_t kCount = std::tuple_size_v<decltype(T::record().fields)>;
    if (parts.size() != kCount + 1)
      fail(fmt::format("{} takes {} numbers; found {}", parts.front(), kCount, parts.size() - 1));
    size_t i = 0;
    plan::for_each_field<T>([&](const auto& field) { record.*field.member = number(parts[++i]); });
  };
  std::visit(set_numbers, from);
  return from;
}

}  // namespace flow::exec
