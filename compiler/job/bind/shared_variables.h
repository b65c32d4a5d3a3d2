// Variables are shared by name between the jobs of a file: their shapes must agree.
#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/job/read/job.h"

namespace flow::job {

class SharedVariables {
 public:
  /// Reports each variable of `graph` that an earlier job has with another shape.
  void check(Reader& reader, const Job& job, const ir::Graph& graph);

 private:
  struct First {
    std::string job;
    Shape shape;
    Span span;
  };
  std::map<std::string, First> first_;
};

}  // namespace flow::job
