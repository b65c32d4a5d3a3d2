// printf formats of one number, and what is none.
#include "runtime/base/text.h"

#include <catch2/catch.hpp>

namespace flow {
namespace {

TEST_CASE("a number is printed as printf would", "[base]") {
  CHECK(format_number("%.6g", 0.1) == "0.1");
  CHECK(format_number("%8.3f|", 2.0 / 3) == "   0.667|");
  CHECK(format_number("%+.2f %%", 99.126) == "+99.13 %");
  CHECK(format_number("loss=%e", 1) == "loss=1.000000e+00");
}

TEST_CASE("one conversion of a double, no more and no less", "[base]") {
  for (const char* good : {"%g", "%-08.3E", "%% %a", "%.f"}) CHECK(is_number_format(good));
  for (const char* bad : {"", "text", "%", "%d", "%s", "%n", "%ld", "%Lf", "%*f", "%.*f", "%1$f",
                          "%f %f", "%100f", "%.100f", "%g%"}) {
    INFO(bad);
    CHECK_FALSE(is_number_format(bad));
  }
  CHECK_FALSE(is_number_format(std::string_view("%g\0%n", 5)));
  CHECK_FALSE(is_number_format(std::string_view("%g\0x", 4)));
}

}  // namespace
}  // namespace flow
