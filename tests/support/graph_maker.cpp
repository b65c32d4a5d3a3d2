// Graphs for tests of the compiler's middle, made from few words.
#include "tests/support/graph_maker.h"

#include "compiler/ir/call_site.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"

namespace flow::test {

using ir::ValueId;

ValueId GraphMaker::input(const std::string& name, Shape shape, DType dtype, int rows) {
  return builder.add_input(name, dtype, std::move(shape), rows, Span());
}

ValueId GraphMaker::variable(const std::string& name, Shape shape, bool trainable) {
  return builder.add_variable(name, graph.compute_dtype, std::move(shape), {}, trainable, false,
                              Span());
}

ValueId GraphMaker::add(std::string_view op, const std::string& name, std::vector<ValueId> operands,
                        ir::Attributes attributes) {
  const ops::OpSpec* def = ops::find_spec(op);
  FLOW_CHECK(def, "{}", op);
  return builder.add(*def, name, std::move(operands), std::move(attributes), AttributeSpans())
      .front();
}

ValueId GraphMaker::layer(std::string_view op, const std::string& name, ValueId in,
                          ir::Attributes attributes, bool train) {
  const AttributeSpans spans;
  return builder.add_layer(*ops::find_spec(op),
                           {builder, name, {in}, attributes, {}, spans, train, true});
}

void GraphMaker::minimize(ValueId loss) {
  context.training.emplace();
  context.training->losses = {{loss, graph[loss].name, Span()}};
  for (const ir::Variable& variable : graph.variables)
    if (variable.trainable) context.training->variables.push_back(variable.value);
  context.training->rate_scales.assign(context.training->variables.size(), 1);
  context.training->weight_decays.assign(context.training->variables.size(), 0);
}

void GraphMaker::run_passes(std::string_view last) {
  for (const passes::Pass& pass : passes::pipeline()) {
    pass.run(graph, context, diags);
    if (diags.has_errors()) return;
    ir::verify(graph);
    if (pass.name == last) return;
  }
}

std::string GraphMaker::nodes() const {
  std::string text;
  for (const std::string& line : flow::split(ir::print(graph), '\n'))
    if (line.find(" = ") != std::string::npos && !line.starts_with("variable") &&
        !line.starts_with("alias") && !line.starts_with("slot"))
      text += line + "\n";
    else if (line.starts_with("  +"))
      text += line + "\n";
  return text;
}

std::string GraphMaker::messages() const {
  std::string text;
  for (const Diag* diag : diags.sorted()) {
    text += diag->message + "\n";
    for (const std::string& note : diag->notes) text += "  " + note + "\n";
    for (const std::string& hint : diag->hints) text += "  hint: " + hint + "\n";
  }
  return text;
}

}  // namespace flow::test
