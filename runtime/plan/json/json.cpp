// Writes and parses JSON text, and computes its checksum.
#include "runtime/plan/json/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "runtime/base/digest.h"
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
    throw RequestError(fmt::format("`{}` is not UTF-8; a plan requires UTF-8 names",
                                   Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)),
                       "rename the file or directory");
  }
}

namespace {

constexpr size_t kMaxDepth = 100;

/// Scans a text before it is parsed and refuses what the parser would accept. (A parser callback
/// could do this, but it makes the parser quadratic in the length of a list.)
class Watch : public nlohmann::json_sax<Json> {
 public:
  explicit Watch(const std::string& path) : path_(path) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    Open& object = open_.back();
    if (!object.keys.insert(key).second) refuse_duplicate(key);
    object.last = key;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) override {
    return false;  // the parser reports the place
  }

 private:
  /// An object or list, and the keys that have been read in it so far.
  struct Open {
    std::set<std::string> keys = {};
    std::string last = {};
  };

  bool open() {
    open_.emplace_back();
    if (open_.size() > kMaxDepth)
      throw RequestError(fmt::format("{}: nested more than {} levels deep", path_, kMaxDepth));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  [[noreturn]] void refuse_duplicate(const std::string& key) const {
    std::string place;
    for (size_t i = 0; i + 1 < open_.size(); ++i)
      if (!open_[i].last.empty()) place += shortened(open_[i].last) + ": ";
    throw RequestError(fmt::format("{}: {}duplicate key `{}`", path_, place, shortened(key)));
  }

  const std::string& path_;
  std::vector<Open> open_;  // outermost first
};

/// Returns the position of a byte of the text as line and column, both counted from 1: "3:17".
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
    Json::sax_parse(text, &watch);
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw RequestError(fmt::format("{}:{}: invalid JSON{}", path, line_and_column(text, byte),
                                   byte >= text.size() ? ": unexpected end of file" : ""));
  } catch (const Json::exception&) {
    throw RequestError(fmt::format("{}: a number is out of range", path));
  }
}

Json parse_foreign_json(std::string_view text, const std::string& path) {
  try {
    return parse_json(text, path);
  } catch (const RequestError& error) {
    throw RunError(error.what());
  }
}

namespace {

constexpr std::string_view kBefore = "\n  \"checksum\": \"";

/// Returns the offset of the first digit of the checksum, or nothing if the text has no checksum.
std::optional<size_t> digits_in(std::string_view text) {
  const size_t line = text.find(kBefore);
  if (line == text.npos || text.size() - line < kBefore.size() + kNoChecksum.size()) return {};
  return line + kBefore.size();
}

}  // namespace

std::string with_checksum(std::string text) {
  const auto at = digits_in(text);
  if (!at) return text;
  // The checksum is computed with the placeholder in its place. Every change of a single byte
  // changes it.
  text.replace(*at, kNoChecksum.size(), kNoChecksum);
  return text.replace(*at, kNoChecksum.size(), digest(text));
}

bool has_checksum(std::string_view text) {
  return digits_in(text) && with_checksum(std::string(text)) == text;
}

}  // namespace flow::plan
