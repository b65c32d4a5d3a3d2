// One variable, one shape, whichever job makes it.
#include "compiler/job/bind/shared_variables.h"

#include <fmt/format.h>

namespace flow::job {

void SharedVariables::check(Reader& reader, const Job& job, const ir::Graph& graph) {
  for (const ir::Variable& variable : graph.variables) {
    const ir::Value& value = graph[variable.value];
    const auto [first, fresh] =
        first_.try_emplace(value.name, First{job.name.text, value.shape, value.span});
    if (fresh || first->second.shape == value.shape) continue;
    reader
        .error(Diagnosis::kSharedVariable, value.span,
               fmt::format("variable `{}` has shape {} in `{}`, but {} in `{}`", value.name,
                           value.shape.str(), job.name.text, first->second.shape.str(),
                           first->second.job))
        .label(first->second.span, fmt::format("in `{}`", first->second.job))
        .label(job.name.span, "this job")
        .with_hint(
            "use inputs of the same size, or rename the entries: jobs share variables by name");
  }
}

}  // namespace flow::job
