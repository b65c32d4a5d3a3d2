// Rows of data that cannot be used.
#pragma once

#include <cstdint>
#include <string>

namespace flow::data {

/// A row that a run refuses, or that it leaves out if the dataset says `on_bad_row: skip`.
struct BadRow {
  int64_t row = 0;    // counted in the source, over all files
  std::string place;  // "houses.csv:17:9" or "pets/cat/1.jpg"
  std::string message;
  std::string hint = {};
};

}  // namespace flow::data
