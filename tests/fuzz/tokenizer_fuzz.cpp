// Files of a tokenizer and a text, separated by bytes 0: `vocab.json`, `merges.txt`, text; or
// `tokenizer.json`, text. The files are read or refused with a RunError, and ids are in range.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/text/tokenizer.h"

namespace {

/// Removes the text up to the next byte 0 from `rest` and returns it.
flow::data::NamedText next_part(std::string_view& rest, const char* name) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return {name, std::string(part)};
}

void encode(const flow::data::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int64_t> ids;
  if (const auto problem = tokenizer.encode(text, ids)) {
    FLOW_CHECK(problem->offset <= text.size());
    return;
  }
  for (const int64_t id : ids) FLOW_CHECK(id >= 0 && id < tokenizer.size());
  tokenizer.decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace flow::data;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  try {
    const NamedText first = next_part(rest, "first");
    if (first.text.find("\"model\"") != std::string::npos) {
      encode(*json_tokenizer(first), rest);
    } else {
      const NamedText merges = next_part(rest, "merges.txt");
      const std::vector<std::string> special = {"<s>"};
      const bool has_special = first.text.find("\"<s>\"") != std::string::npos;
      encode(*byte_pair_tokenizer(first, merges, has_special ? special : decltype(special)()),
             rest);
    }
  } catch (const flow::RunError&) {
  }
  return 0;
}
