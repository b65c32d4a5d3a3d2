// How ranks describe their data to each other, and whether they can divide the shards.
#include "runtime/exec/ranks/same_data.h"

#include <fmt/format.h>

#include <bit>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

std::string describe_data(const std::string& device, const DataFiles& files,
                          const StepIndex& step_index) {
  Json data = Json::object();
  for (const auto& [name, file] : files) data[name] = {file.digest, file.path.string()};
  return Json{{"device", device_model(device)},
              {"rows", step_index.has_rows() ? step_index.rows() : 0},
              {"data", data}}
      .dump();
}

void require_same_data(const Ranks& ranks, const std::vector<std::string>& texts) {
  const auto refuse = [&](const std::string& what,
                          const char* hint = "give all machines the same files") {
    if (!ranks.leads()) throw EndedByLeader();
    throw RequestError(what, hint);
  };
  const Json of_leader = Json::parse(texts[0]);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const Json data = Json::parse(texts[rank]);
    const std::string name = ranks.name_of(static_cast<int>(rank));
    if (data["device"] != of_leader["device"])
      refuse(fmt::format("ranks differ in the device: {} has `{}`, {} has `{}`", name,
                         data["device"].get<std::string>(), ranks.name_of(0),
                         of_leader["device"].get<std::string>()),
             "results would differ; start all ranks on hosts with the same GPU model");
    if (data["rows"] != of_leader["rows"])
      refuse(fmt::format("{} has {} rows of data, {} has {}", name, data["rows"].get<int64_t>(),
                         ranks.name_of(0), of_leader["rows"].get<int64_t>()));
    for (const auto& [key, file] : data["data"].items())
      if (of_leader["data"].contains(key) && of_leader["data"][key][0] != file[0])
        refuse(fmt::format("{} differs between {} and {}", file[1].get<std::string>(), name,
                           ranks.name_of(0)));
  }
}

void require_ranks_divide(int64_t ranks, const plan::Job& job) {
  const int64_t shards = plan::shards_of(job);
  if (shards % ranks == 0) return;
  const std::string fits =
      std::has_single_bit(static_cast<uint64_t>(ranks))
          ? fmt::format("add --set jobs.{}.shards={}", job.name, ranks)
          : fmt::format("use {} ranks", std::bit_floor(static_cast<uint64_t>(ranks)));
  throw RequestError(
      fmt::format("{}: job `{}` has {} for {} ranks; the number of ranks must "
                  "divide the number of shards",
                  job.where, job.name, counted(static_cast<uint64_t>(shards), "shard"), ranks),
      fits);
}

}  // namespace flow::exec
