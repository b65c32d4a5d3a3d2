// Joining, suggestions, numbers as people read them, globs.
#include "runtime/base/text.h"
#include "runtime/base/names.h"

#include <catch2/catch.hpp>
#include <limits>

namespace flow {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("split is the inverse of join", "[base]") {
  CHECK(split("a,b,,c", ',') == Words{"a", "b", "", "c"});
  CHECK(split("", ',') == Words{""});
  CHECK(join(Words{"a", "b", "", "c"}, ",") == "a,b,,c");
  CHECK(join(Words{}, ", ").empty());
}

TEST_CASE("a mistyped word is suggested, a different one is not", "[base]") {
  const Words names = {"kernel_size", "filters", "padding", "strides"};
  CHECK(suggest("kernel_sise", names) == Words{"kernel_size"});
  CHECK(suggest("Filters", names) == Words{"filters"});
  CHECK(suggest("stridse", names) == Words{"strides"});  // neighbors swapped
  CHECK(suggest("color", names).empty());
  CHECK(suggest("", names).empty());
}

TEST_CASE("at most three suggestions come, the nearest first", "[base]") {
  const Words names = {"abcdefxyz", "abcdefghx", "abcdefgxy", "abcdefgh_", "abcdefghi"};
  const Words near = suggest("abcdefghi", names);
  REQUIRE(near.size() == 3);
  CHECK(near[0] == "abcdefghi");
}

TEST_CASE("words of a command are quoted where a shell would change them", "[base]") {
  CHECK(command_line(Words{"flowrun", "-o", "a b", "it's", "", "x=@-", "$(y)"}) ==
        "flowrun -o 'a b' 'it'\\''s' '' x=@- '$(y)'");
  CHECK(command_line(Words{"it's \\ \x1b[2J\n\u202e"}) == "$'it\\'s \\\\ \\x1b[2J\\n\\u202e'");
}

TEST_CASE("a whole number is all of a text", "[base]") {
  CHECK(whole_number("000020") == 20);
  CHECK(whole_number("-7") == -7);
  CHECK(whole_number("9223372036854775807") == 9223372036854775807);
  for (const char* other : {"", "7 ", "+7", "7.0", "0x7", "9223372036854775808"})
    CHECK(!whole_number(other));
}

TEST_CASE("long lines go on below their second column", "[base]") {
  CHECK(folded("a  b c d e", 6) == "a  b c\n   d e");
  CHECK(folded("  one two three four", 12) == "  one two\n  three four");
  CHECK(folded("  -x    words of it\n  --long  more", 14) ==
        "  -x    words\n        of it\n  --long  more");
  CHECK(folded("  a name that is long  text here", 18) ==
        "  a name that is\n      long  text\n      here");
  CHECK(folded("indivisible text", 5) == "indivisible\ntext");
  CHECK(folded("  indivisible", 5) == "  indivisible");
  CHECK(folded("ends in blanks       ", 12) == "ends in\nblanks");
  CHECK(folded("         ", 5).empty());
  CHECK(folded("", 5).empty());
  CHECK(folded("short\n\nlines\n", 80) == "short\n\nlines\n");
}

TEST_CASE("alternatives read as a sentence", "[base]") {
  CHECK(quoted_alternatives(Words{}).empty());
  CHECK(quoted_alternatives(Words{"a"}) == "`a`");
  CHECK(quoted_alternatives(Words{"a", "b"}) == "`a` or `b`");
  CHECK(quoted_alternatives(Words{"a", "b", "c"}) == "`a`, `b` or `c`");
}

TEST_CASE("bytes keep three digits in the largest unit", "[base]") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(999) == "999 B");
  CHECK(human_bytes(1000) == "0.98 KiB");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(1572864) == "1.50 MiB");
  CHECK(human_bytes(123456789) == "118 MiB");
  CHECK(human_bytes(std::numeric_limits<uint64_t>::max()) == "16.0 EiB");
}

TEST_CASE("counts have three digits and an SI prefix, or all digits in groups", "[base]") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(832) == "832");
  CHECK(human_count(999.6) == "1.00 k");
  CHECK(human_count(51264) == "51.3 k");
  CHECK(human_count(1663370) == "1.66 M");
  CHECK(human_count(3.628e9) == "3.63 G");
  CHECK(human_count(999.7e6) == "1.00 G");
  CHECK(grouped_digits(0) == "0");
  CHECK(grouped_digits(999) == "999");
  CHECK(grouped_digits(1663370) == "1,663,370");
}

TEST_CASE("numbers for people have four digits, and NaN no sign", "[base]") {
  CHECK(human_number(0.29313) == "0.2931");
  CHECK(human_number(1.25e-5) == "1.25e-05");
  CHECK(human_number(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(human_number(-std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("a double is written with the fewest digits that read back the same", "[base]") {
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(1e-9) == "1e-09");
  CHECK(shortest(1.0 / 3) == "0.3333333333333333");
  CHECK(shortest(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(shortest(-std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("names are letters, digits and underscores, not beginning with a digit", "[base]") {
  CHECK(is_name("conv1"));
  CHECK(is_name("_x"));
  CHECK_FALSE(is_name("1x"));
  CHECK_FALSE(is_name(""));
  CHECK_FALSE(is_name("a-b"));
  CHECK_FALSE(is_name("a/b"));
  CHECK(name_length("conv1/weight") == 5);
  CHECK(name_length("_") == 1);
  CHECK(name_length("1x") == 0);
  CHECK(name_length("") == 0);
  CHECK(name_length(std::string(1'000'000, 'a') + "-") == 1'000'000);
}

TEST_CASE("one star of a glob stays inside a component", "[base]") {
  CHECK(glob_match("lenet/*/weight", "lenet/conv1/weight"));
  CHECK_FALSE(glob_match("lenet/*", "lenet/conv1/weight"));
  CHECK(glob_match("*", "loss"));
  CHECK_FALSE(glob_match("*", "lenet/loss"));
  CHECK(glob_match("conv*1*", "conv_1_1"));
  CHECK_FALSE(glob_match("conv?", "conv1"));
}

TEST_CASE("two stars of a glob cross components", "[base]") {
  CHECK(glob_match("**/weight", "lenet/conv1/weight"));
  CHECK(glob_match("**/weight", "weight"));
  CHECK_FALSE(glob_match("**/weight", "lenet/overweight"));
  CHECK(glob_match("lenet/**", "lenet/conv1/weight"));
  CHECK(glob_match("**", "a/b/c"));
  CHECK(glob_match("**a*b", "x/a/ab"));
}

TEST_CASE("globs without stars match themselves alone", "[base]") {
  CHECK(glob_match("lenet/conv1", "lenet/conv1"));
  CHECK_FALSE(glob_match("lenet/conv1", "lenet/conv10"));
  CHECK_FALSE(glob_match("", "a"));
  CHECK(glob_match("", ""));
}

TEST_CASE("braces in a glob are alternatives, nested too", "[base]") {
  CHECK(glob_match("net/{conv,dense}*/{weight,bias}", "net/dense2/bias"));
  CHECK_FALSE(glob_match("net/{conv,dense}/weight", "net/convolution/weight"));
  CHECK(glob_match("{a,b{1,2}}/*", "b2/w"));
  CHECK_FALSE(glob_match("{a,b{1,2}}/*", "b/w"));
  CHECK(glob_match("**/{gamma,beta}", "net/norm/beta"));
  CHECK(glob_match("**/{gamma,beta}", "gamma"));
  CHECK(glob_match("{**/w,x}", "w"));
  CHECK(glob_match("{*/w,x/**}", "x/y/z"));
  CHECK_FALSE(glob_match("{*/w,x}", "a/b/w"));
  CHECK(glob_match("a{,b}c", "ac"));
  CHECK(glob_match("a,b", "a,b"));
}

TEST_CASE("braces that do not fit together match nothing, and are named", "[base]") {
  CHECK_FALSE(glob_match("a{b", "a{b"));
  CHECK(no_match("tensor", "a{b") == "invalid glob `a{b`: `{` without `}`");
  CHECK(no_match("tensor", "a}b") == "invalid glob `a}b`: `}` without `{`");
  CHECK(no_match("tensor", "{a,{b}") == "invalid glob `{a,{b}`: `{` without `}`");
  CHECK(no_match("tensor", "a{}") == "invalid glob `a{}`: empty braces");
  CHECK(no_match("tensor", "{a,b}") == "no tensor matches `{a,b}`");
}

TEST_CASE("a glob of many braces takes no exponential time", "[base]") {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "{a,aa,*}";
  CHECK(glob_match(pattern, std::string(1000, 'a')));
  CHECK_FALSE(glob_match(pattern + "b", std::string(1000, 'a')));
  CHECK(no_match("tensor", pattern + "{a,b}").ends_with("more than 100 pairs of braces"));
  CHECK(no_match("tensor", std::string(100'000, '{')).ends_with("more than 100 pairs of braces"));
}

TEST_CASE("a glob of many stars takes no exponential time", "[base]") {
  std::string pattern, name(5000, 'a');
  for (int i = 0; i < 300; ++i) pattern += "*a";
  CHECK_FALSE(glob_match(pattern + "b", name));
}

}  // namespace
}  // namespace flow
