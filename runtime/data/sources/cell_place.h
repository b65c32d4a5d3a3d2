// The places of cells for messages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace flow::data {

/// Returns the place of the cell of a row: "houses.csv:17:9" or "train-0.tar 000012.cls".
using CellPlace = std::function<std::string(int64_t row)>;

}  // namespace flow::data
