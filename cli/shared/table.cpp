// Aligned columns of text.
#include "cli/shared/table.h"

#include <algorithm>
#include <functional>

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

std::vector<int> Table::widths() const {
  std::vector<int> widths;
  for (const auto& cells : rows_) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  }
  return widths;
}

void Table::fit(int columns, const std::vector<size_t>& cut, int least,
                const std::vector<size_t>& drop) {
  constexpr std::string_view kMark = "...";
  const std::vector<int> wanted = widths();
  int excess = -columns;
  for (const int width : wanted) excess += width + 2;
  for (const size_t column : cut) {
    if (excess <= 0 || column >= wanted.size() || wanted[column] <= least) continue;
    const int width = std::max(least, wanted[column] - excess);
    excess -= wanted[column] - width;
    for (auto& cells : rows_) {
      if (column >= cells.size() || width_of(cells[column]) <= width) continue;
      std::string& cell = cells[column];
      size_t end = 0;
      for (int taken = static_cast<int>(kMark.size()); end < cell.size();) {
        const Character next = character_at(cell, end);
        if ((taken += width_of(next)) > width) break;
        end += next.bytes;
      }
      cell = cell.substr(0, end).append(kMark);
    }
  }
  std::vector<size_t> dropped;
  for (const size_t column : drop) {
    if (excess <= 0) break;
    excess -= wanted[column] + 2;
    dropped.push_back(column);
  }
  std::ranges::sort(dropped, std::greater());
  for (const size_t column : dropped) erase(column);
}

void Table::erase(size_t column) {
  const auto erase_in = [column](auto& list) {
    if (column < list.size()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(column));
  };
  for (auto& cells : rows_) erase_in(cells);
  erase_in(right_);
}

std::string Table::str() const {
  const std::vector<int> widths = this->widths();
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
