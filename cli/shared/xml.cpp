// Text in XML reports.
#include "cli/shared/xml.h"

#include "runtime/base/display.h"

namespace flow::cli {

std::string xml(const std::string& text) {
  std::string out;
  for (const char c : escaped(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

}  // namespace flow::cli
