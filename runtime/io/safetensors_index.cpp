// Sets of .safetensors files, and where they are found.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/safetensors.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/json_text.h"

namespace flow::io {
namespace {

constexpr const char* kIndexSuffix = ".safetensors.index.json";

/// A name in the folder of the index: one component.
bool is_shard_name(const std::string& name) {
  return name.ends_with(kSafetensorsSuffix) &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

/// Sorted names of the folder's files with that suffix.
std::vector<std::string> files_ending_in(const fs::path& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (std::string name = entry.path().filename().string(); name.ends_with(suffix))
      names.push_back(std::move(name));
  std::ranges::sort(names);
  return names;
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw RunError(fmt::format("{} is not a valid index of .safetensors files: {}", name, what));
  };
  const Json json = plan::parse_foreign_json(text, name);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail("`weight_map` is missing");
  SafetensorsIndex files;
  for (const auto& [key, value] : json["weight_map"].items()) {
    if (key.size() > kLongestArrayName)
      fail(fmt::format("the name `{}` has {} bytes", shortened(key), key.size()));
    if (!value.is_string()) fail(fmt::format("the file of `{}` is not text", shortened(key)));
    const auto& file = value.get_ref<const std::string&>();
    if (!is_shard_name(file))
      fail(
          fmt::format("`{}` has file {}; expected the name of a .safetensors file in the folder "
                      "of the index",
                      shortened(key), shortened(value.dump())));
    files.emplace(key, file);
  }
  if (files.empty()) fail("`weight_map` is empty");
  return files;
}

bool is_safetensors_index(const fs::path& path) {
  return path.filename().string().ends_with(kIndexSuffix);
}

std::optional<fs::path> find_safetensors(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    const bool known = path.extension() == kSafetensorsSuffix || is_safetensors_index(path);
    return known ? std::optional(path) : std::nullopt;
  }
  if (!fs::is_directory(path, ignored)) return {};
  const std::string whole = std::string("model") + kSafetensorsSuffix;
  if (fs::is_regular_file(path / whole, ignored)) return path / whole;
  for (const std::string_view suffix : {kIndexSuffix, kSafetensorsSuffix}) {
    const std::vector<std::string> names = files_ending_in(path, suffix);
    if (names.size() == 1) return path / names[0];
    if (names.size() > 1)
      throw RequestError(
          fmt::format(
              "{} has {}: {}", path.string(), counted(names.size(), std::string(suffix) + " file"),
              quoted_alternatives(std::span(names).first(std::min<size_t>(names.size(), 5)))),
          "name one of them");
  }
  return {};
}

}  // namespace flow::io
