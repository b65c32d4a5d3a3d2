// Lines, columns and places.
#include "compiler/source/source.h"

#include <catch2/catch.hpp>

using namespace flow;

namespace {

void check_position(const Source& source, uint32_t offset, int line, int column) {
  CAPTURE(offset);
  const Position position = source.position(offset);
  CHECK(position.line == line);
  CHECK(position.column == column);
}

}  // namespace

TEST_CASE("Positions count lines and columns from one", "[source]") {
  const Source source("a.yaml", "ab\ncd\n");
  check_position(source, 0, 1, 1);
  check_position(source, 2, 1, 3);
  check_position(source, 3, 2, 1);
  check_position(source, 6, 3, 1);
  check_position(source, 1000, 3, 1);
}

TEST_CASE("Columns count characters, not bytes", "[source]") {
  const Source source("a.yaml", "\u00e9\u4e2dx");
  check_position(source, 2, 1, 2);
  check_position(source, 5, 1, 3);
}

TEST_CASE("Columns of a long line count its characters, too", "[source]") {
  std::string text = "a: b\n";
  for (int i = 0; i < 3000; ++i) text += i % 3 == 0 ? "\u4e2d" : "x";
  const Source source("a.yaml", text);
  int column = 0;
  for (uint32_t offset = 5; offset < text.size(); ++offset) {
    if ((text[offset] & 0xC0) == 0x80) continue;
    ++column;
    const Position position = source.position(offset);
    REQUIRE((position.line == 2 && position.column == column));
  }
  check_position(source, 100'000, 2, 3001);
}

TEST_CASE("Lines end with a line feed or a carriage return and one, and hold neither", "[source]") {
  const Source source("a.yaml", "ab\r\nc\nd");
  REQUIRE(source.line_count() == 3);
  CHECK(source.line(1) == "ab");
  CHECK(source.line(2) == "c");
  CHECK(source.line(3) == "d");
}

TEST_CASE("An empty text has one empty line", "[source]") {
  const Source source("a.yaml", "");
  REQUIRE(source.line_count() == 1);
  CHECK(source.line(1).empty());
  check_position(source, 0, 1, 1);
}

TEST_CASE("A byte order mark is no part of the first line", "[source]") {
  const Source source("a.yaml",
                      "\xEF\xBB\xBF"
                      "ab\n");
  CHECK(source.line(1) == "ab");
  check_position(source, 4, 1, 2);
  check_position(source, 0, 1, 1);
}

TEST_CASE("A place is written as file, line and column", "[source]") {
  Sources sources;
  const int32_t id = sources.add("jobs/a.yaml", "a: 1\nb: 2\n");
  CHECK(sources.where({id, 8, 9}) == "jobs/a.yaml:2:4");
  CHECK(sources.text({id, 8, 9}) == "2");
  CHECK(sources.where({}).empty());
  CHECK(sources.text({}).empty());
}
