// Where messages are shown.
#pragma once

namespace flow {

/// How messages are shown.
struct Layout {
  bool color = false;
  int columns = 100;     // that lines keep to where the user's names allow
  bool objects = false;  // also as JSON
};

}  // namespace flow
