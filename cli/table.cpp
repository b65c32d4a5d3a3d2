// Aligned columns of text.
#include "cli/table.h"

#include <algorithm>

#include "runtime/base/display.h"

namespace flow::cli {

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = escaped(cell);
  rows_.push_back(std::move(cells));
}

void Table::align_right(size_t column) {
  right_.resize(std::max(right_.size(), column + 1));
  right_[column] = true;
}

std::string Table::str() const {
  std::vector<int> widths;
  for (const auto& cells : rows_) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  }
  std::string text;
  for (const auto& cells : rows_) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string rest(static_cast<size_t>(widths[i] - width_of(cells[i])), ' ');
      line += "  " + (i < right_.size() && right_[i] ? rest + cells[i] : cells[i] + rest);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace flow::cli
