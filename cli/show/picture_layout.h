// Where boxes and links of a picture are drawn: layers from the inputs down, networks around
// theirs.
#pragma once

#include <string>
#include <vector>

#include "cli/show/picture.h"

namespace flow::cli {

/// In pixels; text has 12 pixels a line and about 7 a character.
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

}  // namespace flow::cli
