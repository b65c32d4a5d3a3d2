// Aligned columns of text.
#pragma once

#include <string>
#include <vector>

namespace flow::cli {

/// Rows of cells, printed with each column as wide as its widest cell.
class Table {
 public:
  /// What a terminal would obey is escaped in them.
  void row(std::vector<std::string> cells);
  /// Its cells are numbers, which end at one place.
  void align_right(size_t column);
  bool empty() const { return rows_.empty(); }
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace flow::cli
