// Plans with bytes and words changed: each is refused with a RequestError or is the same plan,
// and none does harm.
#include <catch2/catch.hpp>
#include <random>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"
#include "tests/support/sanitized.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using flow::test::kCasesPerTried;

namespace {

/// Reads a text that is no longer what was written. True when it is taken as a plan.
bool is_taken(const std::string& text, const std::string& expected_hash) {
  try {
    const Plan plan = from_json(text, "a.plan");
    // What is outside the hash may differ, what runs may not.
    INFO(text);
    REQUIRE(hash(plan) == expected_hash);
    return true;
  } catch (const RequestError&) {
    return false;
  }
}

/// Begins and ends of the numbers, strings and words of a JSON text.
std::vector<std::pair<size_t, size_t>> scalars_of(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> scalars;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t end = i;
    if (text[i] == '"') {
      while (text[++end] != '"') end += text[end] == '\\' ? 1 : 0;
      ++end;
    } else {
      end = std::min(text.find_first_of(",:[]{} \n", i), text.size());
    }
    if (end > i) scalars.emplace_back(i, end);
    i = std::max(i, end - (end > i ? 1 : 0));
  }
  return scalars;
}

}  // namespace

TEST_CASE("a plan with any byte changed, removed or inserted is refused", "[property]") {
  const std::string text = to_json(sample::small_plan());
  const std::string named = hash(sample::small_plan());
  std::mt19937 random(1);
  size_t taken = 0;
  for (size_t i = 0; i < text.size(); i += kCasesPerTried) {
    std::string flipped = text, other = text, removed = text, inserted = text;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << random() % 7));
    other[i] = static_cast<char>(other[i] + 1 + random() % 255);
    removed.erase(i, 1);
    inserted.insert(i, 1, "0,\"{ \n\xff"[random() % 7]);
    for (const std::string& changed : {flipped, other, removed, inserted})
      taken += is_taken(changed, named) ? 1 : 0;
  }
  CHECK(taken == 0);
}

TEST_CASE("a plan that ends anywhere before its end is refused", "[property]") {
  const std::string text = to_json(sample::small_plan());
  const std::string named = hash(sample::small_plan());
  for (size_t i = 0; i < text.size(); i += kCasesPerTried)
    CHECK_FALSE(is_taken(text.substr(0, i), named));
}

TEST_CASE("a plan with values exchanged and sealed again is refused, or runs the same",
          "[property]") {
  const Plan plan = GENERATE(sample::full_plan(), sample::sharded_plan());
  const std::string text = to_json(plan);
  const std::string named = hash(plan);
  const auto scalars = scalars_of(text);
  const std::vector<std::string> strange = {"0",    "-1",   "1e308",       "9223372036854775807",
                                            "null", "true", "-2147483649", "18446744073709551615",
                                            "\"\"", "[]",   "{}",          "\"../x\"",
                                            "0.5",  "[0]",  "4294967296",  "{\"float\":\"nan\"}"};
  std::mt19937 random(2);
  size_t refused = 0;
  constexpr size_t kRounds = 1500 / kCasesPerTried;
  for (size_t round = 0; round < kRounds; ++round) {
    const auto [begin, end] = scalars[random() % scalars.size()];
    const auto [from, to] = scalars[random() % scalars.size()];
    const std::string value =
        random() % 2 ? strange[random() % strange.size()] : text.substr(from, to - from);
    std::string changed = text;
    changed.replace(begin, end - begin, value);
    refused += is_taken(with_checksum(changed), named) ? 0 : 1;
  }
  CHECK(refused > kRounds / 2);
  CHECK(refused < kRounds);
}
