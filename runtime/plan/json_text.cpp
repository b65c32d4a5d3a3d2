// JSON as text.
#include "runtime/plan/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::plan {

std::string json_number(double value) {
  if (!std::isfinite(value)) return fmt::format("{{\"float\":\"{}\"}}", shortest(value));
  std::string text = shortest(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string json_string(std::string_view text) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) return fmt::format("\"{}\"", text);
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    throw RequestError(fmt::format("`{}` is not UTF-8, which a plan cannot hold",
                                   Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)),
                       "rename the file or folder");
  }
}

namespace {

constexpr int kMaxDepth = 100;

/// Refuses, while a text is parsed, what the parser would let through.
class Watch {
 public:
  explicit Watch(const std::string& path) : path_(path) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth)
      throw RequestError(fmt::format("{}: nested more than {} levels deep", path_, kMaxDepth));
    if (event == Json::parse_event_t::object_start) objects_.emplace_back();
    if (event == Json::parse_event_t::object_end) objects_.pop_back();
    if (event == Json::parse_event_t::key) add_key(parsed.get_ref<const std::string&>());
    return true;
  }

 private:
  /// The keys of an object so far.
  struct Object {
    std::set<std::string, std::less<>> keys;
    std::string last;
  };

  void add_key(const std::string& key) {
    Object& object = objects_.back();
    if (!object.keys.insert(key).second) {
      std::string place;
      for (size_t i = 0; i + 1 < objects_.size(); ++i) place += objects_[i].last + ": ";
      throw RequestError(fmt::format("{}: {}the key `{}` stands twice", path_, place, key));
    }
    object.last = key;
  }

  const std::string& path_;
  std::vector<Object> objects_;  // outermost first
};

/// "3:17", of a byte of the text, both counted from 1.
std::string line_and_column(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const size_t line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
  const size_t begin = before.rfind('\n');
  return fmt::format("{}:{}", line, before.size() - (begin == before.npos ? 0 : begin + 1) + 1);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& path) {
  Watch watch(path);
  try {
    return Json::parse(text, std::ref(watch));
  } catch (const Json::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw RequestError(fmt::format("{}:{}: this is not JSON{}", path, line_and_column(text, byte),
                                   byte >= text.size() ? ": it ends too early" : ""));
  } catch (const Json::exception&) {
    throw RequestError(fmt::format("{}: a number is too large", path));
  }
}

}  // namespace flow::plan
