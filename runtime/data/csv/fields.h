// The fields of a record that requests read.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/csv/csv.h"

namespace flow::data {

/// The cell that a field becomes: column `position` of a request.
struct CsvTarget {
  size_t request = 0;
  size_t position = 0;
};

/// Which fields become which cells.
struct CsvFields {
  std::vector<std::vector<CsvTarget>> targets;  // by index of the field, up to the last one read
  std::vector<int64_t> widths;                  // by request
};

/// Finds fields by the names of a header. Throws RunError if a name is missing or occurs twice, or
/// a glob matches nothing. `place` appears in messages.
CsvFields fields_by_name(std::span<const std::string> header, std::span<const CsvRequest> requests,
                         const std::string& place);

/// Finds fields by index. Throws RequestError if a text is neither an index nor a range.
CsvFields fields_by_index(std::span<const CsvRequest> requests);

}  // namespace flow::data
