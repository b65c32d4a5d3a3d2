// The nodes of a model that its outputs follow from, in an order in which they can be computed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/onnx/proto.h"

namespace flow::onnx {

struct NeededNodes {
  std::set<std::string> tensors;            // by name: what the outputs follow from, and they
  std::vector<const pb::NodeProto*> nodes;  // each behind those that it reads from
};

/// Nodes that are in order keep it. Unsupported where nodes read from each other in a circle, or
/// two of them make a tensor of the same name.
NeededNodes needed_nodes(const pb::GraphProto& graph);

/// The name of a node; its first output's where it has none.
std::string shown_name(const pb::NodeProto& node);

}  // namespace flow::onnx
