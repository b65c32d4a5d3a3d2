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
  /// Cells that make rows wider than `columns` are cut, "like th...", in these columns one after
  /// another until rows fit; none is cut to fewer than `least` characters. Where that is not
  /// enough, columns of `drop` go, one after another.
  void fit(int columns, const std::vector<size_t>& cut, int least,
           const std::vector<size_t>& drop = {});
  bool empty() const { return rows_.empty(); }
  std::string str() const;

 private:
  std::vector<int> widths() const;
  void erase(size_t column);

  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace flow::cli
