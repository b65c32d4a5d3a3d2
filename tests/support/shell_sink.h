// Sinks that give values to a line of shell.
#pragma once

#include <string>

#include "runtime/plan/model/plan.h"

namespace flow::test {

inline plan::CommandSink shell_sink(const std::string& line) {
  plan::CommandSink sink;
  sink.shell = true;
  sink.run = {line};
  sink.format = plan::CommandSink::Format::kText;
  return sink;
}

}  // namespace flow::test
