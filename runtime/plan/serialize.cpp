// The plan as text.
#include "runtime/plan/serialize.h"

#include <fmt/format.h>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/json/checksum.h"
#include "runtime/plan/json/json_reader.h"
#include "runtime/plan/json/json_text.h"
#include "runtime/plan/json/json_writer.h"

namespace flow::plan {
namespace {

using Remarks = JsonWriter::Remarks;

constexpr const char* kRecompile = "recompile the job file with flowc build";

/// Refuses other versions before anything else is expected of the text: all else may differ.
void check_version(const Json& json, const std::string& path) {
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (!json.is_object() || version == json.end() || !version->is_number_integer())
    throw RequestError(fmt::format("{}: not a plan: no `version`", path),
                       "build a plan with flowc build");
  if (*version != kVersion)
    throw RequestError(fmt::format("{}: unsupported plan version {}; expected {}", path,
                                   version->dump(), kVersion),
                       kRecompile);
}

}  // namespace

std::string hash(const Plan& plan) {
  return digest(JsonWriter(Remarks::kLeftOut).write(Document{{}, {}, plan}));
}

std::string to_json(const Plan& plan) {
  return with_checksum(
      JsonWriter(Remarks::kKept).write(Document{std::string(kNoChecksum), hash(plan), plan}));
}

Plan from_json(std::string_view text, const std::string& path) {
  const Json json = parse_json(text, path);
  check_version(json, path);
  if (!has_checksum(text))
    throw RequestError(fmt::format("{}: the plan was modified: its checksum does not match", path),
                       fmt::format("edit the job file, then {}", kRecompile));
  Document document;
  JsonReader(json, path).read(document);
  check(document.plan, path);
  if (const std::string found = hash(document.plan); found != document.hash)
    throw RequestError(
        fmt::format("{}: the hash of the plan is {}; the file says {}", path, found, document.hash),
        kRecompile);
  return std::move(document.plan);
}

}  // namespace flow::plan
