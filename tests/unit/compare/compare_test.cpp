// What differs between two arrays, and between two folders of them.
#include "runtime/compare/compare.h"

#include <catch2/catch.hpp>
#include <limits>

#include "runtime/io/npy.h"
#include "runtime/plan/json/records.h"
#include "tests/support/fresh_directory.h"

namespace flow::compare {
namespace {

using Index = std::vector<int64_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
Array typed_array(Shape shape, const std::vector<T>& values) {
  Array array(DTypeOf<T>::value, std::move(shape));
  std::copy(values.begin(), values.end(), array.as<T>().begin());
  return array;
}

template <typename T>
ArrayDifference difference(const std::vector<T>& golden, const std::vector<T>& out,
                           const ToleranceRules& rules = {}) {
  const Shape shape{static_cast<int64_t>(golden.size())};
  return compare_arrays("net/x", typed_array(shape, golden).view(), typed_array(shape, out).view(),
                        rules);
}

TEST_CASE("equal arrays are equal, also with NaN and infinities", "[compare]") {
  const auto found = difference<float>({1, kNaN, kInf, -kInf, 0.0f}, {1, kNaN, kInf, -kInf, -0.0f});
  CHECK(found.verdict == Verdict::kMistrusted);
  CHECK(found.over == 0);
  CHECK(found.elements == 5);
  CHECK_FALSE(found.failed());
}

TEST_CASE("an error within the tolerance is reported and passes", "[compare]") {
  const auto found = difference<float>({100, 1}, {100.0001f, 1});
  CHECK(found.verdict == Verdict::kWithin);
  CHECK(found.absolute.error == Approx(1e-4).epsilon(0.1));
  CHECK(found.absolute.index == Index{0});
  CHECK(found.over == 0);
}

TEST_CASE("the tolerance is relative to golden and includes its edge", "[compare]") {
  ToleranceRules rules;
  rules.relative = 0.5;
  rules.absolute = 0;
  CHECK(difference<double>({2}, {3}, rules).verdict == Verdict::kWithin);
  CHECK(difference<double>({3}, {1}, rules).verdict == Verdict::kDiffers);
  CHECK(difference<double>({2}, {3.001}, rules).verdict == Verdict::kDiffers);
}

TEST_CASE("the worst elements come with their index and both values", "[compare]") {
  const Array golden = typed_array<float>({2, 3}, {1, 2, 3, 100, 5, 0});
  const Array out = typed_array<float>({2, 3}, {1, 3, 3, 102, 5, 0.5f});
  const auto found = compare_arrays("x", golden.view(), out.view(), {});
  CHECK(found.verdict == Verdict::kDiffers);
  CHECK(found.over == 3);
  CHECK(found.first_mismatch == Index{0, 1});
  CHECK(found.first_golden == "2.0");
  CHECK(found.absolute.error == 2);
  CHECK(found.absolute.index == Index{1, 0});
  CHECK(found.absolute.golden == "100.0");
  CHECK(found.absolute.out == "102.0");
  CHECK(found.relative.error == 0.5);  // of 2; a golden zero has no relative error
  CHECK(found.relative.index == Index{0, 1});
}

TEST_CASE("NaN and infinities in other places are mismatches of their own", "[compare]") {
  const auto found = difference<float>({1, kNaN, kInf, kInf, 1}, {kNaN, 1, 1, -kInf, kInf});
  CHECK(found.over == 5);
  CHECK(found.nan_mismatches == 2);
  CHECK(found.inf_mismatches == 3);
  CHECK(found.absolute.error == 0);
  CHECK(found.first_golden == "1.0");
  CHECK(found.first_out == "nan");
}

TEST_CASE("integers and bools are exact unless asked otherwise", "[compare]") {
  CHECK(difference<int64_t>({1, 2}, {1, 3}).over == 1);
  CHECK(difference<bool>({true}, {false}).verdict == Verdict::kDiffers);
  ToleranceRules rules;
  rules.absolute = 1;  // of floats
  CHECK(difference<int64_t>({1, 2}, {1, 3}, rules).verdict == Verdict::kDiffers);
  rules.rules = {{"net/*", {0, 1}}};
  CHECK(difference<int64_t>({1, 20}, {1, 21}, rules).verdict == Verdict::kWithin);
}

TEST_CASE("large integers that no double tells apart differ", "[compare]") {
  constexpr int64_t kLarge = int64_t{1} << 53;
  const auto found = difference<int64_t>({kLarge}, {kLarge + 1});
  CHECK(found.verdict == Verdict::kDiffers);
  CHECK(found.absolute.error == 1);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  CHECK(difference<int64_t>({kLeast}, {-(kLeast + 1)}).absolute.error == Approx(0x1p64));
}

TEST_CASE("dtype and shape must agree", "[compare]") {
  const Array a = typed_array<float>({2}, {1, 2}), b = typed_array<double>({2}, {1, 2});
  const Array c = typed_array<float>({1, 2}, {1, 2});
  CHECK(compare_arrays("x", a.view(), b.view(), {}).verdict == Verdict::kDType);
  CHECK(compare_arrays("x", a.view(), b.view(), {}).detail == "golden is float32, out is float64");
  CHECK(compare_arrays("x", a.view(), c.view(), {}).verdict == Verdict::kShape);
  CHECK(compare_arrays("x", a.view(), c.view(), {}).detail == "golden is [2], out is [1, 2]");
}

TEST_CASE("empty arrays and scalars compare", "[compare]") {
  const Array none = typed_array<float>({0, 3}, {}), one = typed_array<float>({}, {1});
  CHECK(compare_arrays("x", none.view(), none.view(), {}).verdict == Verdict::kMistrusted);
  const auto found = compare_arrays("x", one.view(), typed_array<float>({}, {2}).view(), {});
  CHECK(found.over == 1);
  CHECK(found.first_mismatch.empty());
}

TEST_CASE("the last matching glob decides the tolerance", "[compare]") {
  ToleranceRules rules;
  rules.absolute = 7;
  CHECK(difference<float>({1}, {1}, rules).tolerance.absolute == 7);
  CHECK(difference<float>({1}, {1}, rules).tolerance.relative == 1.3e-6);
  rules.rules = {{"**", {0, 1}}, {"net/*", {0, 2}}, {"other/*", {0, 3}}};
  CHECK(difference<float>({1}, {1}, rules).tolerance.absolute == 2);
  CHECK(difference<float>({1}, {1}, rules).tolerance.relative == 0);
}

struct Folders : FreshDirectory {
  void put(const std::string& path, const std::vector<float>& values = {1, 2}) const {
    fs::create_directories((*this / path).parent_path());
    io::write_npy(*this / path,
                  typed_array<float>({static_cast<int64_t>(values.size())}, values).view());
  }
  void text(const std::string& path, const std::string& content = "{}") const {
    fs::create_directories((*this / path).parent_path());
    write_text_atomically(*this / path, content);
  }
  /// "name verdict" of each array.
  std::vector<std::string> compared() const {
    constexpr const char* kWords[] = {"equal", "within", "mistrusted", "differs",   "missing",
                                      "extra", "dtype",  "shape",      "unreadable"};
    std::vector<std::string> lines;
    for (const auto& array : compare_paths(*this / "a", *this / "b", {}).arrays)
      lines.push_back(array.name + " " + kWords[static_cast<size_t>(array.verdict)]);
    return lines;
  }
};

using Lines = std::vector<std::string>;

TEST_CASE("folders are compared by name, with what only one of them has", "[compare]") {
  const Folders folders;
  for (const char* name : {"a/net/w.npy", "b/net/w.npy", "a/old.npy", "b/new.npy"})
    folders.put(name);
  folders.put("a/v.npy", {1});
  folders.put("b/v.npy", {2});
  folders.text("b/notes.txt");
  folders.text("a/broken.npy");
  folders.put("b/broken.npy");
  CHECK(folders.compared() ==
        Lines{"broken unreadable", "net/w equal", "new extra", "old missing", "v differs"});
  const Comparison comparison = compare_paths(folders / "a", folders / "b", {});
  CHECK(comparison.failed() == 4);
  CHECK(comparison.pairs() == 3);
}

TEST_CASE("run directories are compared by returns, watches and the newest whole checkpoint",
          "[compare]") {
  const Folders folders;
  const auto record = [](int64_t step) {
    plan::CheckpointRecord made;
    made.step = step;
    return plan::to_json(made);
  };
  for (const std::string run : {"a", "b"}) {
    folders.text(run + "/plan.json");
    folders.put(run + "/returns/loss/value.npy");
    folders.put(run + "/watch/x/value.npy");
    folders.put(run + "/checkpoints/000009/w.npy", {9});
    folders.text(run + "/checkpoints/000009/checkpoint.json", record(9));
    folders.put(run + "/other/y.npy");
  }
  folders.put("b/checkpoints/1000000/w.npy", {10});
  folders.text("b/checkpoints/1000000/checkpoint.json", record(1000000));
  CHECK(folders.compared() ==
        Lines{"checkpoint/w differs", "returns/loss/value equal", "watch/x/value equal"});
  folders.put("b/checkpoints/2000000/w.npy", {9});
  CHECK_THROWS_WITH(folders.compared(), Catch::Contains("2000000 has no checkpoint.json"));
}

TEST_CASE("two files are compared whatever their names", "[compare]") {
  const Folders folders;
  folders.put("golden.npy");
  folders.put("out.npy");
  const Comparison comparison = compare_paths(folders / "golden.npy", folders / "out.npy", {});
  REQUIRE(comparison.arrays.size() == 1);
  CHECK(comparison.arrays[0].name == "golden");
  CHECK(comparison.failed() == 0);
}

TEST_CASE("paths that are missing or of different kinds are a wrong request", "[compare]") {
  const Folders folders;
  folders.put("file.npy");
  folders.put("folder/x.npy");
  folders.text("run/plan.json");
  const auto compare_two = [&](const char* a, const char* b) {
    return compare_paths(folders / a, folders / b, {});
  };
  CHECK_THROWS_AS(compare_two("nowhere", "folder"), RequestError);
  CHECK_THROWS_AS(compare_two("file.npy", "folder"), RequestError);
  CHECK_THROWS_AS(compare_two("folder", "run"), RequestError);
}

}  // namespace
}  // namespace flow::compare
