// Any bytes as a CSV file, whose dialect the first bytes choose: read into columns whose bad rows
// have messages, or refused with a RunError.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/data/csv/csv.h"
#include "runtime/data/csv/records.h"

namespace {

using namespace flow::data;

constexpr size_t kDialectBytes = 4;

CsvDialect dialect_of(const uint8_t* bytes) {
  const auto bit = [](uint8_t byte, int i) { return (byte >> i & 1) != 0; };
  return {
      .delimiter = static_cast<char>(bytes[0]),
      .quote = bit(bytes[1], 0) ? std::optional('"') : std::nullopt,
      .header = bit(bytes[1], 1),
      .comment = bit(bytes[1], 2) ? "#" : "",
      .skip = bytes[1] >> 6,
      .trim = bit(bytes[1], 3),
      .latin1 = bit(bytes[1], 4),
      .decimal = static_cast<char>(bytes[2]),
      .thousands = bit(bytes[1], 5) ? std::optional(static_cast<char>(bytes[3])) : std::nullopt};
}

/// Requests the first fields of each type, and all fields as a list.
std::vector<CsvRequest> requests_of(bool header) {
  std::vector<CsvRequest> requests;
  for (const CsvType type : {CsvType::kNumber, CsvType::kInteger, CsvType::kBool,
                             CsvType::kCategory, CsvType::kText, CsvType::kPath})
    requests.push_back({.columns = {header ? "*" : "0"}, .list = true, .type = type});
  requests[0].missing_values = {"-1"};
  requests[1].missing_allowed = true;
  return requests;
}

void read(const CsvSource& source) {
  const CsvTable table = source.read();
  FLOW_CHECK(!table.first_rows.empty() && table.rows > 0);
  for (const int64_t row : table.bad_rows) {
    FLOW_CHECK(row >= 0 && row < table.rows);
    if (row < 8) FLOW_CHECK(source.bad_row(row).what() != nullptr);
  }
  FLOW_CHECK(!source.place(table.rows - 1, 0).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kDialectBytes) return -1;
  static const flow::fs::path path =
      flow::temporary_beside(flow::fs::temp_directory_path() / "csv_fuzz");
  flow::File::create(path).write(std::as_bytes(std::span(data, size).subspan(kDialectBytes)));
  try {
    const CsvDialect dialect = dialect_of(data);
    CsvRecords records(path, dialect);
    for (std::vector<std::string_view> fields; records.next(fields);) FLOW_CHECK(!fields.empty());
    read(CsvSource({path}, dialect, requests_of(dialect.header)));
  } catch (const flow::RunError&) {
  }
  return 0;
}
