// Odd CSV files of tests/golden/data/csv_files.py, whose values come from pandas.
#include <catch2/catch.hpp>

#include "runtime/data/csv/csv.h"
#include "runtime/plan/json/json.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/source_files.h"

namespace flow::data {
namespace {

std::optional<char> character(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::string>().at(0));
}

CsvDialect dialect_of(const Json& golden) {
  return {.delimiter = character(golden["delimiter"]).value(),
          .quote = character(golden["quote"]),
          .header = golden["header"],
          .comment = golden["comment"],
          .skip = golden["skip"],
          .trim = golden["trim"],
          .latin1 = golden["latin1"],
          .decimal = character(golden["decimal"]).value(),
          .thousands = character(golden["thousands"])};
}

CsvType type_of(const std::string& name) {
  const std::map<std::string, CsvType> types = {
      {"number", CsvType::kNumber}, {"integer", CsvType::kInteger},   {"bool", CsvType::kBool},
      {"text", CsvType::kText},     {"category", CsvType::kCategory},
  };
  return types.at(name);
}

/// Writes the bytes of a file, which the golden file has as the characters U+0000 to U+00FF.
void write_bytes(const fs::path& path, const std::string& characters) {
  std::string bytes;
  for (size_t i = 0; i < characters.size(); ++i) {
    const auto byte = static_cast<unsigned char>(characters[i]);
    bytes += byte < 0x80 ? characters[i] : static_cast<char>(byte << 6 | (characters[++i] & 0x3F));
  }
  File::create(path).write(bytes);
}

CsvSource source_of(const Json& golden, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const Json& file : golden["files"]) {
    files.push_back(folder / fmt::format("{}.csv", files.size()));
    write_bytes(files.back(), file);
  }
  std::vector<CsvRequest> requests;
  for (const Json& column : golden["columns"]) {
    const char* const prefix = golden["header"] ? "c" : "";
    requests.push_back({.columns = {fmt::format("{}{}", prefix, requests.size())},
                        .type = type_of(column["type"]),
                        .missing_allowed = true});
  }
  return CsvSource(files, dialect_of(golden), requests);
}

Json value_of(const CsvColumn& column, CsvType type, size_t row) {
  if (!column.missing.empty() && column.missing[row]) return nullptr;
  if (type == CsvType::kNumber) return column.numbers[row];
  if (type == CsvType::kText) return column.text(row);
  if (type == CsvType::kCategory) return column.categories[static_cast<size_t>(column.ids[row])];
  return column.integers[row];
}

void check(const Json& golden) {
  const FreshDirectory folder;
  const CsvSource source = source_of(golden, folder.path());
  const CsvTable table = source.read();
  CHECK(table.bad_rows == golden["bad"].get<std::vector<int64_t>>());
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Json& values = golden["columns"][i]["values"];
    REQUIRE(table.rows == static_cast<int64_t>(values.size()));
    for (size_t row = 0; row < values.size(); ++row) {
      INFO("column " << i << ", row " << row);
      if (!std::ranges::binary_search(table.bad_rows, static_cast<int64_t>(row)))
        CHECK(value_of(table.columns[i], source.requests()[i].type, row) == values[row]);
    }
  }
}

TEST_CASE("odd CSV files have the values that pandas reads", "[data]") {
  const std::string text = read_text(test::source_path("tests/golden/data/csv_files.json"));
  const Json goldens = plan::parse_json(text, "csv_files.json");
  CHECK(goldens.size() == 200);
  for (size_t i = 0; i < goldens.size(); ++i) {
    INFO("case " << i << ": " << goldens[i].dump());
    check(goldens[i]);
  }
}

}  // namespace
}  // namespace flow::data
