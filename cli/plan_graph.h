// The steps of a job as a picture: for Graphviz, or drawn here.
#pragma once

#include <string>

#include "runtime/plan/plan.h"

namespace flow::cli {

/// A digraph in Graphviz's language: inputs, and steps with their posts; variables stand in the
/// steps that read them. Gradients and updates are grey.
std::string to_dot(const plan::Job& job);

/// The same as an SVG, steps in layers from the inputs down.
std::string to_svg(const plan::Job& job);

}  // namespace flow::cli
