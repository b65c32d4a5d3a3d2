// What to do about a file of data that is a text instead.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace flow {

/// A hint where `bytes`, the first of a file, are a pointer of Git LFS or the web page of a
/// download that failed. Empty for anything else.
inline std::string hint_for_text(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto begins_with = [&text](std::string_view mark) {
    return std::ranges::equal(text.substr(0, mark.size()), mark, {},
                              [](unsigned char c) { return std::tolower(c); });
  };
  if (begins_with("version https://git-lfs"))
    return "the file is a pointer of Git LFS; run `git lfs pull`";
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a mark of UTF-8
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  constexpr std::array kPages = {"<!doctype", "<html", "<head", "<body", "<?xml", "<!--"};
  if (std::ranges::any_of(kPages, begins_with))
    return "the file is a web page: the download failed; download it again";
  return {};
}

}  // namespace flow
