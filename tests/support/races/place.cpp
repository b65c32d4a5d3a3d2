// Asks binutils' addr2line, which knows what functions were inlined.
#include "tests/support/races/place.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

namespace flow::test {

std::string place_of(const void* code) {
  const std::string unknown = fmt::format("{}", code);
  Dl_info module{};
  if (dladdr(code, &module) == 0) return unknown;
  // The call is before the address to which it returns.
  const auto offset = static_cast<const char*>(code) - static_cast<const char*>(module.dli_fbase);
  const std::string command =
      fmt::format("addr2line -s -e '{}' {:#x} 2>/dev/null", module.dli_fname, offset - 1);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 256> line{};
  if (!pipe || !std::fgets(line.data(), line.size(), pipe.get())) return unknown;
  const std::string_view text = line.data();
  const std::string place(text.substr(0, text.find_first_of(" \n")));  // then: a discriminator
  return place.starts_with('?') ? unknown : place;
}

}  // namespace flow::test
