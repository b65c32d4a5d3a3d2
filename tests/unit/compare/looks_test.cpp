// What differences look like: each known fault, planted, is named with its share of the error.
#include "runtime/compare/looks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "runtime/base/element_types.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/tolerance.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"

namespace flow::compare {
namespace {

constexpr Tolerance kDefault = {1.3e-6, 1e-5};

Array normal(const Shape& shape, unsigned seed = 1, DType dtype = DType::kFloat32) {
  std::mt19937 random(seed);
  std::normal_distribution<double> distribution;
  Doubles values(static_cast<size_t>(shape.elements()));
  for (double& value : values) value = distribution(random);
  return array_of(dtype, shape, values);
}

template <typename Change>
Array changed(const Array& golden, Change change) {
  Doubles values = doubles_of(golden.view());
  for (size_t i = 0; i < values.size(); ++i) values[i] = change(values[i], i);
  return array_of(golden.dtype(), golden.shape(), values);
}

/// `from(i)`: where element i comes from.
template <typename From>
Array moved(const Array& golden, From from) {
  const Doubles values = doubles_of(golden.view());
  return changed(golden, [&](double, size_t i) { return values[from(i)]; });
}

std::optional<Look> look_at(const Array& golden, const Array& out, LookContext context = {}) {
  context.tolerance = kDefault;
  return best_look(golden.view(), out.view(), context);
}

/// The text of a look that explains nearly all of the error.
std::string text_at(const Array& golden, const Array& out, const LookContext& context = {}) {
  const auto look = look_at(golden, out, context);
  if (!look) return "none";
  CHECK(look->share > 0.97);
  CHECK(look->share <= 1 + 1e-9);
  return look->text;
}

TEST_CASE("offsets, gains and signs are named with their number", "[compare]") {
  const Array golden = normal({20, 30});
  CHECK(text_at(golden, changed(golden, [](double x, size_t) { return x + 0.25; })) ==
        "constant offset of 0.25");
  CHECK(text_at(golden, changed(golden, [](double x, size_t) { return 1.5 * x; })) ==
        "gain of 1.5");
  CHECK(text_at(golden, changed(golden, [](double x, size_t) { return -x; })) == "opposite sign");
}

TEST_CASE("an offset of twice the tolerance is named", "[compare]") {
  const Array golden = normal({20, 30});
  const Array out = changed(golden, [](double x, size_t) { return x + 2 * kDefault.at(x); });
  const auto found = compare_arrays("x", golden.view(), out.view(), {});
  CHECK(found.verdict == Verdict::kDiffers);
  REQUIRE(found.look);
  CHECK(found.look->kind == LookKind::kOffset);
  CHECK(found.look->share > 0.95);
}

TEST_CASE("faults of twice the tolerance in one place are named", "[compare]") {
  const Array golden = normal({12, 10});
  const auto where = [&](auto is_wrong) {
    return text_at(golden, changed(golden, [&](double x, size_t i) {
                     return is_wrong(i) ? x + 2 * kDefault.at(x) : x;
                   }));
  };
  CHECK(where([](size_t i) { return i % 10 == 3; }) == "index 3 of axis 1 only");
  CHECK(where([](size_t i) { return i / 10 == 4; }) == "index 4 of axis 0 only");
  CHECK(where([](size_t i) { return i / 10 >= 10; }) == "last 2 rows of 12");
  CHECK(where([](size_t i) { return i == 57; }) == "one element, at [5, 7]");
}

TEST_CASE("a flipped bit is named", "[compare]") {
  const Array golden = normal({5, 7});
  Array out = golden;
  out.bytes()[4 * 12 + 2] ^= std::byte{64};
  CHECK(text_at(golden, out) == "bit 22 of one element, at [1, 5]");
}

TEST_CASE("axes in another order are named, with the shape or without", "[compare]") {
  const Array square = normal({6, 6});
  CHECK(text_at(square, moved(square, [](size_t i) { return i % 6 * 6 + i / 6; })) ==
        "golden with axes (1, 0)");
  const Array golden = normal({4, 5, 3});
  const Array out = moved(golden, [](size_t i) { return i % 4 * 15 + i / 4; });
  CHECK(text_at(golden, out) == "golden with axes (1, 2, 0), in the memory of the other");
  const Array wide = normal({4, 5});
  Array tall(DType::kFloat32, {5, 4});
  for (size_t i = 0; i < 20; ++i) tall.as<float>()[i] = wide.as<float>()[i % 4 * 5 + i / 4];
  const auto found = compare_arrays("x", wide.view(), tall.view(), {});
  CHECK(found.verdict == Verdict::kShape);
  REQUIRE(found.look);
  CHECK(found.look->text == "golden with axes (1, 0)");
  CHECK(found.look->share == 1);
}

TEST_CASE("shifts along an axis are named", "[compare]") {
  const Array golden = normal({3, 8, 9});
  const Array right = moved(golden, [](size_t i) { return i % 9 > 0 ? i - 1 : i; });
  CHECK(text_at(golden, right) == "shifted by 1 along axis 2");
  const Array rolled = moved(golden, [](size_t i) { return i / 9 * 9 + (i % 9 + 7) % 9; });
  CHECK(text_at(golden, rolled) == "shifted by 2 along axis 2, around its end");
  const Array up = moved(golden, [](size_t i) { return i / 9 % 8 < 7 ? i + 9 : i; });
  CHECK(text_at(golden, up) == "shifted by -1 along axis 1");
}

TEST_CASE("rows in another order are named, numbers in another order only if exact", "[compare]") {
  const Array golden = normal({16, 5});
  CHECK(text_at(golden, moved(golden, [](size_t i) { return (i / 5 * 7 + 3) % 16 * 5 + i % 5; })) ==
        "rows in another order");
  const Array numbers = normal({100});
  CHECK(text_at(numbers, moved(numbers, [](size_t i) { return (i * 37 + 11) % 100; })) ==
        "rows in another order");
  CHECK_FALSE(look_at(numbers, normal({100}, 2)));
}

TEST_CASE("a shift that is filled with a constant is named with it", "[compare]") {
  const Array golden = normal({6, 8, 9});
  const Doubles values = doubles_of(golden.view());
  const auto filled = [&](double fill) {
    return changed(golden, [&](double, size_t i) { return i % 9 > 1 ? values[i - 2] : fill; });
  };
  CHECK(text_at(golden, filled(0)) == "shifted by 2 along axis 2, filled with 0");
  CHECK(text_at(golden, filled(-1e6)) == "shifted by 2 along axis 2, filled with -1e+06");
  CHECK(text_at(golden, filled(-100)) == "shifted by 2 along axis 2, filled with -100");
  // Unrelated arrays are not called shifted because a constant fills a part of one.
  const Array other = normal({6, 8, 9}, 7);
  const Array end = changed(other, [&](double x, size_t i) { return i % 9 == 0 ? 100 : x; });
  CHECK_FALSE(look_at(golden, end));
}

TEST_CASE("indices of an axis in another order are named", "[compare]") {
  const Array golden = normal({5, 16, 7});
  const auto along = [&](auto of) {
    return text_at(golden, moved(golden, [&](size_t i) {
                     const size_t at = i / 7 % 16;
                     return i + of(at) * 7 - at * 7;
                   }));
  };
  CHECK(along([](size_t at) { return 15 - at; }) == "axis 1 reversed");
  CHECK(along([](size_t at) {
          return at == 2 ? 9 : at == 9 ? 2 : at;
        }) == "indices 2 and 9 of axis 1 exchanged");
  CHECK(along([](size_t at) { return (at * 7 + 3) % 16; }) == "indices of axis 1 in another order");
  const Array two = normal({20, 2, 6});
  CHECK(text_at(two, moved(two, [](size_t i) { return i / 12 * 12 + (i + 6) % 12; })) ==
        "indices 0 and 1 of axis 1 exchanged");
  const Array images = normal({4, 3, 6, 6});
  CHECK(text_at(images, moved(images, [](size_t i) {
                  const size_t at = i / 36 % 3;
                  return i + (2 - at) * 36 - at * 36;
                })) == "axis 1 reversed");
  const Array wide = normal({3, 4096});
  CHECK(text_at(wide, moved(wide, [](size_t i) { return i / 4096 * 4096 + (i * 5 + 1) % 4096; })) ==
        "indices of axis 1 in another order");
  CHECK_FALSE(look_at(wide, normal({3, 4096}, 2)));
}

TEST_CASE("rounding to fewer bits is named on either side", "[compare]") {
  const Array golden = normal({200});
  const Array narrow = changed(
      golden, [](double x, size_t) { return static_cast<double>(flow::convert<BFloat16>(x)); });
  CHECK(text_at(golden, narrow) == "out is golden rounded to bfloat16");
  CHECK(text_at(narrow, golden) == "golden is out rounded to bfloat16");
  const Array half = changed(
      golden, [](double x, size_t) { return static_cast<double>(flow::convert<Float16>(x)); });
  CHECK(text_at(golden, half) == "out is golden rounded to float16");
  const Array wide = normal({200}, 3, DType::kFloat64);
  const Array single =
      changed(wide, [](double x, size_t) { return static_cast<double>(static_cast<float>(x)); });
  CHECK(text_at(wide, single) == "out is golden rounded to float32");
}

TEST_CASE("values of earlier steps are named", "[compare]") {
  const Array golden = normal({10, 4});
  LookContext steps;
  steps.steps_first = true;
  steps.steps = {0, 5, 10, 15, 20, 25, 30, 35, 40, 45};
  CHECK(text_at(golden, moved(golden, [](size_t i) { return i < 4 ? i : i - 4; }), steps) ==
        "stale: each step has the values of the one before");
  CHECK(text_at(golden, moved(golden, [](size_t i) { return std::min(i, 24 + i % 4); }), steps) ==
        "stale: from step 35 on, the values of step 30");
  CHECK(text_at(golden, moved(golden, [](size_t i) { return i / 4 == 6 ? i - 4 : i; }), steps) ==
        "stale: step 30 has the values of step 25");
  CHECK(text_at(golden, moved(golden, [](size_t i) { return i / 4 == 6 ? i - 12 : i; }), steps) ==
        "stale: step 30 has the values of step 15");
  CHECK(text_at(golden, moved(golden, [](size_t i) { return i / 4 % 3 == 2 ? i - 4 : i; }),
                steps) == "stale: 3 of 10 steps have the values of the one before");
  CHECK(text_at(golden,
                moved(golden, [](size_t i) { return i / 4 >= 4 && i / 4 < 7 ? 12 + i % 4 : i; }),
                steps) == "stale: steps 20 to 30 have the values of step 15");
  const FreshDirectory directory;
  const Array before = normal({4}, 5), now = normal({4}, 6);
  io::write_npy(directory / "000010.npy", before.view());
  LookContext files;
  files.earlier = {{10, directory / "000010.npy"}};
  CHECK(text_at(now, before, files) == "stale: the values of step 10");
}

TEST_CASE("a fault that begins at a step is named with the step", "[compare]") {
  const Array golden = normal({10, 30});
  LookContext steps;
  steps.steps_first = true;
  steps.steps = {0, 5, 10, 15, 20, 25, 30, 35, 40, 45};
  const auto from = [&](auto change) {
    return text_at(
        golden, changed(golden, [&](double x, size_t i) { return i / 30 < 7 ? x : change(x, i); }),
        steps);
  };
  CHECK(from([](double x, size_t) { return x + 0.25; }) ==
        "constant offset of 0.25, from step 35 on");
  CHECK(from([](double x, size_t) { return 1.01 * x; }) == "gain of 1.01, from step 35 on");
  CHECK(from([](double x, size_t) { return -x; }) == "opposite sign, from step 35 on");
  const Array noise = normal({10, 30}, 2);
  CHECK(from([&](double x, size_t i) { return x + x * double{noise.as<float>()[i]}; }) ==
        "equal before, wrong from step 35 on");
  // What grows from rounding begins nowhere.
  CHECK_FALSE(look_at(golden,
                      changed(golden,
                              [&](double x, size_t i) {
                                const double size = std::pow(10.0, static_cast<double>(i / 30) - 8);
                                return i / 30 < 1 ? x : x + size * x * double{noise.as<float>()[i]};
                              }),
                      steps));
}

TEST_CASE("white noise is named with its size, where there are enough elements", "[compare]") {
  for (unsigned seed = 0; seed < 20; ++seed)
    for (const Shape& shape : {Shape{1000}, Shape{40, 30}, Shape{8, 3, 16, 16}}) {
      const Array golden = normal(shape, seed), noise = normal(shape, seed + 1000);
      const auto plus = [&](double size) {
        const auto look = look_at(golden, changed(golden, [&](double x, size_t i) {
                                    return x + size * double{noise.as<float>()[i]};
                                  }));
        return look ? look->text.substr(0, 9) : "none";
      };
      CAPTURE(seed, shape.str());
      CHECK(plus(0.1) == "noise of ");
      CHECK(plus(1e-3) == "noise of ");
      CHECK(plus(1e-5) == "none");  // rounding
      CHECK_FALSE(look_at(golden, noise));
      CHECK_FALSE(look_at(golden, changed(golden, [&](double x, size_t i) {
                            return x * (1 + 0.01 * double{noise.as<float>()[i]});
                          })));
    }
  const Array golden = normal({100, 100}), noise = normal({100, 100}, 2);
  const auto look = look_at(golden, changed(golden, [&](double x, size_t i) {
                              return x + 1e-3 * double{noise.as<float>()[i]};
                            }));
  REQUIRE(look);
  CHECK(look->text == "noise of 0.001 rms");
  // Noise of one half is a place, not noise.
  CHECK_FALSE(look_at(golden, changed(golden, [&](double x, size_t i) {
                        return i % 100 < 50 ? x : x + 1e-3 * double{noise.as<float>()[i]};
                      })));
}

TEST_CASE("noise of few elements looks like nothing", "[compare]") {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (const Shape& shape : {Shape{40}, Shape{12, 12}, Shape{4, 5, 6}}) {
      const Array golden = normal(shape, seed), noise = normal(shape, seed + 1000);
      const Array out = changed(
          golden, [&](double x, size_t i) { return x + 0.1 * double{noise.as<float>()[i]}; });
      CAPTURE(seed, shape.str());
      CHECK_FALSE(look_at(golden, out));
    }
}

TEST_CASE("looks of strange arrays do no harm", "[compare]") {
  const float nan = std::nanf(""), infinity = INFINITY, large = 3e38f;
  Array golden(DType::kFloat32, {6}), out(DType::kFloat32, {6});
  const float a[] = {nan, infinity, 0, large, -large, 1}, b[] = {1, 0, 0, -large, large, nan};
  std::copy_n(a, 6, golden.as<float>().begin());
  std::copy_n(b, 6, out.as<float>().begin());
  const auto look = look_at(golden, out);
  REQUIRE(look);
  CHECK(look->text == "opposite sign");
  CHECK_FALSE(look_at(golden, golden));
  CHECK_FALSE(look_at(Array(DType::kFloat32, {0, 3}), Array(DType::kFloat32, {0, 3})));
  CHECK_FALSE(look_at(Array(DType::kInt64, {}), Array(DType::kInt64, {})));
}

TEST_CASE("of faults beyond the tolerance at least 95 of 100 are found and named", "[compare]") {
  int injected = 0, found = 0, named = 0;
  for (unsigned seed = 0; seed < 20; ++seed)
    for (const Shape& shape : {Shape{64}, Shape{8, 16}, Shape{6, 6}, Shape{3, 5, 4}}) {
      const Array golden = normal(shape, seed);
      // Sizes are shares of the deviation, the least ten times this. goldens_test.py tries
      // tolerances that were measured.
      ToleranceRules rules;
      rules.relative = 0;
      rules.absolute = 0.0001;
      for (const Fault& fault : faults_of(golden.view(), 1, false)) {
        const Array out = array_of(DType::kFloat32, shape, fault.apply(doubles_of(golden.view())));
        const auto difference = compare_arrays("x", golden.view(), out.view(), rules);
        ++injected;
        found += difference.failed();
        named += difference.look.has_value();
      }
    }
  CHECK(injected > 1000);
  CHECK(found >= 0.95 * injected);
  CHECK(named >= 0.95 * found);
}

}  // namespace
}  // namespace flow::compare
