// Thins a series out while it is read.
#include "cli/report/series.h"

#include <cmath>
#include <limits>

namespace flow::cli::report {
namespace {

constexpr size_t kMostGroups = 2048;

}  // namespace

void Series::add(Group& group, const Point& point) {
  if (!std::isfinite(point.y)) {
    if (!group.has_gap) group.gap_x = point.x;
    group.has_gap = true;
    return;
  }
  if (!group.has_any) {
    group.first = group.second = point;
    group.has_any = true;
    return;
  }
  Point& least = group.first.y <= group.second.y ? group.first : group.second;
  Point& greatest = group.first.y <= group.second.y ? group.second : group.first;
  // The newer one is behind: what is replaced first moves its partner to the front.
  if (point.y < least.y) {
    group.first = greatest;
    group.second = point;
  } else if (point.y > greatest.y) {
    group.first = least;
    group.second = point;
  }
}

void Series::merge(Group& group, const Group& next) {
  if (next.has_any) {
    add(group, next.first);
    add(group, next.second);
  }
  if (next.has_gap && !group.has_gap) group.gap_x = next.gap_x;
  group.has_gap |= next.has_gap;
}

std::vector<Series::Group> Series::halved(const std::vector<Group>& groups) {
  std::vector<Group> fewer;
  fewer.reserve(groups.size() / 2 + 1);
  for (size_t i = 0; i < groups.size(); i += 2) {
    fewer.push_back(groups[i]);
    if (i + 1 < groups.size()) merge(fewer.back(), groups[i + 1]);
  }
  return fewer;
}

void Series::add(double x, double y) {
  if (count_ % stride_ == 0) {
    if (groups_.size() == kMostGroups) {
      groups_ = halved(groups_);
      stride_ *= 2;
    }
    groups_.emplace_back();
  }
  const Point point{x, y};
  add(groups_.back(), point);
  ++count_;
  if (!std::isfinite(y)) {
    ++gaps_;
    return;
  }
  last_ = point;
  if (!least_ || y < least_->y) least_ = point;
  if (!greatest_ || y > greatest_->y) greatest_ = point;
}

std::vector<Series::Point> Series::points(size_t most) const {
  std::vector<Group> groups = groups_;
  const bool exact = stride_ == 1 && count_ <= most;
  while (!exact && groups.size() > 1 && groups.size() * 2 > most) groups = halved(groups);
  std::vector<Point> points;
  for (const Group& group : groups) {
    if (group.has_any) points.push_back(group.first);
    if (group.has_any && (group.second.x != group.first.x || group.second.y != group.first.y))
      points.push_back(group.second);
    if (group.has_gap && (exact || !group.has_any))
      points.push_back({group.gap_x, std::numeric_limits<double>::quiet_NaN()});
  }
  // A curve begins and ends where its values do.
  if (!exact && last_ && !points.empty() && points.back().x != last_->x) points.push_back(*last_);
  return points;
}

}  // namespace flow::cli::report
