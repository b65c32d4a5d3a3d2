// Draws in layers (Sugiyama, Tagawa and Toda, 1981), one network after another from the inside out.
// Layers come from longest paths, the order in a layer from the mean position of the boxes that a
// box reads, and positions from least squares.
#include "cli/show/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/display.h"

namespace flow::cli {
namespace {

constexpr int kGapX = 22, kGapY = 34, kTitle = 30;
// A link that passes more layers than this is drawn straight, which limits the number of lanes.
constexpr size_t kMostLanes = 64;

/// A link, or its part inside one network. A link from outside starts at the network itself, and a
/// link to the outside ends there.
struct Arrow {
  size_t from = 0, to = 0;
  bool gradient = false;
  std::string label = {};
};

/// Returns the arrows of each box that contains other boxes.
std::vector<std::vector<Arrow>> arrows_of(const Picture& picture) {
  std::vector<std::map<std::pair<size_t, size_t>, Arrow>> arrows(picture.boxes.size());
  const auto add = [&](size_t frame, size_t from, size_t to, const Link& link) {
    Arrow& arrow =
        arrows[frame].try_emplace({from, to}, Arrow{from, to, false, link.label}).first->second;
    arrow.gradient |= link.gradient;
  };
  const auto path_of = [&](size_t box) {
    std::vector<size_t> path;
    for (; box != 0; box = picture.boxes[box].parent) path.push_back(box);
    std::ranges::reverse(path);
    return path;
  };
  for (const Link& link : picture.links) {
    const std::vector<size_t> from = path_of(link.from), to = path_of(link.to);
    size_t common = 0;
    while (common < from.size() && common < to.size() && from[common] == to[common]) ++common;
    if (common < from.size() && common < to.size())
      add(common == 0 ? 0 : from[common - 1], from[common], to[common], link);
    // If one box is inside the other, the link crosses the border of the outer box.
    const size_t first = common < from.size() && common < to.size() ? common + 1 : common;
    for (size_t i = std::max<size_t>(first, 1); i < from.size(); ++i)
      add(from[i - 1], from[i], from[i - 1], link);
    for (size_t i = std::max<size_t>(first, 1); i < to.size(); ++i)
      add(to[i - 1], to[i - 1], to[i], link);
  }
  std::vector<std::vector<Arrow>> lists(arrows.size());
  for (size_t i = 0; i < arrows.size(); ++i)
    for (auto& [ends, arrow] : arrows[i]) lists[i].push_back(std::move(arrow));
  return lists;
}

/// Returns the nondecreasing numbers nearest to `wanted` by least squares. Neighbors in the wrong
/// order are replaced by their mean (pool adjacent violators; Ayer and others, 1955).
std::vector<double> ordered(const std::vector<double>& wanted) {
  std::vector<std::pair<double, int>> pools;  // sum, count
  for (const double value : wanted) {
    pools.emplace_back(value, 1);
    while (pools.size() > 1) {
      const auto [sum, count] = pools.back();
      auto& [sum_before, count_before] = pools[pools.size() - 2];
      if (sum_before / count_before <= sum / count) break;
      sum_before += sum;
      count_before += count;
      pools.pop_back();
    }
  }
  std::vector<double> result;
  for (const auto& [sum, count] : pools) result.insert(result.end(), count, sum / count);
  return result;
}

/// The contents of one box: boxes, the ports at its borders, and lanes for links that pass a layer.
class Frame {
 public:
  Frame(const Picture& picture, size_t box, const std::vector<Arrow>& arrows, Placed& placed)
      : picture_(picture), box_(box), arrows_(arrows), placed_(placed) {
    add_nodes();
    assign_layers();
    add_lanes();
    place_across();
    place_down();
  }

  /// Writes the size of the box, and the places of its contents relative to its corner.
  void write() {
    for (const Node& node : nodes_)
      if (node.box != kNoBox) {
        placed_.boxes[node.box].x = static_cast<int>(node.center) - node.width / 2;
        placed_.boxes[node.box].y = node.y;
      }
    placed_.boxes[box_].width = width_;
    placed_.boxes[box_].height = height_;
  }

  /// Draws the arrows of the box, whose corner is at the given place.
  void draw(int x, int y) const {
    for (size_t i = 0; i < arrows_.size(); ++i) {
      std::vector<size_t> stops = {ends_[i].first};
      stops.insert(stops.end(), routes_[i].begin(), routes_[i].end());
      stops.push_back(ends_[i].second);
      placed_.routes.push_back({path_of(stops, x, y), arrows_[i].label, arrows_[i].gradient});
    }
  }

 private:
  static constexpr size_t kNoBox = static_cast<size_t>(-1);

  struct Node {
    size_t box = kNoBox;  // none for a port or a lane
    int width = 0, height = 0;
    size_t layer = 0;
    double center = 0;
    int y = 0;
    std::vector<size_t> above = {}, below = {};
  };

  void add_nodes() {
    const auto port = [&](auto end) { return std::ranges::count(arrows_, box_, end) > 0; };
    has_entry_ = port(&Arrow::from);
    has_exit_ = port(&Arrow::to);
    std::map<size_t, size_t> node_of;
    if (has_entry_) nodes_.emplace_back();
    for (const size_t box : picture_.boxes[box_].inside) {
      node_of[box] = nodes_.size();
      nodes_.push_back({box, placed_.boxes[box].width, placed_.boxes[box].height});
    }
    if (has_exit_) nodes_.emplace_back();
    for (const Arrow& arrow : arrows_)
      ends_.emplace_back(arrow.from == box_ ? 0 : node_of.at(arrow.from),
                         arrow.to == box_ ? nodes_.size() - 1 : node_of.at(arrow.to));
  }

  /// Assigns boxes to layers. Boxes are in the order of execution. A link to an earlier box is
  /// ignored; parts of two networks that read each other can have such links.
  void assign_layers() {
    for (const auto& [from, to] : ends_)
      if (from < to) {
        nodes_[from].below.push_back(to);
        nodes_[to].above.push_back(from);
      }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (has_entry_ && i > 0) node.layer = 1;
      for (const size_t above : node.above)
        node.layer = std::max(node.layer, nodes_[above].layer + 1);
    }
    size_t last = 0;
    for (const Node& node : nodes_) last = std::max(last, node.layer);
    if (has_exit_) nodes_.back().layer = std::max(nodes_.back().layer, last);
    // A node without inputs is placed directly above its reader.
    for (size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      if (!node.above.empty() || node.below.empty() || (has_entry_ && i == 0)) continue;
      size_t nearest = last;
      for (const size_t below : node.below) nearest = std::min(nearest, nodes_[below].layer);
      node.layer = std::max(node.layer, nearest - 1);
    }
    layers_.resize(last + 1);
    if (has_exit_ && nodes_.size() > 1 && layer_has_boxes(last)) {
      nodes_.back().layer = last + 1;
      layers_.emplace_back();
    }
  }

  bool layer_has_boxes(size_t layer) const {
    return std::ranges::any_of(
        nodes_, [&](const Node& node) { return node.box != kNoBox && node.layer == layer; });
  }

  /// Adds one lane per layer for all links from a box, down to the lowest layer that one of them
  /// reaches.
  void add_lanes() {
    for (Node& node : nodes_) {
      node.above.clear();
      node.below.clear();
    }
    std::map<size_t, std::vector<size_t>> lanes;
    for (const auto& [from, to] : ends_) {
      routes_.emplace_back();
      if (from >= to) continue;
      const size_t first = nodes_[from].layer + 1, end = nodes_[to].layer;
      if (end > first + kMostLanes) continue;
      std::vector<size_t>& own = lanes[from];
      for (size_t layer = first + own.size(); layer < end; ++layer) {
        own.push_back(nodes_.size());
        nodes_.push_back({kNoBox, kGapX / 2, 0, layer});
        connect(own.size() > 1 ? own[own.size() - 2] : from, own.back());
      }
      const size_t count = end > first ? end - first : 0;
      routes_.back().assign(own.begin(), own.begin() + static_cast<ptrdiff_t>(count));
      connect(count > 0 ? own[count - 1] : from, to);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) layers_[nodes_[i].layer].push_back(i);
  }

  void connect(size_t above, size_t below) {
    nodes_[above].below.push_back(below);
    nodes_[below].above.push_back(above);
  }

  double mean(const std::vector<size_t>& nodes, double otherwise) const {
    if (nodes.empty()) return otherwise;
    double sum = 0;
    for (const size_t node : nodes) sum += nodes_[node].center;
    return sum / static_cast<double>(nodes.size());
  }

  /// Places boxes horizontally. The first pass goes down and orders each layer; the next passes go
  /// up and down again and move each box near its neighbors.
  void place_across() {
    for (std::vector<size_t>& layer : layers_) {
      double last = 0;
      std::map<size_t, double> wanted;
      for (const size_t node : layer) wanted[node] = last = mean(nodes_[node].above, last);
      std::ranges::stable_sort(layer, {}, [&](size_t node) { return wanted.at(node); });
      place_layer(layer, [&](size_t node) { return wanted.at(node); });
    }
    for (size_t i = layers_.size(); i-- > 0;)
      place_layer(layers_[i],
                  [&](size_t node) { return mean(nodes_[node].below, nodes_[node].center); });
    for (const std::vector<size_t>& layer : layers_)
      place_layer(layer,
                  [&](size_t node) { return mean(nodes_[node].above, nodes_[node].center); });
  }

  template <typename Wanted>
  void place_layer(const std::vector<size_t>& layer, Wanted wanted_of) {
    std::vector<double> wanted, offsets;
    double offset = 0;
    for (size_t i = 0; i < layer.size(); ++i) {
      if (i > 0) offset += (nodes_[layer[i - 1]].width + nodes_[layer[i]].width) / 2.0 + kGapX;
      offsets.push_back(offset);
      wanted.push_back(wanted_of(layer[i]) - offset);
    }
    const std::vector<double> found = ordered(wanted);
    for (size_t i = 0; i < layer.size(); ++i) nodes_[layer[i]].center = found[i] + offsets[i];
  }

  void place_down() {
    double left = nodes_[0].center, right = left;
    for (const Node& node : nodes_) {
      left = std::min(left, node.center - node.width / 2.0);
      right = std::max(right, node.center + node.width / 2.0);
    }
    int title = 0;
    for (const std::string& line : picture_.boxes[box_].lines) title += width_of(line) + 2;
    width_ = std::max(static_cast<int>(right - left) + 2 * kGapX,
                      box_ == 0 ? 0 : title * Placed::kCharacter + 2 * Placed::kPadding);
    const double shift = (width_ - (right - left)) / 2 - left;
    int y = box_ == 0 ? kGapX : kTitle;
    for (const std::vector<size_t>& layer : layers_) {
      int tallest = 0;
      for (const size_t node : layer) tallest = std::max(tallest, nodes_[node].height);
      tops_.push_back(y);
      bottoms_.push_back(y + tallest);
      for (const size_t i : layer) {
        Node& node = nodes_[i];
        node.center += shift;
        node.y = y + (tallest - node.height) / 2;
        if (node.box != kNoBox) continue;
        node.y = y;
        node.height = tallest;
      }
      y += tallest + kGapY;
    }
    height_ = y - kGapY + (has_exit_ ? 0 : kGapX);
  }

  std::string path_of(const std::vector<size_t>& stops, int x, int y) const {
    const auto center = [&](size_t node) { return x + static_cast<int>(nodes_[node].center); };
    int at = y + nodes_[stops.front()].y + nodes_[stops.front()].height;
    std::string path = fmt::format("M{} {}", center(stops.front()), at);
    // No segment has length 0, because an arrowhead at its end would have no direction.
    const auto down_to = [&](int to) {
      if (to != at) path += fmt::format(" V{}", to);
      at = to;
    };
    for (size_t i = 0; i + 1 < stops.size(); ++i) {
      const Node &from = nodes_[stops[i]], &to = nodes_[stops[i + 1]];
      const int bottom = y + bottoms_[from.layer], top = y + tops_[to.layer];
      const int bend = std::max(8, (top - bottom) / 2);
      down_to(bottom);
      path += fmt::format(" C{} {} {} {} {} {}", center(stops[i]), bottom + bend,
                          center(stops[i + 1]), top - bend, center(stops[i + 1]), top);
      at = top;
      down_to(y + to.y + (i + 2 == stops.size() ? 0 : to.height));
    }
    return path;
  }

  const Picture& picture_;
  const size_t box_;
  const std::vector<Arrow>& arrows_;
  Placed& placed_;
  bool has_entry_ = false, has_exit_ = false;
  std::vector<Node> nodes_;  // the entry, the boxes in order, the exit, the lanes
  std::vector<std::pair<size_t, size_t>> ends_;  // indexed by arrow: its two nodes
  std::vector<std::vector<size_t>> routes_;      // indexed by arrow: the lanes between its ends
  std::vector<std::vector<size_t>> layers_;      // the nodes of each layer from left to right
  std::vector<int> tops_, bottoms_;              // indexed by layer
  int width_ = 0, height_ = 0;
};

Placed::Rectangle size_of(const Box& box) {
  int longest = 0;
  for (const std::string& line : box.lines) longest = std::max(longest, width_of(line));
  return {0, 0, longest * Placed::kCharacter + 2 * Placed::kPadding,
          static_cast<int>(box.lines.size()) * Placed::kLine + 2 * Placed::kPadding};
}

}  // namespace

Placed place(const Picture& picture) {
  Placed placed;
  for (const Box& box : picture.boxes) placed.boxes.push_back(size_of(box));
  const std::vector<std::vector<Arrow>> arrows = arrows_of(picture);
  std::map<size_t, Frame> frames;
  for (size_t i = picture.boxes.size(); i-- > 0;)
    if (!picture.boxes[i].inside.empty())
      frames.try_emplace(i, picture, i, arrows[i], placed).first->second.write();
  for (size_t i = 0; i < picture.boxes.size(); ++i) {
    if (i > 0) {
      placed.boxes[i].x += placed.boxes[picture.boxes[i].parent].x;
      placed.boxes[i].y += placed.boxes[picture.boxes[i].parent].y;
    }
    if (const auto frame = frames.find(i); frame != frames.end())
      frame->second.draw(placed.boxes[i].x, placed.boxes[i].y);
  }
  return placed;
}

}  // namespace flow::cli
