// Learning rates against tables made elsewhere.
#include "runtime/plan/schedule.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/base/file.h"

using namespace flow;
using namespace flow::plan;

namespace {

/// The float64 values of a golden array; they are the last bytes of its file.
std::vector<double> golden(const std::string& name) {
  const std::string text =
      read_text(fs::path(FLOW_SOURCE_DIR) / "tests/golden/learning_rates" / (name + ".npy"));
  std::vector<double> values(150);
  const size_t bytes = values.size() * sizeof(double);
  REQUIRE(text.size() > bytes);
  std::memcpy(values.data(), text.data() + text.size() - bytes, bytes);
  return values;
}

void check_against(const std::string& name, const Schedule& schedule) {
  const std::vector<double> expected = golden(name);
  for (size_t step = 0; step < expected.size(); ++step)
    CHECK(learning_rate(schedule, static_cast<int64_t>(step)) == expected[step]);
}

}  // namespace

TEST_CASE("learning rates are those of the golden tables at every step") {
  check_against("constant", {"constant", {{"base", 0.4}}, {}, {}});
  check_against("piecewise_constant", {"piecewise_constant", {}, {30, 80}, {0.4, 0.2, 0.05}});
}

TEST_CASE("a boundary still has the rate before it, and without boundaries there is one rate") {
  const Schedule schedule{"piecewise_constant", {}, {10}, {1, 2}};
  CHECK(learning_rate(schedule, 10) == 1);
  CHECK(learning_rate(schedule, 11) == 2);
  CHECK(learning_rate(schedule, INT64_MAX) == 2);
  CHECK(learning_rate({"piecewise_constant", {}, {}, {0.1}}, 12345) == 0.1);
}
