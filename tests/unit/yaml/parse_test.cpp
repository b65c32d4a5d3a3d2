// Trees with exact places.
#include <catch2/catch.hpp>

#include "compiler/yaml/parse.h"
#include "compiler/yaml/tree.h"

using namespace flow;
using yaml::Kind;
using yaml::Node;

namespace {

/// A text, its tree and what was said about it.
struct Parsed {
  explicit Parsed(std::string text) {
    id = sources.add("a.yaml", std::move(text));
    root = yaml::parse(sources, id, diags);
  }
  std::string_view text(const Node& node) const { return sources.text(node.span); }
  std::string_view text(Span span) const { return sources.text(span); }
  const Node& at(std::string_view key) const { return *root.find(key); }

  Sources sources;
  Diags diags{sources};
  int32_t id;
  Node root;
};

}  // namespace

TEST_CASE("Every spelling of null is an empty value, unless it is quoted", "[yaml]") {
  for (const std::string null : {"~", "null", "Null", "NULL"}) {
    INFO(null);
    CHECK(Parsed("a: " + null + "\n").diags.has_errors());
    CHECK(Parsed("a: [" + null + "]\n").diags.has_errors());
    const Parsed parsed("a: " + null + "\n");
    CHECK(parsed.text(parsed.at("a")) == null);
    CHECK(Parsed("a: \"" + null + "\"\n").diags.empty());
  }
}

TEST_CASE("Scalars keep their text untyped, and their place with its quotes", "[yaml]") {
  const Parsed parsed("a: 010\nb: \"x\\ty\"  # c\nc: 'it''s'\nd: yes\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.at("a").scalar == "010");
  CHECK_FALSE(parsed.at("a").quoted);
  CHECK(parsed.text(parsed.at("a")) == "010");
  CHECK(parsed.at("b").scalar == "x\ty");
  CHECK(parsed.at("b").quoted);
  CHECK(parsed.text(parsed.at("b")) == "\"x\\ty\"");
  CHECK(parsed.at("c").scalar == "it's");
  CHECK(parsed.text(parsed.at("c")) == "'it''s'");
  CHECK(parsed.at("d").scalar == "yes");
}

TEST_CASE("Plain text over several lines is one scalar, and ends before comments", "[yaml]") {
  const Parsed parsed("a: one\n  two\n\n  three # c\nb: 1\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.at("a").scalar == "one two\nthree");
  CHECK(parsed.text(parsed.at("a")) == "one\n  two\n\n  three");
  CHECK(parsed.text(parsed.at("b")) == "1");
}

TEST_CASE("Block text reaches to the end of its last line", "[yaml]") {
  const Parsed parsed("a: |\n  x\n   y\n\nb: >-  # c\n   one\n   two\nc: 1\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.at("a").scalar == "x\n y\n");
  CHECK(parsed.text(parsed.at("a")) == "|\n  x\n   y");
  CHECK(parsed.at("b").scalar == "one two");
  CHECK(parsed.text(parsed.at("b")) == ">-  # c\n   one\n   two");
  CHECK(parsed.text(parsed.at("c")) == "1");
}

TEST_CASE("Plain text has number signs, commas and brackets within", "[yaml]") {
  const Parsed parsed("a: x#y\nb: x, y]\n\"<<\": z\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.text(parsed.at("a")) == "x#y");
  CHECK(parsed.text(parsed.at("b")) == "x, y]");
  CHECK(parsed.text(parsed.at("<<")) == "z");
}

TEST_CASE("Control characters are refused, up to the last one of ASCII", "[yaml]") {
  for (const char* text : {"a: x\x01\n", "a: x\x1f\n", "a: x\x7f\n"})
    CHECK(Parsed(text).diags.has_errors());
  CHECK(Parsed("a: x\x7e\n").diags.empty());
}

TEST_CASE("Block text ends before a comment that is indented less", "[yaml]") {
  const Parsed parsed("a: |\n    x\n  # c\nb: 1\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.text(parsed.at("a")) == "|\n    x");
}

TEST_CASE("Text that is written reads back as itself", "[yaml]") {
  for (const std::string text :
       {"", "-", "*", "*x", "-x", "null", "---", "a b", "x#y", "[", "$(x + 1)"}) {
    INFO(text);
    Node root = Parsed("a: x\n").root;
    root.entries[0].value.scalar = text;
    const Parsed parsed(yaml::write(root));
    CHECK(parsed.diags.empty());
    CHECK(parsed.at("a").scalar == text);
  }
}

TEST_CASE("Block text may say its indentation, be empty, and stand in lists", "[yaml]") {
  const Parsed parsed("a: |2\n   x\n  y\nb: |\nc:\n  - |\n    z\n  - k: |\n      w\n    l: 1\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.text(parsed.at("a")) == "|2\n   x\n  y");
  CHECK(parsed.at("a").scalar == " x\ny\n");
  CHECK(parsed.text(parsed.at("b")) == "|");
  CHECK(parsed.text(parsed.at("c").items[0]) == "|\n    z");
  CHECK(parsed.text(*parsed.at("c").items[1].find("k")) == "|\n      w");
  CHECK(parsed.text(*parsed.at("c").items[1].find("l")) == "1");
}

TEST_CASE("Lists and mappings in brackets and braces reach from the first to the last character",
          "[yaml]") {
  const Parsed parsed(
      "a: {b: [1, 2], c: \"}\"} # }\nd: [\n  x,  # ]\n  {y: z},\n]\ne: {}\nf: []\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.text(parsed.at("a")) == "{b: [1, 2], c: \"}\"}");
  CHECK(parsed.text(*parsed.at("a").find("b")) == "[1, 2]");
  CHECK(parsed.text(parsed.at("d")) == "[\n  x,  # ]\n  {y: z},\n]");
  CHECK(parsed.text(parsed.at("d").items[1]) == "{y: z}");
  CHECK(parsed.text(parsed.at("e")) == "{}");
  CHECK(parsed.text(parsed.at("f")) == "[]");
}

TEST_CASE("Lists and mappings by indentation reach to the end of their last value", "[yaml]") {
  const Parsed parsed("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n\n# end\nd: 1\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.text(parsed.at("a")) == "b: 1\n  c:\n    - x\n    - y: 2");
  CHECK(parsed.text(*parsed.at("a").find("c")) == "- x\n    - y: 2");
  CHECK(parsed.text(parsed.at("a").find("c")->items[1]) == "y: 2");
}

TEST_CASE("Keys know their places", "[yaml]") {
  const Parsed parsed("a: {\"b c\": 1, d : 2}\n\u00e9: x\n");
  REQUIRE(parsed.diags.empty());
  const Node& a = parsed.at("a");
  CHECK(a.entries[0].key == "b c");
  CHECK(parsed.text(a.entries[0].key_span) == "\"b c\"");
  CHECK(parsed.text(a.entries[1].key_span) == "d");
  CHECK(parsed.text(parsed.root.entries[1].key_span) == "\u00e9");
  CHECK(parsed.sources.where(parsed.at("\u00e9").span) == "a.yaml:2:4");
}

TEST_CASE("A byte order mark and carriage returns change nothing", "[yaml]") {
  const Parsed parsed(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: |\r\n  x\r\n  y\r\nc: [1,\r\n 2]\r\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.sources.where(parsed.root.entries[0].key_span) == "a.yaml:1:1");
  CHECK(parsed.text(parsed.at("a")) == "1");
  CHECK(parsed.at("b").scalar == "x\ny\n");
  CHECK(parsed.text(parsed.at("b")) == "|\r\n  x\r\n  y");
  CHECK(parsed.text(parsed.at("c")) == "[1,\r\n 2]");
}

TEST_CASE("A document marker at the start and one at the end are allowed", "[yaml]") {
  const Parsed parsed("# c\n--- # d\na: 1\n...\n# e\n");
  CHECK(parsed.diags.empty());
  CHECK(parsed.at("a").scalar == "1");
}

TEST_CASE("A pair in a list is a mapping", "[yaml]") {
  const Parsed parsed("a: [b: 1, c]\n");
  REQUIRE(parsed.diags.empty());
  REQUIRE(parsed.at("a").items[0].is_mapping());
  CHECK(parsed.text(parsed.at("a").items[0]) == "b: 1");
  CHECK(parsed.text(parsed.at("a").items[1]) == "c");
}

TEST_CASE("Expressions without commas, or quoted, are whole in braces", "[yaml]") {
  const Parsed parsed("a: {b: $(x + 1), c: \"$(max(x, 1))\", d: $env(HOME:-none), e: a$(b)c}\n");
  REQUIRE(parsed.diags.empty());
  CHECK(parsed.at("a").find("b")->scalar == "$(x + 1)");
  CHECK(parsed.at("a").find("d")->scalar == "$env(HOME:-none)");
}

TEST_CASE("After an error the tree holds what could be read", "[yaml]") {
  const Parsed parsed("a: 1\na: 2\nb:\nc: {filters:32, x: 1}\nd: !!int 3\n");
  CHECK(parsed.diags.distinct_errors() == 4);
  CHECK(parsed.at("a").scalar == "1");
  CHECK(parsed.at("b").scalar.empty());
  CHECK(parsed.at("c").find("filters")->scalar == "32");
  CHECK(parsed.at("c").find("x")->scalar == "1");
  CHECK(parsed.at("d").scalar == "3");
  CHECK(parsed.text(parsed.at("d")) == "3");
}

TEST_CASE("Nothing more is said of a value that is not there", "[yaml]") {
  Parsed parsed("a:\n");
  parsed.diags.error(Diagnosis::kBadScalar, parsed.at("a").span, "not a number");
  CHECK(parsed.diags.distinct_errors() == 1);
}

TEST_CASE("Values nest 64 deep and no deeper", "[yaml]") {
  const auto nested = [](size_t depth) {
    return "a: " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "\n";
  };
  CHECK(Parsed(nested(64)).diags.empty());
  CHECK(Parsed(nested(65)).diags.render().find("[E0112]") != std::string::npos);
  CHECK(Parsed("a: " + std::string(1 << 20, '[')).diags.distinct_errors() == 1);
  CHECK(Parsed("a: " + std::string(1 << 20, '{')).diags.distinct_errors() == 1);
  CHECK(Parsed(std::string(1 << 20, '-')).diags.distinct_errors() == 1);
}

TEST_CASE("A file beyond four megabytes is refused unread", "[yaml]") {
  const Parsed parsed("a: \"" + std::string(4 << 20, 'x'));
  CHECK(parsed.diags.render() ==
        "error: a.yaml has 4194308 bytes; expected at most 4194304 [E0118]\n"
        "   hint: move long lists of numbers to a .npy file\n");
}
