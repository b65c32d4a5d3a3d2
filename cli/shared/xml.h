// Text in XML reports.
#pragma once

#include <string>

namespace flow::cli {

/// Text inside an XML attribute or element. What XML cannot hold is escaped, as on a terminal.
std::string xml(const std::string& text);

}  // namespace flow::cli
