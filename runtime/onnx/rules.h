// Operators of ONNX and ops of flow, in both directions.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/onnx/node_import.h"
#include "runtime/onnx/step_export.h"

namespace flow::onnx {

/// Writes the nodes of a step.
using StepWriter = void (*)(StepExport& step);
/// Makes entries of a node; its outputs.
using NodeReader = Tensors (*)(NodeImport& node);

// Of rules, which have no names for their members.
inline constexpr bool kBroadcasts = true, kWidens = true;

/// An op, or an operator, may have several rules, of which one alone writes it, or reads it.
struct Rule {
  std::string_view op;    // of flow; where several operators have one reader, what it makes
  std::string_view type;  // of ONNX; where several ops have one writer, what it makes
  StepWriter write = nullptr;
  NodeReader read = nullptr;
  bool broadcasts = false;  // all operands, to the result
  /// Runtimes lack the operator for integers of 8 bits: they are int32 for it. What is cast back
  /// has wrapped around alike.
  bool widens = false;
  bool takes_product = false;  // its operands are those of recurrent_operands
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

/// All of them.
const std::vector<Rule>& all_rules();

/// The outputs of a node: entries, or constants where all of its operands are.
Tensors read(const Rule& rule, NodeImport& node);

}  // namespace flow::onnx
