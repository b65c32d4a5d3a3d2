// Strict reading of JSON objects: every key asked for must be there with its type, and every key
// that is there must be asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/json.h"

namespace flow::plan {

/// One JSON object of the plan `file`, being read; `place` names it in messages ("job `train`").
/// All readers throw RequestError.
class Fields {
 public:
  Fields(const Json& object, std::string file, std::string place);

  const Json& at(const char* key);
  bool has(const char* key) const { return object_.contains(key); }
  int64_t integer(const char* key);
  uint64_t natural(const char* key);
  double number(const char* key);
  bool boolean(const char* key);
  std::string text(const char* key);
  std::vector<int64_t> integers(const char* key);
  std::vector<double> numbers(const char* key);
  std::vector<std::string> texts(const char* key);
  std::map<std::string, double> number_map(const char* key);
  const Json& list(const char* key);
  /// The object at `key`, or element `json`, as fields of its own.
  Fields object(const Json& json, const std::string& place) const { return {json, file_, place}; }
  /// Fails where a key was not asked for.
  void done() const;

  [[noreturn]] void fail(const std::string& what) const;
  const std::string& file() const { return file_; }
  const std::string& place() const { return place_; }

 private:
  const Json& object_;
  std::string file_, place_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace flow::plan
