// A job as boxes and links, the layout of its picture, and the drawing.
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
  std::vector<std::string> lines;  // the name, followed by a description
  size_t parent = 0;               // the box that contains this one
  std::vector<size_t> inside;      // the boxes in a network that is shown in full
  bool trained = false;            // true if gradients are requested and the box has one
};

/// A link from a result to its reader. Neither of the two boxes contains the other.
struct Link {
  size_t from = 0, to = 0;
  bool gradient = false;  // true if a gradient flows back
  std::string label = {};
};

struct Picture {
  std::string name;
  std::vector<Box> boxes;   // the first contains all others; each follows its container
  std::vector<Link> links;  // sorted, one for each pair of boxes
};

struct PictureOptions {
  bool gradients = false, hooks = false;
  bool all = false;  // as in fold()
};

Picture picture_of(const plan::Job& job, const JobTree& tree, const PictureOptions& options);

/// The places of the boxes and links of a picture, in pixels. Layers are drawn from the inputs
/// down, and a network surrounds its boxes. A line of text is 12 pixels high, and a character is
/// about 7 pixels wide.
struct Placed {
  static constexpr int kCharacter = 8, kLine = 15, kPadding = 8;

  struct Rectangle {
    int x = 0, y = 0, width = 0, height = 0;
  };
  /// A curve as an SVG path.
  struct Route {
    std::string path;
    std::string label;
    bool gradient = false;
  };
  std::vector<Rectangle> boxes;  // in the order of Picture::boxes
  std::vector<Route> routes;
};

Placed place(const Picture& picture);

/// Returns the picture as a digraph in Graphviz's language. Networks are clusters.
std::string to_dot(const Picture& picture);

/// Returns the picture as SVG, drawn from the inputs down. Its colors are light or dark according
/// to the viewer's preference.
std::string to_svg(const Picture& picture);

}  // namespace flow::cli
