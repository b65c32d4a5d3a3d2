// The parser for NumPy's basic indexing in text form.
#include "ops/core/index_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/text.h"

namespace flow::ops {
namespace {

/// A bound that no axis exceeds and that is small enough to add a few such values without overflow.
constexpr int64_t kFarthest = int64_t{1} << 60;

std::optional<int64_t> integer_from(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && whole)
    return text.starts_with('-') ? -kFarthest : kFarthest;
  if (error != std::errc() || !whole) return {};
  return std::clamp(value, -kFarthest, kFarthest);
}

/// Reads a range: "1:-1", "::2", ":".
std::optional<IndexItem> range_from(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() > 3) return {};
  IndexItem item;
  std::optional<int64_t>* const into[] = {&item.start, &item.stop, &item.step};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = trimmed(parts[i]);
    if (part.empty()) continue;
    *into[i] = integer_from(part);
    if (!*into[i]) return {};
  }
  return item;
}

std::optional<IndexItem> item_from(const std::string& text) {
  if (text == "...") return IndexItem{.kind = IndexItem::Kind::kEllipsis};
  if (text == "None") return IndexItem{.kind = IndexItem::Kind::kNewAxis};
  if (text.find(':') != std::string::npos) return range_from(text);
  const auto integer = integer_from(text);
  if (!integer) return {};
  return IndexItem{.kind = IndexItem::Kind::kInteger, .start = integer};
}

/// Returns the number of axes that an item covers; an ellipsis counts as 0.
int axes_of(const IndexItem& item) {
  return item.kind == IndexItem::Kind::kRange || item.kind == IndexItem::Kind::kInteger ? 1 : 0;
}

class Selector {
 public:
  explicit Selector(const Shape& shape) : shape_(shape) {}

  Understood<Selection> run(const std::vector<IndexItem>& items) {
    int named = 0;
    for (const IndexItem& item : items) named += axes_of(item);
    if (named > shape_.rank())
      return {
          {},
          fmt::format("{} for {}, which has {} axes", counted(static_cast<uint64_t>(named), "item"),
                      shape_.str(), shape_.rank())};
    for (const IndexItem& item : items) {
      if (item.kind == IndexItem::Kind::kEllipsis)
        take_whole(shape_.rank() - named);
      else
        take(item);
      if (!complaint_.empty()) return {{}, complaint_};
    }
    take_whole(shape_.rank() - axis());
    made_.shape = Shape(std::move(left_));
    return {std::move(made_), {}};
  }

 private:
  int axis() const { return static_cast<int>(made_.starts.size()); }

  void take_whole(int axes) {
    for (int i = 0; i < axes; ++i) add(0, 1, shape_[axis()], true);
  }

  void add(int64_t start, int64_t step, int64_t count, bool keep) {
    made_.starts.push_back(start);
    made_.steps.push_back(step);
    made_.counts.push_back(count);
    if (keep) left_.push_back(count);
  }

  void take(const IndexItem& item) {
    if (item.kind == IndexItem::Kind::kNewAxis) return left_.push_back(1);
    if (item.kind == IndexItem::Kind::kRange) return take_range(item);
    const int64_t n = shape_[axis()];
    if (*item.start < -n || *item.start >= n) {
      complaint_ =
          fmt::format("{} is out of range for axis {} of {}", *item.start, axis(), shape_.str());
      return;
    }
    add(*item.start < 0 ? *item.start + n : *item.start, 1, 1, false);
  }

  void take_range(const IndexItem& item) {
    const int64_t n = shape_[axis()], step = item.step.value_or(1);
    if (step == 0) {
      complaint_ = "the step is 0; expected a nonzero integer";
      return;
    }
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto bound = [&](std::optional<int64_t> given, int64_t otherwise) {
      return given ? std::clamp(*given < 0 ? *given + n : *given, low, high) : otherwise;
    };
    const int64_t start = bound(item.start, step > 0 ? low : high);
    const int64_t stop = bound(item.stop, step > 0 ? high : low);
    const int64_t span = step > 0 ? stop - start : start - stop;
    if (span <= 0) {
      complaint_ = fmt::format("the range is empty for axis {} of {}", axis(), shape_.str());
      return;
    }
    const int64_t stride = step > 0 ? step : -step, count = (span - 1) / stride + 1;
    add(start, count == 1 ? 1 : step, count, true);
  }

  const Shape& shape_;
  Selection made_;
  std::vector<int64_t> left_;  // extents of the selected elements
  std::string complaint_;
};

std::string index_with(int rank, int axis, const std::string& item) {
  std::vector<std::string> items(static_cast<size_t>(rank), ":");
  items[static_cast<size_t>(axis)] = item;
  return "[" + join(items, ", ") + "]";
}

}  // namespace

Understood<std::vector<IndexItem>> parse_index(std::string_view text) {
  std::vector<IndexItem> items;
  if (!text.starts_with('[') || !text.ends_with(']') || text.size() < 2)
    return {{}, "expected brackets around the index"};
  text = text.substr(1, text.size() - 2);
  if (trimmed(text).empty()) return {std::move(items), {}};
  bool ellipsis = false;
  for (const std::string& part : split(text, ',')) {
    const std::string word = trimmed(part);
    const auto item = item_from(word);
    if (!item)
      return {{},
              fmt::format("cannot read `{}`; expected an integer, a range, `...` or `None`", word)};
    if (item->kind == IndexItem::Kind::kEllipsis && ellipsis) return {{}, "duplicate `...`"};
    ellipsis = ellipsis || item->kind == IndexItem::Kind::kEllipsis;
    items.push_back(*item);
  }
  return {std::move(items), {}};
}

Understood<Selection> select(const std::vector<IndexItem>& items, const Shape& shape) {
  return Selector(shape).run(items);
}

std::string index_of_range(int rank, int axis, int64_t begin, int64_t end) {
  return index_with(rank, axis, fmt::format("{}:{}", begin, end));
}

std::string index_of_place(int rank, int axis, int64_t place) {
  return index_with(rank, axis, std::to_string(place));
}

}  // namespace flow::ops
