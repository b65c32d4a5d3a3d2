// Values in the files of samples.
#include "runtime/data/files/tar_field.h"

#include <catch2/catch.hpp>

namespace flow::data {
namespace {

template <typename T>
std::string value_text(const Expected<T>& value) {
  if (!value) return value.error().what();
  if constexpr (std::is_same_v<T, int64_t>)
    return std::to_string(*value);
  else
    return std::visit(
        [](const auto& one) -> std::string {
          using Value = std::decay_t<decltype(one)>;
          if constexpr (std::is_same_v<Value, bool>) return one ? "true" : "false";
          if constexpr (std::is_same_v<Value, int64_t>) return "int " + std::to_string(one);
          if constexpr (std::is_same_v<Value, double>) return "double " + std::to_string(one);
          if constexpr (std::is_same_v<Value, std::string>) return "text " + one;
        },
        *value);
}

std::string cls_text(const std::string& text) {
  return value_text(decode_integer(std::as_bytes(std::span(text))));
}

std::string json_text(const std::string& text, const std::string& pointer) {
  return value_text(decode_json(std::as_bytes(std::span(text)), JsonPointer(pointer)));
}

}  // namespace

TEST_CASE("The last part of a field's name is its kind", "[data][tar_field]") {
  for (const char* name : {"png", "jpg", "jpeg", "seg.png"})
    CHECK(kind_of_field(name) == FieldKind::kImage);
  CHECK(kind_of_field("cls") == FieldKind::kInteger);
  CHECK(kind_of_field("x.npy") == FieldKind::kArray);
  CHECK(kind_of_field("txt") == FieldKind::kText);
  CHECK(kind_of_field("json") == FieldKind::kJson);
  for (const char* name : {"", "png.", "class", "json.gz"})
    CHECK(kind_of_field(name) == FieldKind::kUnknown);
}

TEST_CASE("cls is an integer with white space around it", "[data][tar_field]") {
  CHECK(cls_text("3") == "3");
  CHECK(cls_text(" \t\r\n-12\n") == "-12");
  CHECK(cls_text("+7") == "7");
  CHECK(cls_text("9223372036854775807") == "9223372036854775807");
  CHECK(cls_text("9223372036854775808") == "\"9223372036854775808\" is not an integer of 64 bits");
  for (const char* text : {"1 2", "1.0", "1e3", "x", "+-1", "--1", "0x1"})
    CHECK(cls_text(text) == "\"" + std::string(text) + "\" is not an integer of 64 bits");
  CHECK(cls_text("") == "the field is empty; expected an integer");
  CHECK(cls_text("\n ") == "the field is empty; expected an integer");
}

// The document and the values are those of RFC 6901, section 5.
TEST_CASE("A pointer leads to the values of RFC 6901", "[data][tar_field]") {
  const std::string document = R"({"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3,
      "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8})";
  CHECK(json_text(document, "/foo/0") == "text bar");
  CHECK(json_text(document, "/") == "int 0");
  CHECK(json_text(document, "/a~1b") == "int 1");
  CHECK(json_text(document, "/c%d") == "int 2");
  CHECK(json_text(document, "/e^f") == "int 3");
  CHECK(json_text(document, "/g|h") == "int 4");
  CHECK(json_text(document, "/i\\j") == "int 5");
  CHECK(json_text(document, "/k\"l") == "int 6");
  CHECK(json_text(document, "/ ") == "int 7");
  CHECK(json_text(document, "/m~0n") == "int 8");
  for (const char* absent : {"/foo/2", "/foo/00", "/foo/-", "/foo/-1", "/foo/+1", "/foo/",
                             "/foo/0/x", "/bar", "/foo/99999999999999999999"})
    CHECK(json_text(document, absent) ==
          "the JSON text has no value at `" + std::string(absent) + "`");
  CHECK(json_text(R"({"~1": 9})", "/~01") == "int 9");
}

TEST_CASE("Numbers, bools and strings are values", "[data][tar_field]") {
  CHECK(json_text("true", "") == "true");
  CHECK(json_text("-3", "") == "int -3");
  CHECK(json_text("1.5", "") == "double 1.500000");
  CHECK(json_text("9223372036854775808", "") == "double 9223372036854775808.000000");
  CHECK(json_text("\"\"", "") == "text ");
  for (const char* other : {"null", "[]", "{}"})
    CHECK(json_text(other, "").ends_with("; expected a number, a bool or a string"));
}

TEST_CASE("Damaged, deep and long JSON is an error", "[data][tar_field]") {
  CHECK(json_text("{\"a\": }", "/a") == "JSON:1:7: invalid JSON");
  CHECK(json_text("", "") == "JSON:1:1: invalid JSON: unexpected end of file");
  CHECK(json_text("{\"a\": 1, \"a\": 2}", "/a").find("duplicate key `a`") != std::string::npos);
  CHECK(json_text(std::string(100'000, '['), "/0").find("nested more than") != std::string::npos);
  CHECK(json_text("1e999", "") == "JSON: a number is out of range");
  CHECK(json_text("\"\xff\"", "").starts_with("JSON:1:2: invalid JSON"));
  CHECK(json_text(std::string((1 << 24) + 1, ' '), "") ==
        "the JSON text has 16777217 bytes; expected at most 16777216");
}

TEST_CASE("A text that is no pointer is refused", "[data][tar_field]") {
  for (const char* text : {"a", "a/b", "/~", "/~2", "/a~"})
    CHECK_THROWS_AS(JsonPointer(text), RequestError);
}

}  // namespace flow::data
