// Tests tolerances with known faults. Each fault that a look can describe is a function of the
// values of an array. The faults are put into golden arrays, which are then judged like the output
// of a run.
#include "runtime/compare/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/compare.h"
#include "runtime/io/elements.h"

namespace flow::compare {
namespace {

// From a plainly wrong result down to an error that a test of a network should still notice.
constexpr double kSizes[] = {1, 0.1, 0.01, 0.001};

class FaultList {
 public:
  FaultList(const ArrayView& golden, double deviation, bool steps_first)
      : dtype_(golden.dtype), shape_(golden.shape), deviation_(deviation), steps_(steps_first) {}

  std::vector<Fault> make() {
    if (is_float(dtype_)) add_sized();
    if (is_float(dtype_)) add_roundings();
    if (dtype_ != DType::kBool)
      add_change("opposite sign", "", kEverywhere, [](double value) { return -value; });
    add_moves();
    return std::move(faults_);
  }

 private:
  void add(std::string name, std::string size, std::function<Doubles(const Doubles&)> apply) {
    faults_.push_back({std::move(name), std::move(size), std::move(apply)});
  }

  static constexpr auto kEverywhere = [](size_t) { return true; };

  /// Returns a predicate that is true for the elements at one index of an axis.
  auto at_index(int axis, int64_t index) const {
    return [extent = shape_[axis], stride = stride_of(shape_, axis), index](size_t i) {
      return static_cast<int64_t>(i) / stride % extent == index;
    };
  }

  void add_sized() {
    for (const double size : kSizes) {
      const double step = size * deviation_;
      const std::string text = fmt::format("{:g} % of the standard deviation", 100 * size);
      const auto offset = [step](double value) { return value + step; };
      add_change("constant offset", text, kEverywhere, offset);
      add_change("gain", fmt::format("{:g} %", 100 * size), kEverywhere,
                 [size](double value) { return value * (1 + size); });
      const int rows = steps_ ? 1 : 0, last = shape_.rank() - 1;
      if (last >= 0 && shape_[last] > 1)
        add_change("one channel", text, at_index(last, shape_[last] / 2), offset);
      if (rows < last && shape_[rows] > 1)
        add_change("last row", text, at_index(rows, shape_[rows] - 1), offset);
    }
  }

  /// Adds a fault that applies `change` to the elements for which `where` is true.
  template <typename Where, typename Change>
  void add_change(std::string name, std::string size, Where where, Change change) {
    add(std::move(name), std::move(size), [=](const Doubles& values) {
      Doubles out = values;
      for (size_t i = 0; i < out.size(); ++i)
        if (where(i)) out[i] = change(out[i]);
      return out;
    });
  }

  template <typename Narrow>
  void add_rounding(const char* dtype) {
    add_change("rounded", dtype, kEverywhere,
               [](double value) { return static_cast<double>(flow::convert<Narrow>(value)); });
  }

  void add_roundings() {
    if (dtype_ == DType::kFloat64) add_rounding<float>("to float32");
    if (dtype_ != DType::kFloat64 && dtype_ != DType::kFloat32) return;
    add_rounding<Float16>("to float16");
    add_rounding<BFloat16>("to bfloat16");
  }

  /// Adds a fault that takes each value from another place, `from(i)`.
  template <typename From>
  void add_move(std::string name, From from) {
    add(std::move(name), "", [from](const Doubles& values) {
      Doubles out(values.size());
      for (size_t i = 0; i < out.size(); ++i) out[i] = values[from(i)];
      return out;
    });
  }

  /// Adds a fault in which each index along `axis` has the values of the index `of(index, extent)`.
  template <typename Of>
  void add_along(std::string name, int axis, Of of) {
    const int64_t extent = shape_[axis], stride = stride_of(shape_, axis);
    add_move(std::move(name), [=](size_t flat) {
      const auto i = static_cast<int64_t>(flat);
      const int64_t index = i / stride % extent;
      return static_cast<size_t>(i + (of(index, extent) - index) * stride);
    });
  }

  void add_moves() {
    const int rows = steps_ ? 1 : 0;
    for (int axis = rows; axis < shape_.rank(); ++axis)
      if (shape_[axis] > 1)
        add_along(fmt::format("shifted along axis {}", axis), axis,
                  [](int64_t index, int64_t) { return std::max<int64_t>(index - 1, 0); });
    if (rows < shape_.rank() && shape_[rows] > 1)
      add_along("two rows exchanged", rows, [](int64_t index, int64_t extent) {
        return index == 0 ? extent - 1 : index == extent - 1 ? 0 : index;
      });
    if (steps_ && shape_[0] > 1)
      add_along("values of the step before", 0,
                [](int64_t index, int64_t) { return std::max<int64_t>(index - 1, 0); });
    add_transposed();
  }

  /// Adds a fault that transposes the last two axes in memory but keeps the shape. A fault that
  /// changes the shape is always found.
  void add_transposed() {
    const int rank = shape_.rank();
    if (rank < 2 || shape_[rank - 1] < 2 || shape_[rank - 2] < 2) return;
    const int64_t rows = shape_[rank - 2], columns = shape_[rank - 1];
    add_move("transposed", [=](size_t flat) {
      const auto i = static_cast<int64_t>(flat);
      const int64_t matrix = i / (rows * columns), within = i % (rows * columns);
      return static_cast<size_t>(matrix * rows * columns + within % rows * columns + within / rows);
    });
  }

  const DType dtype_;
  const Shape shape_;
  const double deviation_;
  const bool steps_;
  std::vector<Fault> faults_;
};

class Tester {
 public:
  Tester(const Side& golden, const ToleranceRules& rules) : golden_(golden), rules_(rules) {}

  void test(const std::string& name, const fs::path& path) {
    const Array array = read_array(path);
    const ArrayView view = array.view();
    if (view.shape.elements() < 2) return skip(name, "it has fewer than two elements");
    const Spread spread = spread_of(view);
    if (spread.constant) return skip(name, "it is constant");
    const ArrayContext context{steps_of(golden_, name, view.shape.rank() > 0 ? view.shape[0] : 0),
                               {}};
    const bool steps_first = context.steps.size() > 1;
    const Doubles values = doubles_of(view);
    result_.arrays.push_back({name});
    for (const Fault& fault : faults_of(view, spread.deviation, steps_first))
      inject(name, view, values, fault, context);
  }

  void skip(const std::string& name, const std::string& why) {
    result_.skipped.push_back(fmt::format("{}: {}", name, why));
  }

  SelfTest result() && { return std::move(result_); }

 private:
  void inject(const std::string& name, const ArrayView& golden, const Doubles& values,
              const Fault& fault, const ArrayContext& context) {
    const Array wrong = array_of(golden.dtype, golden.shape, fault.apply(values));
    if (std::memcmp(wrong.bytes().data(), golden.data, wrong.bytes().size()) == 0) return;
    ++result_.injected;
    ++result_.arrays.back().injected;
    if (judge_arrays(name, golden, wrong.view(), rules_, context).failed()) {
      ++result_.found;
      ++result_.arrays.back().found;
      return;
    }
    auto& missed = result_.missed;
    auto known = std::ranges::find_if(missed, [&](const MissedFault& one) {
      return one.array == name && one.fault == fault.name;
    });
    if (known == missed.end()) known = missed.insert(known, {name, fault.name, {}});
    if (!fault.size.empty()) known->sizes.push_back(fault.size);
  }

  const Side& golden_;
  const ToleranceRules& rules_;
  SelfTest result_;
};

}  // namespace

std::vector<Fault> faults_of(const ArrayView& golden, double deviation, bool steps_first) {
  return FaultList(golden, deviation, steps_first).make();
}

Array array_of(DType dtype, const Shape& shape, const Doubles& values) {
  Array array(dtype, shape);
  io::visit_stored(dtype, [&](auto element) {
    using T = decltype(element);
    auto* out = reinterpret_cast<T*>(array.bytes().data());
    for (size_t i = 0; i < values.size(); ++i) out[i] = io::element_of<T>(values[i]);
  });
  return array;
}

SelfTest test_tolerances(const Side& golden, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  Tester tester(golden, rules);
  for (const auto& [name, path] : golden.arrays) {
    if (is_ignored(ignore, name)) continue;
    try {
      tester.test(name, path);
    } catch (const RequestError&) {  // the fault is in a rule, not in a file
      throw;
    } catch (const RunError& error) {
      tester.skip(name, error.what());
    }
  }
  return std::move(tester).result();
}

}  // namespace flow::compare
