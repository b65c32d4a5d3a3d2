// Jobs as a GraphDef, which TensorBoard draws.
#pragma once

#include <span>
#include <string>

#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// tensorflow/core/framework/graph.proto: a node for each input, variable and step, below the name
/// of its job: "train/lenet/conv1/conv". Nodes have the shapes of what they make, and attributes.
std::string graph_def(std::span<const plan::Job* const> jobs);

}  // namespace flow::exec
