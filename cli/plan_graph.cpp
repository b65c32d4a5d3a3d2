// A job's steps as a graph, written for Graphviz or laid out in layers.
#include "cli/plan_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "cli/plan_text.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

using plan::Role;
using plan::TensorId;

enum class Look { kStep, kInput, kBackward /* a gradient or an update */, kTap };

struct Node {
  std::vector<std::string> lines;  // the name, then what it is
  Look look = Look::kStep;
};

struct Edge {
  size_t from, to;
  std::string label;  // the tensor's dtype and shape
};

struct PlanGraph {
  std::vector<Node> nodes;
  std::vector<Edge> edges;  // sorted by `to`
};

Look look_of(const plan::Step& step) {
  if (step.tap) return Look::kTap;
  // So passes call what only training needs; casts and copies stand behind colons too.
  constexpr std::array<std::string_view, 3> kOfTraining = {":diff", ":update", ":regularized"};
  const bool backward = std::ranges::any_of(kOfTraining, [&](std::string_view mark) {
    return step.name.find(mark) != std::string::npos;
  });
  return backward ? Look::kBackward : Look::kStep;
}

PlanGraph graph_of(const plan::Job& job) {
  PlanGraph graph;
  std::map<TensorId, size_t> maker;
  for (const plan::Input& input : job.inputs) {
    const plan::Tensor& tensor = job[input.tensor];
    maker[input.tensor] = graph.nodes.size();
    graph.nodes.push_back({{tensor.name, type_of(tensor)}, Look::kInput});
  }
  for (const plan::Step& step : job.steps) {
    Node node{{step.name}, look_of(step)};
    std::string op = step.op;
    for (const plan::Post& post : step.posts) op += " + " + post.op;
    if (!step.outputs.empty() && step.outputs[0].valid())
      op += " -> " + job[step.outputs[0]].shape.str();
    if (step.device) op += fmt::format(" on {}", plan::name_of(*step.device));
    node.lines.push_back(op);
    std::vector<TensorId> reads = step.inputs;
    for (const plan::Post& post : step.posts)
      reads.insert(reads.end(), post.operands.begin(), post.operands.end());
    std::map<size_t, std::string> from;  // one edge from each node
    for (const TensorId id : reads) {
      const plan::Tensor& tensor = job[id];
      if (tensor.role == Role::kVariable)
        node.lines.push_back(fmt::format("{} {}", tensor.name, tensor.shape.str()));
      else if (const auto made = maker.find(id); made != maker.end())
        from.emplace(made->second, type_of(tensor));
    }
    for (const auto& [source, label] : from)
      graph.edges.push_back({source, graph.nodes.size(), label});
    for (const TensorId id : step.outputs)
      if (id.valid()) maker[id] = graph.nodes.size();
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

/// As XML, or a string of Graphviz's language, can hold it.
std::string escaped_for(const std::string& text, bool xml) {
  std::string out;
  for (const char c : text) {
    if (xml && c == '&')
      out += "&amp;";
    else if (xml && c == '<')
      out += "&lt;";
    else if (!xml && (c == '"' || c == '\\'))
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

/// Where nodes stand: one layer below the lowest of what they read, near the middle of it.
class Layout {
 public:
  static constexpr int kCharacter = 8, kLine = 15, kPadding = 8, kGapX = 24, kGapY = 44;

  explicit Layout(const PlanGraph& graph) : graph_(graph), boxes_(graph.nodes.size()) {
    for (size_t i = 0; i < boxes_.size(); ++i) boxes_[i] = size_of(graph.nodes[i]);
    assign_layers();
    for (std::vector<size_t>& layer : layers_) place(layer);
  }

  struct Box {
    int x = 0, y = 0, width = 0, height = 0;
    int middle() const { return x + width / 2; }
  };
  const Box& operator[](size_t node) const { return boxes_[node]; }
  int width() const { return width_ + kGapX; }
  int height() const { return height_; }

 private:
  static Box size_of(const Node& node) {
    size_t longest = 0;
    for (const std::string& line : node.lines) longest = std::max(longest, line.size());
    return {0, 0, static_cast<int>(longest) * kCharacter + 2 * kPadding,
            static_cast<int>(node.lines.size()) * kLine + 2 * kPadding};
  }

  void assign_layers() {
    std::vector<size_t> layer_of(boxes_.size());
    for (const Edge& edge : graph_.edges)  // in the order of their lower ends
      layer_of[edge.to] = std::max(layer_of[edge.to], layer_of[edge.from] + 1);
    for (size_t i = 0; i < boxes_.size(); ++i) {
      layers_.resize(std::max(layers_.size(), layer_of[i] + 1));
      layers_[layer_of[i]].push_back(i);
    }
  }

  /// The mean of the middles of what the node reads.
  int wanted_middle(size_t node) const {
    int sum = 0, count = 0;
    for (auto edge = std::ranges::lower_bound(graph_.edges, node, {}, &Edge::to);
         edge != graph_.edges.end() && edge->to == node; ++edge) {
      sum += boxes_[edge->from].middle();
      ++count;
    }
    return count ? sum / count : 0;
  }

  void place(std::vector<size_t>& layer) {
    std::map<size_t, int> wanted;
    for (const size_t node : layer) wanted[node] = wanted_middle(node);
    std::ranges::stable_sort(layer, {}, [&](size_t node) { return wanted[node]; });
    int x = kGapX, tallest = 0;
    for (const size_t node : layer) {
      Box& box = boxes_[node];
      box.x = std::max(x, wanted[node] - box.width / 2);
      box.y = height_ + kGapY / 2;
      x = box.x + box.width + kGapX;
      tallest = std::max(tallest, box.height);
      width_ = std::max(width_, box.x + box.width);
    }
    height_ += tallest + kGapY;
  }

  const PlanGraph& graph_;
  std::vector<Box> boxes_;
  std::vector<std::vector<size_t>> layers_;
  int width_ = 0, height_ = 0;
};

std::string svg_of(const Edge& edge, const Layout& layout) {
  const Layout::Box &from = layout[edge.from], &to = layout[edge.to];
  const int x0 = from.middle(), y0 = from.y + from.height, x1 = to.middle(), y1 = to.y;
  return fmt::format(
      "<path d=\"M{0} {1} C{0} {4} {2} {5} {2} {3}\" class=\"edge\"><title>{6}</title></path>\n",
      x0, y0, x1, y1, y0 + 20, y1 - 20, escaped_for(edge.label, true));
}

const char* svg_class_of(Look look) {
  switch (look) {
    case Look::kStep:
      return "step";
    case Look::kInput:
      return "input";
    case Look::kBackward:
      return "backward";
    case Look::kTap:
      return "tap";
  }
  return "";
}

const char* dot_style_of(Look look) {
  switch (look) {
    case Look::kStep:
      return "";
    case Look::kInput:
      return ", style=rounded";
    case Look::kBackward:
      return ", color=grey, fontcolor=grey40";
    case Look::kTap:
      return ", style=dashed";
  }
  return "";
}

std::string svg_of(const Node& node, const Layout::Box& box) {
  std::string text = fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" class=\"{}\"/>\n", box.x, box.y,
      box.width, box.height, node.look == Look::kInput ? 14 : 4, svg_class_of(node.look));
  int y = box.y + Layout::kPadding + Layout::kLine - 4;
  for (size_t i = 0; i < node.lines.size(); ++i, y += Layout::kLine)
    text +=
        fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", box.x + Layout::kPadding, y,
                    i == 0 ? "name" : "what", escaped_for(node.lines[i], true));
  return text;
}

}  // namespace

std::string to_dot(const plan::Job& job) {
  const PlanGraph graph = graph_of(job);
  std::string text = fmt::format("digraph \"{}\" {{\n  node [shape=box, fontname=monospace];\n",
                                 escaped_for(job.name, false));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::vector<std::string> lines;
    for (const std::string& line : node.lines) lines.push_back(escaped_for(line, false));
    text +=
        fmt::format("  n{} [label=\"{}\"{}];\n", i, join(lines, "\\n"), dot_style_of(node.look));
  }
  for (const Edge& edge : graph.edges)
    text += fmt::format("  n{} -> n{} [tooltip=\"{}\"];\n", edge.from, edge.to,
                        escaped_for(edge.label, false));
  return text + "}\n";
}

std::string to_svg(const plan::Job& job) {
  const PlanGraph graph = graph_of(job);
  const Layout layout(graph);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\">\n<style>text{{font:12px monospace}} .name{{font-weight:bold}} .what{{fill:#555}} "
      "rect{{fill:#fff;stroke:#333}} .input{{fill:#e8f0fe}} .backward{{fill:#f4f4f4;stroke:#aaa}} "
      ".tap{{stroke-dasharray:4}} .edge{{fill:none;stroke:#999}}</style>\n<rect width=\"100%\" "
      "height=\"100%\" style=\"stroke:none\"/>\n",
      layout.width(), layout.height());
  for (const Edge& edge : graph.edges) text += svg_of(edge, layout);
  for (size_t i = 0; i < graph.nodes.size(); ++i) text += svg_of(graph.nodes[i], layout[i]);
  return text + "</svg>\n";
}

}  // namespace flow::cli
