// Graphs for tests of the compiler's middle, made from few words.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/passes/pipeline.h"

namespace flow::test {

/// A graph under construction with all that it borrows. Every span is invalid, so that messages
/// come without places.
struct GraphMaker {
  Sources sources;
  Diags diags{sources};
  ir::Graph graph;
  ir::Builder builder{graph, diags};
  passes::Context context;

  ir::ValueId input(const std::string& name, Shape shape, DType dtype = DType::kFloat32,
                    int rows = 0);
  ir::ValueId variable(const std::string& name, Shape shape, bool trainable = true);
  /// A primitive; first result, invalid after an error.
  ir::ValueId add(std::string_view op, const std::string& name, std::vector<ir::ValueId> operands,
                  ir::Attributes attributes = {});
  ir::ValueId layer(std::string_view op, const std::string& name, ir::ValueId in,
                    ir::Attributes attributes = {}, bool train = true);
  /// Trains all trainable variables.
  void minimize(ir::ValueId loss);

  /// Runs passes up to and with `last`, verifying after each.
  void run_passes(std::string_view last = "fuse_updates");
  /// What the graph looks like after its inputs and variables: its nodes.
  std::string nodes() const;
  /// What was reported: each message with its notes and hints on lines of their own.
  std::string messages() const;
};

}  // namespace flow::test
