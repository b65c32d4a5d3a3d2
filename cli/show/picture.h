// A job as boxes and links, where these are drawn, and the drawing.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "cli/show/job_tree.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

enum class Look { kOp, kInput, kNetwork, kHook };

struct Box {
  Look look = Look::kOp;
  std::vector<std::string> lines;  // the name, then what it is
  size_t parent = 0;               // the box around it
  std::vector<size_t> inside;      // of a network that is shown in full
  bool trained = false;            // has a gradient, where gradients are asked for
};

/// From a result to its reader; neither is inside the other.
struct Link {
  size_t from = 0, to = 0;
  bool gradient = false;  // one goes back
  std::string label = {};
};

struct Picture {
  std::string name;
  std::vector<Box> boxes;   // 0: all of it; each after the box around it
  std::vector<Link> links;  // sorted, one for each pair
};

struct PictureOptions {
  bool gradients = false, hooks = false;
  bool all = false;  // as in fold()
};

Picture picture_of(const plan::Job& job, const JobTree& tree, const PictureOptions& options);

/// Where boxes and links of a picture are drawn: layers from the inputs down, networks around
/// theirs. In pixels; text has 12 pixels a line and about 7 a character.
struct Placed {
  static constexpr int kCharacter = 8, kLine = 15, kPadding = 8;

  struct Rectangle {
    int x = 0, y = 0, width = 0, height = 0;
  };
  /// A curve of an SVG path.
  struct Route {
    std::string path;
    std::string label;
    bool gradient = false;
  };
  std::vector<Rectangle> boxes;  // as Picture::boxes
  std::vector<Route> routes;
};

Placed place(const Picture& picture);

/// A digraph in Graphviz's language; networks are clusters.
std::string to_dot(const Picture& picture);

/// The same as an SVG, from the inputs down, in light or dark colors as its viewer prefers.
std::string to_svg(const Picture& picture);

}  // namespace flow::cli
