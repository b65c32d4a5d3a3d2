// The rules that map operators of ONNX to ops of flow, and back.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/onnx/node_import.h"
#include "runtime/onnx/step_export.h"

namespace flow::onnx {

/// A function that writes the nodes of a step.
using StepWriter = void (*)(StepExport& step);
/// A function that makes entries of a node and returns the node's outputs.
using NodeReader = Tensors (*)(NodeImport& node);

// Names for values of members in rules, whose initializers do not name the members.
inline constexpr bool kBroadcasts = true, kWidens = true;

/// A rule for an op and an operator. An op or an operator may occur in several rules, but only one
/// of them writes the op, and only one reads the operator.
struct Rule {
  std::string_view op;    // op of flow; a reader that several operators share makes this op
  std::string_view type;  // operator of ONNX; a writer that several ops share makes this operator
  StepWriter write = nullptr;
  NodeReader read = nullptr;
  bool broadcasts = false;  // all operands broadcast to the result
  /// Runtimes lack the operator for 8-bit integers, which are therefore cast to int32. Casting the
  /// result back wraps around in the same way.
  bool widens = false;
  bool takes_product = false;  // operands are those of recurrent_operands
};

std::span<const Rule> arithmetic_rules();
std::span<const Rule> attention_rules();
std::span<const Rule> constant_rules();
std::span<const Rule> function_rules();
std::span<const Rule> grid_rules();
std::span<const Rule> image_rules();
std::span<const Rule> index_rules();
std::span<const Rule> normalization_rules();
std::span<const Rule> pad_rules();
std::span<const Rule> product_rules();
std::span<const Rule> random_rules();
std::span<const Rule> recurrent_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> rotary_rules();
std::span<const Rule> shape_rules();
std::span<const Rule> window_rules();

/// Returns all rules.
const std::vector<Rule>& all_rules();

/// Returns the outputs of a node: entries, or constants if all of its operands are constants.
Tensors read(const Rule& rule, NodeImport& node);

}  // namespace flow::onnx
