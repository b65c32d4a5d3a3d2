// The plan as text.
#include "runtime/plan/serialize.h"

#include <fmt/format.h>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/plan/check.h"
#include "runtime/plan/json_reader.h"
#include "runtime/plan/json_text.h"
#include "runtime/plan/json_writer.h"
#include "runtime/plan/seal.h"

namespace flow::plan {
namespace {

using Remarks = JsonWriter::Remarks;

constexpr const char* kRecompile = "compile the job file again: flowc build";

/// Refuses other versions before anything else is expected of the text: all else may differ.
void check_version(const Json& json, const std::string& path) {
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (!json.is_object() || version == json.end() || !version->is_number_integer())
    throw RequestError(fmt::format("{}: this is not a plan: it has no `version`", path),
                       "flowc build writes plans");
  if (*version != kVersion)
    throw RequestError(fmt::format("{}: the plan has version {}, this flow reads version {}", path,
                                   version->dump(), kVersion),
                       kRecompile);
}

}  // namespace

std::string hash(const Plan& plan) {
  return digest(JsonWriter(Remarks::kLeftOut).write(Document{{}, {}, plan}));
}

std::string to_json(const Plan& plan) {
  return seal(JsonWriter(Remarks::kKept).write(Document{std::string(kUnsealed), hash(plan), plan}));
}

Plan from_json(std::string_view text, const std::string& path) {
  const Json json = parse_json(text, path);
  check_version(json, path);
  if (!is_sealed(text))
    throw RequestError(
        fmt::format("{}: the plan was changed after it was written: its checksum does not fit",
                    path),
        fmt::format("change the job file and {}", kRecompile));
  Document document;
  JsonReader(json, path).read(document);
  check(document.plan, path);
  if (const std::string found = hash(document.plan); found != document.hash)
    throw RequestError(fmt::format("{}: the plan's hash is {}, but {} is written there", path,
                                   found, document.hash),
                       kRecompile);
  return std::move(document.plan);
}

}  // namespace flow::plan
