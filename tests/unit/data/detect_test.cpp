// Detection of the form of CSV files.
#include "runtime/data/summary/detect.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

using Type = DetectedColumn::Type;

struct CsvFolder : FreshDirectory {
  fs::path write(const std::string& text) const {
    const fs::path path = *this / "x.csv";
    write_text_atomically(path, text);
    return path;
  }
  DetectedCsv detect(const std::string& text) const { return detect_csv(write(text)); }
};

std::map<std::string, int64_t> values(const DetectedColumn& column) {
  return column.values.value();
}

}  // namespace

TEST_CASE("the delimiter gives the most records the same number of fields", "[data]") {
  const CsvFolder folder;
  CHECK(detect_delimiter(folder.write("a,b\n1,2\n3,4\n")) == ',');
  CHECK(detect_delimiter(folder.write("a;b;c\n1,5;2;3\n1;2;3\n4,0;5;6\n")) == ';');
  CHECK(detect_delimiter(folder.write("a\tb\nx, y\t1\nz\t2\n")) == '\t');
  CHECK(detect_delimiter(folder.write("a|b\n\"x,y\"|1\n")) == '|');
  CHECK(detect_delimiter(folder.write("a,b;c,d\n1,2;3,4\n")) == ',');  // more fields
  CHECK(detect_delimiter(folder.write("a,b;c\n1,2;3\n")) == ',');      // the first
  CHECK(detect_delimiter(folder.write("a\n1\n2\n")) == ',');
  // The quote is only open between commas.
  CHECK(detect_delimiter(folder.write("a;b\n1;5\" x\n2,\"y;3\n")) == ';');
  CHECK_THROWS_AS(detect_delimiter(folder.write("\"a,b\n1,2\n")), RunError);
}

TEST_CASE("a header has no number and is followed by one", "[data]") {
  using Records = std::vector<std::vector<std::string>>;
  CHECK(detect_header(Records{{"a", "b"}, {"x", "y"}, {"x", "1e3"}}));
  CHECK_FALSE(detect_header(Records{{"a", "b"}, {"x", "y"}}));
  CHECK_FALSE(detect_header(Records{{"a", "2"}, {"x", "1"}}));
  CHECK_FALSE(detect_header(Records{{"a", "b"}}));
  CHECK_FALSE(detect_header(Records{}));
}

TEST_CASE("columns are numbers, bools or categories", "[data]") {
  const CsvFolder folder;
  const DetectedCsv csv = folder.detect(
      "n,b,c,m\n"
      "1.5,yes,NA,7\n"
      "NA,no,x,7\n"
      ",TRUE,,7\n"
      "-2,,1,7\n"
      "4e0,f,x,7\n");
  CHECK(csv.header);
  CHECK(csv.rows == 5);
  CHECK(csv.bad_rows == 0);
  REQUIRE(csv.columns.size() == 4);
  const DetectedColumn &n = csv.columns[0], &b = csv.columns[1], &c = csv.columns[2];
  CHECK(n.name == "n");
  CHECK(n.type == Type::kNumber);
  CHECK(n.missing == 2);
  CHECK(n.missing_spellings == std::vector<std::string>{"NA"});
  CHECK_FALSE(n.is_whole);
  // numpy.mean([1.5, -2, 4]), numpy.std([1.5, -2, 4])
  CHECK(n.mean == Approx(1.1666666666666667));
  CHECK(n.std == Approx(2.460803843072271));
  CHECK(b.type == Type::kBool);
  CHECK(b.missing == 1);
  CHECK(c.type == Type::kCategory);
  CHECK(c.missing == 1);
  CHECK(c.missing_spellings.empty());
  CHECK(values(c) == std::map<std::string, int64_t>{{"1", 1}, {"NA", 1}, {"x", 2}});
  CHECK(csv.columns[3].is_constant());
  CHECK(csv.columns[3].is_whole);
}

TEST_CASE("a column of missing values only is constant", "[data]") {
  const CsvFolder folder;
  const DetectedCsv csv = folder.detect("a,b\n,1\nna,2\n");
  CHECK(csv.columns[0].type == Type::kCategory);
  CHECK(csv.columns[0].is_constant());
}

TEST_CASE("records that do not fit are bad rows", "[data]") {
  const CsvFolder folder;
  const DetectedCsv csv = folder.detect("a,b\n1,2\n1,2,3\n1\n\n\xff,2\n3,4\n");
  CHECK(csv.rows == 2);
  CHECK(csv.bad_rows == 3);
}

TEST_CASE("a file without a header has indices as names", "[data]") {
  const CsvFolder folder;
  const DetectedCsv csv = folder.detect("1;x\n2;y\n");
  CHECK_FALSE(csv.header);
  CHECK(csv.delimiter == ';');
  CHECK(csv.rows == 2);
  CHECK(csv.columns[1].name == "1");
  CHECK(values(csv.columns[1]) == std::map<std::string, int64_t>{{"x", 1}, {"y", 1}});
}

TEST_CASE("many and long values are not collected", "[data]") {
  const CsvFolder folder;
  std::string text = "id,text\n";
  for (size_t i = 0; i <= DetectedColumn::kMostDistinct; ++i) text += std::to_string(i) + ",x\n";
  text += "1," + std::string(DetectedColumn::kLongestValue + 1, 'y') + "\n";
  const DetectedCsv csv = folder.detect(text);
  CHECK(csv.columns[0].type == Type::kNumber);
  CHECK_FALSE(csv.columns[0].values.has_value());
  CHECK_FALSE(csv.columns[1].values.has_value());
  CHECK_FALSE(csv.columns[1].is_constant());
  CHECK(csv.most_categories() == 2500);
}

TEST_CASE("a file without rows is refused", "[data]") {
  const CsvFolder folder;
  CHECK_THROWS_AS(folder.detect(""), RunError);
  CHECK_THROWS_AS(detect_csv(folder / "missing.csv"), RunError);
}

}  // namespace flow::data
