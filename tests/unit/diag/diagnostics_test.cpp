// The list of messages.
#include <catch2/catch.hpp>
#include <cctype>
#include <set>
#include <string>

#include "compiler/diag/diag.h"

using namespace flow;

TEST_CASE("Each diagnosis has a code of its own, in order within its section", "[diag]") {
  std::set<std::string_view> codes;
  std::string_view last;
  for (const DiagnosisInfo& info : all_diagnoses()) {
    CAPTURE(info.kind);
    CHECK(codes.insert(info.code).second);
    CHECK(info.code.size() == 5);
    CHECK((info.code[0] == 'E' || info.code.substr(0, 3) == "W09"));
    if (last.substr(0, 3) == info.code.substr(0, 3)) CHECK(last < info.code);
    last = info.code;
  }
}

TEST_CASE("Each diagnosis is explained in whole sentences", "[diag]") {
  for (const DiagnosisInfo& info : all_diagnoses()) {
    CAPTURE(info.kind);
    REQUIRE_FALSE(info.title.empty());
    REQUIRE_FALSE(info.explanation.empty());
    CHECK(info.title.back() != '.');
    const std::string_view prose = info.explanation.substr(0, info.explanation.find("\n\n"));
    CHECK((prose.back() == '.' || prose.back() == ':'));
  }
}

TEST_CASE("A diagnosis is found by its code in any case", "[diag]") {
  const DiagnosisInfo* info = find_diagnosis("e0312");
  REQUIRE(info);
  CHECK(info->kind == "kWindow");
  CHECK(&info_of(Diagnosis::kWindow) == info);
  CHECK(find_diagnosis("E9999") == nullptr);
  CHECK(find_diagnosis("") == nullptr);
}
