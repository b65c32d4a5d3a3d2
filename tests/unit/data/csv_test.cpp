// CSV files: their records, the columns that are read, and the messages for every fatal error and
// bad row.
#include "runtime/data/csv/csv.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <catch2/catch.hpp>

#include "runtime/data/csv/records.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

using Texts = std::vector<std::string>;

/// Files of a test and what to read of them.
class Files {
 public:
  explicit Files(Texts contents) {
    for (const std::string& content : contents) {
      files_.push_back(folder_ / fmt::format("{}.csv", files_.size()));
      File::create(files_.back()).write(content);
    }
  }

  CsvDialect dialect = {};
  std::vector<CsvRequest> requests = {};

  /// Adds a request of one column.
  Files& ask(const std::string& column, CsvType type = CsvType::kNumber) {
    requests.push_back({.columns = {column}, .type = type});
    return *this;
  }
  CsvSource source() const { return CsvSource(files_, dialect, requests); }
  CsvTable read() const { return source().read(); }
  const fs::path& file() const { return files_.front(); }

  /// Returns the message of a fatal error, with the file's name instead of its path.
  std::string refusal() const {
    try {
      read();
    } catch (const RunError& error) {
      return shown(error);
    }
    return "accepted";
  }
  /// Returns the message for the only bad row.
  std::string bad_row() const {
    const CsvTable table = read();
    if (table.bad_rows.size() != 1) return fmt::format("{} bad rows", table.bad_rows.size());
    return shown(source().bad_row(table.bad_rows[0]));
  }

 private:
  std::string shown(const RunError& error) const {
    std::string message = error.what();
    const std::string folder = folder_.path().string() + "/";
    for (size_t at; (at = message.find(folder)) != message.npos;) message.erase(at, folder.size());
    return message;
  }

  FreshDirectory folder_;
  std::vector<fs::path> files_;
};

/// Returns the records of a file as texts.
std::vector<Texts> records(const std::string& content, const CsvDialect& dialect = {}) {
  const Files files({content});
  CsvRecords reader(files.file(), dialect);
  std::vector<Texts> found;
  for (std::vector<std::string_view> fields; reader.next(fields);)
    found.emplace_back(fields.begin(), fields.end());
  return found;
}

TEST_CASE("records end at LF, CRLF and the end of the file", "[data]") {
  CHECK(records("a,b\nc,d\r\ne,") == std::vector<Texts>{{"a", "b"}, {"c", "d"}, {"e", ""}});
  CHECK(records("\n\r\na\n\n") == std::vector<Texts>{{"a"}});
  CHECK(records("") == std::vector<Texts>{});
  CHECK(records("\"\"\n") == std::vector<Texts>{{""}});
  CHECK(records("\xEF\xBB\xBF"
                "a") == std::vector<Texts>{{"a"}});
}

TEST_CASE("quoted fields contain delimiters, line ends and doubled quotes", "[data]") {
  CHECK(records("\"a,b\",\"c\nd\r\ne\rf\"\r\n") == std::vector<Texts>{{"a,b", "c\nd\r\ne\rf"}});
  CHECK(records("\"\"\"a\"\"b\"\"\",\"\"\"\"") == std::vector<Texts>{{"\"a\"b\"", "\""}});
  CHECK(records("a\"b,\"c\"") == std::vector<Texts>{{"a\"b", "c"}});
  CHECK(records("\"a\"b\"c,d") == std::vector<Texts>{{"ab\"c", "d"}});
  CHECK(records("\"a,b\"", {.quote = std::nullopt}) == std::vector<Texts>{{"\"a", "b\""}});
  CHECK(records("'a,b'", {.quote = '\''}) == std::vector<Texts>{{"a,b"}});
}

TEST_CASE("fields are trimmed outside of quotes", "[data]") {
  const CsvDialect trimmed = {.trim = true};
  CHECK(records(" a\t,\t\" b \" ,  \n \t\n\" \"", trimmed) ==
        std::vector<Texts>{{"a", " b ", ""}, {" "}});
  CHECK(records(" a\t b ", {.delimiter = '\t', .trim = true}) == std::vector<Texts>{{"a", "b"}});
  CHECK(records(" a , \"b\"") == std::vector<Texts>{{" a ", " \"b\""}});
}

TEST_CASE("comments and the first lines are left out", "[data]") {
  CHECK(records("x\n\"y\na,1\n# \"z\nb,#\n#", {.comment = "#", .skip = 2}) ==
        std::vector<Texts>{{"a", "1"}, {"b", "#"}});
  CHECK(records("a\n", {.skip = 5}) == std::vector<Texts>{});
  CHECK(records("a\n\"#b\n#c\"", {.comment = "#"}) == std::vector<Texts>{{"a"}, {"#b\n#c"}});
}

TEST_CASE("latin-1 becomes UTF-8", "[data]") {
  CHECK(records("\xE9t\xE9,a", {.latin1 = true}) == std::vector<Texts>{{"été", "a"}});
}

TEST_CASE("fields are whole across the borders of the window", "[data]") {
  std::string content;
  std::vector<Texts> expected;
  for (int i = 0; i < 30'000; ++i) {
    const std::string text(static_cast<size_t>(i % 61), 'x');
    content += fmt::format("{0},\"{1}\"\"\n{1}\",{0}\r\n", i, text);
    expected.push_back({std::to_string(i), text + "\"\n" + text, std::to_string(i)});
  }
  CHECK(records(content) == expected);
}

TEST_CASE("a record knows its line", "[data]") {
  const Files files({"a\n\n\"b\nc\"\nd\n"});
  CsvRecords reader(files.file(), {});
  std::vector<std::string_view> fields;
  for (const int64_t line : {1, 3, 5}) {
    REQUIRE(reader.next(fields));
    CHECK(reader.line() == line);
  }
  CHECK_FALSE(reader.next(fields));
}

TEST_CASE("columns have the types that are asked for", "[data]") {
  Files files({"n,i,b,c,t\n1.5,2,yes,x,\n,,,,\n-3,4.0,0,y,\"a\nb\"\n7,8,f,x,z\n"});
  files.ask("n").ask("i", CsvType::kInteger).ask("b", CsvType::kBool).ask("c", CsvType::kCategory);
  files.ask("t", CsvType::kText);
  for (CsvRequest& request : files.requests) request.missing_allowed = true;
  const CsvTable table = files.read();
  CHECK(table.rows == 4);
  CHECK(table.bad_rows.empty());
  CHECK(table.columns[0].numbers == std::vector<double>{1.5, 0, -3, 7});
  CHECK(table.columns[1].integers == std::vector<int64_t>{2, 0, 4, 8});
  CHECK(table.columns[2].integers == std::vector<int64_t>{1, 0, 0, 0});
  CHECK(table.columns[3].categories == Texts{"x", "y"});
  CHECK(table.columns[3].ids == std::vector<int32_t>{0, 0, 1, 0});
  CHECK(table.columns[3].missing == std::vector<uint8_t>{0, 1, 0, 0});
  CHECK(table.columns[4].text(0) == "");
  CHECK(table.columns[4].text(2) == "a\nb");
  CHECK(table.columns[4].text(3) == "z");
  CHECK(table.columns[4].missing.empty());
}

TEST_CASE("lists of columns take names and globs in order", "[data]") {
  Files files({"f2,y,f1,f*\n1,2,3,4\n5,6,7,8\n"});
  files.requests = {{.columns = {"y", "f*"}, .list = true},
                    {.columns = {"f?", "y"}, .list = true},
                    {.columns = {"f*"}}};
  files.requests[1].columns = {"f1", "f2"};
  const CsvTable table = files.read();
  CHECK(table.columns[0].width == 2);
  CHECK(table.columns[0].numbers == std::vector<double>{2, 4, 6, 8});
  CHECK(table.columns[1].numbers == std::vector<double>{3, 1, 7, 5});
  CHECK(table.columns[2].numbers == std::vector<double>{4, 8});
  files.requests = {{.columns = {"f{1,2}"}, .list = true}};
  CHECK(files.read().columns[0].numbers == std::vector<double>{1, 3, 5, 7});
}

TEST_CASE("without a header, columns have indices and ranges", "[data]") {
  Files files({"1,2,3,4\n5,6,7,8\n"});
  files.dialect.header = false;
  files.requests = {{.columns = {"3"}}, {.columns = {"1..3", "0"}, .list = true}};
  const CsvTable table = files.read();
  CHECK(table.columns[0].numbers == std::vector<double>{4, 8});
  CHECK(table.columns[1].numbers == std::vector<double>{2, 3, 1, 6, 7, 5});
}

TEST_CASE("several files are one stream of rows", "[data]") {
  Files files({"a,b\n1,2\n", "a,b\n",
               "\xEF\xBB\xBF"
               "a,b\r\n3,4\r\n5,6"});
  const CsvTable table = files.ask("b").read();
  CHECK(table.columns[0].numbers == std::vector<double>{2, 4, 6});
  CHECK(table.first_rows == std::vector<int64_t>{0, 1, 1});
  CHECK(files.source().place(2, 0).ends_with("/2.csv:3:3"));
}

TEST_CASE("packed files are read like plain ones", "[data]") {
  std::string content = "a,b\n";
  for (int i = 0; i < 100'000; ++i) content += fmt::format("{},\"x\ny\"\n", i);
  Files files({""});
  gzFile packed = gzopen(files.file().c_str(), "wb");
  gzwrite(packed, content.data(), static_cast<unsigned>(content.size()));
  gzclose(packed);
  const CsvTable table = files.ask("a").ask("b", CsvType::kCategory).read();
  CHECK(table.rows == 100'000);
  CHECK(table.columns[0].numbers[99'999] == 99'999);
  CHECK(table.columns[1].categories == Texts{"x\ny"});
  CHECK(files.source().place(99'999, 1).ends_with("/0.csv:200000:7"));
}

TEST_CASE("missing values have spellings", "[data]") {
  Files files({"a\nNA\nNaN\n?\n n/a \n\" \"\nnull\nNone\n1\n"});
  files.ask("a").requests[0].missing_allowed = true;
  CHECK(files.read().columns[0].missing == std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 1, 0});
  files.requests[0].missing_values = Texts{"-999", "–"};
  CHECK(files.read().bad_rows == std::vector<int64_t>{0, 1, 2, 3, 5, 6});
  Files listed({"a\n-999\n–\n-999.0\n"});
  listed.requests = {files.requests};
  CHECK(listed.read().columns[0].missing == std::vector<uint8_t>{1, 1, 0});
  Files countries({"a,b\nNA,NA\n"});
  countries.ask("a", CsvType::kCategory).ask("b", CsvType::kText);
  CHECK(countries.read().bad_rows.empty());
  countries.requests[1].missing_values = Texts{"NA"};
  CHECK(countries.read().bad_rows == std::vector<int64_t>{0});
}

TEST_CASE("fatal errors have a place and a reason", "[data]") {
  const auto refusal = [](const std::string& content) {
    return Files({content}).ask("a").refusal();
  };
  CHECK(refusal("a,b\n1,2\n3,\"4\n5,6\n") == "0.csv:3:3: a quote is not closed");
  CHECK(refusal(std::string("a,b\n1,\0\n", 8)) ==
        "0.csv:2:3: the file contains NUL; expected text");
  CHECK(refusal(std::string("a,b\n1,\"x\n\0\"\n", 12)) ==
        "0.csv:3:1: the file contains NUL; expected text");
  CHECK(refusal("a,b\r1,2\r") ==
        "0.csv:1:4: a carriage return without a line feed; expected LF or CRLF line ends");
  CHECK(refusal("a\n1\r") ==
        "0.csv:2:2: a carriage return without a line feed; expected LF or CRLF line ends");
  for (const char* mark : {"\xFF\xFE"
                           "a",
                           "\xFE\xFF"
                           "a"})
    CHECK(refusal(mark) == "0.csv:1:1: the file is encoded in UTF-16 or UTF-32; expected UTF-8");
  CHECK(refusal(std::string("\0\0\xFE\xFF", 4)) ==
        "0.csv:1:1: the file is encoded in UTF-16 or UTF-32; expected UTF-8");
  CHECK(refusal("") == "0.csv has no header");
  CHECK(refusal("\n\n") == "0.csv has no header");
  CHECK(refusal("a,b\n") == "0.csv has no rows");
}

TEST_CASE("fields and records have a largest size", "[data]") {
  const std::string largest(kLargestCsvField, 'x');
  Files fits({"a,b\n" + largest + ",\"" + largest + "\"\n"});
  CHECK(fits.ask("a", CsvType::kText).ask("b", CsvType::kText).read().columns[1].text(0) ==
        largest);
  CHECK(Files({"a\n1\n" + largest + "x"}).ask("a").refusal() ==
        "0.csv:3:1: a field has more than 16.0 MiB");
  CHECK(Files({"a,b\n1,\"" + largest + "x\"\n"}).ask("a").refusal() ==
        "0.csv:2:3: a field has more than 16.0 MiB");
  const std::string most(kMostCsvFields - 1, ',');
  Files wide({most + "\n" + most + "\n"});
  wide.dialect.header = false;
  CHECK(wide.ask("65535", CsvType::kText).read().rows == 1 + 1);
  CHECK(Files({most + ",\n"}).ask("a").refusal() ==
        "0.csv:1:65537: a record has more than 65536 fields");
}

TEST_CASE("headers must have the names that are read, once", "[data]") {
  CHECK(Files({"area,b\n1,2\n"}).ask("aera").refusal() == "0.csv:1:1: no column is named \"aera\"");
  CHECK(Files({"a,b,b\n1,2,3\n"}).ask("b").refusal() == "0.csv:1:1: column \"b\" occurs 2 times");
  CHECK(Files({"a,b,b\n1,2,3\n"}).ask("a").read().rows == 1);
  Files globs({"# x\na,b\n1,2\n"});
  globs.dialect.comment.push_back('#');
  globs.requests = {{.columns = {"f*"}, .list = true}};
  CHECK(globs.refusal() == "0.csv:2:1: no column matches `f*`");
  CHECK(
      Files({"a,b\n1,2\n", "a,c\n1,2\n"}).ask("a").refusal() ==
      "1.csv:1:1: the header differs from the one at 0.csv:1:1: column 2 is \"c\", expected \"b\"");
  CHECK(Files({"a,b\n1,2\n", "a\n1\n"}).ask("a").refusal() ==
        "1.csv:1:1: the header differs from the one at 0.csv:1:1: column 2 is no column, "
        "expected \"b\"");
  Files indices({"1,2\n"});
  indices.dialect.header = false;
  CHECK(indices.ask("2").refusal() ==
        "0.csv:1:1: column 2 does not exist: the first record has 2 fields");
  for (const char* index : {"a", "-1", "65536", "1..1", "4..2", "0..99999", "", ".."}) {
    indices.requests = {{.columns = {index}, .list = true}};
    CHECK_THROWS_AS(indices.read(), RequestError);
  }
}

/// Returns the message for the bad row among `rows`, of which two columns are read.
std::string bad_row(const std::string& rows, CsvType type, const CsvDialect& dialect = {}) {
  Files files({"x,y,z\n" + rows});
  files.dialect = dialect;
  return files.ask("x").ask("y", type).bad_row();
}

TEST_CASE("bad rows have a place and a reason", "[data]") {
  const auto number = [](const std::string& rows) { return bad_row(rows, CsvType::kNumber); };
  CHECK(number("1,2,3\n1,12x,3\n") == "0.csv:3:3: \"12x\" is not a number (column y)");
  CHECK(number("1,2,3\n\"1\",  12x,3\n") == "0.csv:3:5: \"  12x\" is not a number (column y)");
  CHECK(number("1,,3\n") == "0.csv:2:3: a value is missing (column y)");
  CHECK(number("1,NA,3\n") == "0.csv:2:3: a value is missing (column y)");
  CHECK(number("1,1e999,3\n") == "0.csv:2:3: \"1e999\" is too large for a float64 (column y)");
  CHECK(number("1,2\n") == "0.csv:2:1: the record has 2 fields, expected 3");
  CHECK(number("1,2,3,4\n") == "0.csv:2:1: the record has 4 fields, expected 3");
  CHECK(number("x,2\n") == "0.csv:2:1: the record has 2 fields, expected 3");
  CHECK(number("1,\"2\"3,4\n") == "0.csv:2:3: \"23\" has text after its closing quote (column y)");
  CHECK(number("1,2,\"a\"b\n") == "0.csv:2:5: \"ab\" has text after its closing quote (column z)");
  CHECK(number("1,\xFF,3\n") == "0.csv:2:3: a field is not valid UTF-8 (column y)");
  CHECK(number("1,2,\xFF\n") == "0 bad rows");
  const auto integer = [](const std::string& rows) { return bad_row(rows, CsvType::kInteger); };
  CHECK(integer("1,a,3\n") == "0.csv:2:3: \"a\" is not an integer (column y)");
  CHECK(integer("1,2.5,3\n") == "0.csv:2:3: \"2.5\" is not an integer (column y)");
  CHECK(integer("1,1e19,3\n") == "0.csv:2:3: \"1e19\" does not fit in an int64 (column y)");
  CHECK(bad_row("1,2,3\n", CsvType::kBool) == "0.csv:2:3: \"2\" is not a bool (column y)");
  CHECK(bad_row("1,é,3\n1,\xC3,3\n", CsvType::kCategory) ==
        "0.csv:3:3: a field is not valid UTF-8 (column y)");
  CHECK(bad_row("1,,3\n", CsvType::kCategory) == "0.csv:2:3: a value is missing (column y)");
  CHECK(bad_row("1,\xE9,3\n", CsvType::kNumber, {.latin1 = true}) ==
        "0.csv:2:3: \"é\" is not a number (column y)");
}

TEST_CASE("paths stay below their folder", "[data]") {
  const auto path = [](const std::string& rows) { return bad_row(rows, CsvType::kPath); };
  CHECK(path("1,a/b..c.png,3\n1,..a,2\n") == "0 bad rows");
  CHECK(path("1,/a.png,3\n") == "0.csv:2:3: \"/a.png\" is an absolute path (column y)");
  for (const char* parent : {"../a", "a/../b", "a/.."})
    CHECK(path(fmt::format("1,{},3\n", parent)) ==
          fmt::format("0.csv:2:3: \"{}\" contains `..` (column y)", parent));
  CHECK(path("1,,3\n") == "0.csv:2:3: a value is missing (column y)");
}

TEST_CASE("columns of places count characters", "[data]") {
  CHECK(bad_row("1,\"é\n\",x\n\"1\",ü,x\n1,é\"é,3\n", CsvType::kText) == "0 bad rows");
  Files files({"x,y,z\né,é,bad\n1,\"a\nb\",worse\n"});
  files.ask("z");
  const CsvTable table = files.read();
  CHECK(table.bad_rows == std::vector<int64_t>{0, 1});
  CHECK(std::string(files.source().bad_row(0).what())
            .ends_with("0.csv:2:5: \"bad\" is not a number (column z)"));
  // The line is the one where the record starts; the column counts in the line of the field.
  CHECK(std::string(files.source().bad_row(1).what())
            .ends_with("0.csv:3:4: \"worse\" is not a number (column z)"));
}

TEST_CASE("rows of several files are found again", "[data]") {
  Files files({"a\n1\nx\n", "a\n\n2\ny\n"});
  const CsvTable table = files.ask("a").read();
  CHECK(table.bad_rows == std::vector<int64_t>{1, 3});
  CHECK(std::string(files.source().bad_row(3).what())
            .ends_with("1.csv:4:1: \"y\" is not a number (column a)"));
  CHECK_THROWS_AS(files.source().bad_row(4), RunError);
}

TEST_CASE("hints name the key that helps", "[data]") {
  const auto hint = [](const std::string& value, const CsvDialect& dialect = {}) {
    Files files({"a\n\"" + value + "\"\n"});
    files.dialect = dialect;
    return files.ask("a").source().bad_row(0).hint();
  };
  CHECK(hint("1,5") == "set `decimal: \",\"` if the comma is the decimal mark");
  CHECK(hint("1.234,5") == "set `decimal: \",\"` if the comma is the decimal mark");
  CHECK(hint("1,234.5") == "set `thousands: \",\"` if that is what the mark means");
  CHECK(hint("x") ==
        "correct the value, list it in `missing_values`, or add `options: {on_bad_row: skip}`");
}

TEST_CASE("a dialect with ambiguous characters is refused", "[data]") {
  const auto refuses = [](const CsvDialect& dialect) {
    CHECK_THROWS_AS(check_dialect(dialect), RequestError);
  };
  refuses({.delimiter = '\n'});
  refuses({.delimiter = '\0'});
  refuses({.delimiter = '\xE9'});
  refuses({.delimiter = '"'});
  refuses({.quote = '\r'});
  refuses({.decimal = '0'});
  refuses({.decimal = ',', .thousands = ','});
  refuses({.thousands = 'e'});
  check_dialect({.delimiter = ',', .decimal = ',', .thousands = ' '});
}

TEST_CASE("characters of numbers may be delimiters and quotes", "[data]") {
  Files files({"a,b\n'1,5',2\n1,2\n"});
  files.dialect.quote = '\'';
  files.dialect.decimal = ',';
  CHECK(files.ask("a").read().columns[0].numbers == std::vector<double>{1.5, 1});
  Files digits({"a5b\n125-3\n"});
  digits.dialect.delimiter = '5';
  CHECK(digits.ask("a").ask("b").read().columns[1].numbers == std::vector<double>{-3});
}

TEST_CASE("a pipe is refused without opening it", "[data]") {
  const FreshDirectory folder;
  REQUIRE(::mkfifo((folder / "x.csv").c_str(), 0600) == 0);
  const CsvSource source({folder / "x.csv"}, {}, {});
  CHECK_THROWS_AS(source.read(), RunError);
  CHECK_THROWS_AS(CsvSource({folder / "none.csv"}, {}, {}).read(), RunError);
}

}  // namespace
}  // namespace flow::data
