// One number over steps, of any length, in a bounded number of points.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace flow::cli::report {

/// Keeps the least and the greatest value of runs of neighbouring points, so that no spike is lost.
/// A value that is not finite is a gap.
class Series {
 public:
  struct Point {
    double x = 0, y = 0;
  };

  void add(double x, double y);

  /// At most `most` points and the last one, in their order. A gap is a point whose y is NaN.
  std::vector<Point> points(size_t most) const;
  uint64_t count() const { return count_; }
  uint64_t gaps() const { return gaps_; }
  /// Of the finite values; nothing where there is none.
  std::optional<Point> last() const { return last_; }
  std::optional<Point> least() const { return least_; }
  std::optional<Point> greatest() const { return greatest_; }

 private:
  struct Group {
    Point first, second;  // the least and the greatest, whichever came first
    bool has_any = false, has_gap = false;
    double gap_x = 0;
  };
  static void add(Group& group, const Point& point);
  static void merge(Group& group, const Group& next);
  static std::vector<Group> halved(const std::vector<Group>& groups);

  std::vector<Group> groups_;
  uint64_t stride_ = 1, count_ = 0, gaps_ = 0;
  std::optional<Point> last_, least_, greatest_;
};

}  // namespace flow::cli::report
