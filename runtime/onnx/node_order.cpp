// A topological sort.
#include "runtime/onnx/node_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "runtime/base/display.h"
#include "runtime/onnx/tensor_reader.h"

namespace flow::onnx {
namespace {

constexpr size_t kMostShown = 8;  // nodes of a circle

class NodeOrder {
 public:
  explicit NodeOrder(const pb::GraphProto& graph) : graph_(graph) {
    for (int i = 0; i < graph.node_size(); ++i)
      for (const std::string& name : graph.node(i).output())
        if (!name.empty() && !makers_.emplace(name, i).second)
          throw Unsupported(fmt::format("two tensors are called `{}`", escaped(name)));
  }

  NeededNodes run() {
    find_needed();
    NeededNodes result{.tensors = std::move(needed_), .nodes = {}};
    std::multimap<int, int> readers;  // by node
    std::set<int> ready;
    for (const auto& [node, count] : waits_) {
      for (const int maker : makers_of(node)) readers.emplace(maker, node);
      if (count == 0) ready.insert(node);
    }
    while (!ready.empty()) {
      const int node = *ready.begin();
      ready.erase(ready.begin());
      result.nodes.push_back(&graph_.node(node));
      const auto [first, last] = readers.equal_range(node);
      for (auto reader = first; reader != last; ++reader)
        if (--waits_[reader->second] == 0) ready.insert(reader->second);
    }
    if (result.nodes.size() < waits_.size()) refuse_circle();
    return result;
  }

 private:
  /// The nodes that a node reads from, one for each operand.
  std::vector<int> makers_of(int node) const {
    std::vector<int> makers;
    for (const std::string& name : graph_.node(node).input())
      if (const auto maker = makers_.find(name); maker != makers_.end())
        makers.push_back(maker->second);
    return makers;
  }

  void find_needed() {
    std::vector<std::string> unread;
    for (const auto& output : graph_.output()) unread.push_back(output.name());
    while (!unread.empty()) {
      const std::string name = std::move(unread.back());
      unread.pop_back();
      if (!needed_.insert(name).second) continue;
      const auto maker = makers_.find(name);
      if (maker == makers_.end()) continue;
      if (!waits_.emplace(maker->second, makers_of(maker->second).size()).second) continue;
      const auto& operands = graph_.node(maker->second).input();
      unread.insert(unread.end(), operands.begin(), operands.end());
    }
  }

  /// A node that never gets ready, whose results this one waits for.
  int awaited_by(int node) const {
    const std::vector<int> makers = makers_of(node);
    return *std::ranges::find_if(makers, [&](int maker) { return waits_.at(maker) > 0; });
  }

  [[noreturn]] void refuse_circle() const {
    int node = std::ranges::find_if(waits_, [](const auto& one) { return one.second > 0; })->first;
    std::set<int> seen;
    while (seen.insert(node).second) node = awaited_by(node);
    std::string circle;
    size_t shown = 0;
    const int first = node;
    do {
      const std::string separator = shown == 0 ? "" : ", ";
      circle += fmt::format("{}`{}` ({})", separator, shown_name(graph_.node(node)),
                            escaped(graph_.node(node).op_type()));
      node = awaited_by(node);
    } while (node != first && ++shown < kMostShown);
    throw Unsupported(fmt::format("nodes form a circle, each reads from the next: {}{}", circle,
                                  node == first ? "" : ", ..."));
  }

  const pb::GraphProto& graph_;
  std::map<std::string_view, int> makers_;  // nodes, by the tensors that they make
  std::set<std::string> needed_;
  std::map<int, size_t> waits_;  // needed nodes, with the number of operands that are not made yet
};

}  // namespace

NeededNodes needed_nodes(const pb::GraphProto& graph) { return NodeOrder(graph).run(); }

std::string shown_name(const pb::NodeProto& node) {
  return escaped(node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name());
}

}  // namespace flow::onnx
