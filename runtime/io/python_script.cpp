// Looks for imports in the script, and for NumPy in the Python that runs it.
#include "runtime/io/python_script.h"

#include <fstream>
#include <regex>

#include "runtime/base/error.h"

namespace flow::io {
namespace {

constexpr double kLongestSearch = 10;  // seconds
constexpr int kLongestScript = 2'000;  // lines; imports are at the top

bool imports_numpy(const fs::path& script) {
  static const std::regex import(R"(^\s*(import|from)\s+(numpy|flowhook)\b.*)");
  std::ifstream file(script);
  std::string line;
  for (int i = 0; i < kLongestScript && std::getline(file, line); ++i)
    if (line.size() < 1'000 && std::regex_match(line, import)) return true;
  return false;
}

}  // namespace

bool lacks_numpy(const ProcessOptions& command) {
  static const std::regex python(R"((.*/)?python[0-9.]*)");
  const std::vector<std::string>& words = command.words;
  if (words.size() < 2 || !std::regex_match(words[0], python)) return false;
  const fs::path script = command.directory / words[1];
  std::error_code unreadable;
  if (!fs::is_regular_file(script, unreadable) || !imports_numpy(script)) return false;

  constexpr int kMissing = 3;
  ProcessOptions search = command;
  search.words = {words[0], "-c",
                  "import importlib.util, sys; "
                  "sys.exit(0 if importlib.util.find_spec('numpy') else 3)"};
  search.acknowledges = false;
  try {
    Process process(search);
    process.close_input();
    const auto status = process.wait(deadline_in(kLongestSearch));
    return status && status->code == kMissing;
  } catch (const RunError&) {  // Python is missing: starting the command reports that
    return false;
  }
}

}  // namespace flow::io
