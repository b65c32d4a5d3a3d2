// Exchanges the identities and data files of ranks as JSON, and compares them.
#include "runtime/exec/ranks/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "flow_version.h"
#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/module.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankIdentity, host, build, version, cpu,
                                                instruction_set, device, cores, gpus)

namespace {

constexpr const char* kSameBuild = "install the same build of flow on all hosts";
constexpr const char* kSameMachine =
    "results would differ; start all ranks on hosts with the same CPU and GPU models";

/// A property that must be the same on all ranks.
struct SameText {
  const char* what;
  std::string RankIdentity::*text;
  const char* hint;
};
constexpr SameText kSameTexts[] = {
    {"version of flow", &RankIdentity::version, kSameBuild},
    {"build of flow", &RankIdentity::build, kSameBuild},
    {"CPU model", &RankIdentity::cpu, kSameMachine},
    {"instruction set", &RankIdentity::instruction_set, kSameMachine},
    {"device", &RankIdentity::device, kSameMachine}};

/// Returns the value in the first line of a file of proc(5) that begins with `name`, or "" if there
/// is none.
std::string proc_value(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const size_t value = line.find_first_not_of("\t :", name.size());
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

std::string identity_text(const RankIdentity& identity) {
  return Json(identity).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Parses an identity. Returns an empty one if another build wrote a different format, because that
/// rank is refused for its build.
RankIdentity read_identity(const std::string& written) {
  const Json json = Json::parse(written, nullptr, false);
  return json.is_object() ? json.get<RankIdentity>() : RankIdentity();
}

std::string rank_name(std::span<const RankIdentity> ranks, size_t rank) {
  return fmt::format("rank {} ({})", rank, ranks[rank].host);
}

/// Throws RequestError unless, for `rank` and each rank before it, both run on the same host if and
/// only if `ids` puts them on the same machine.
void require_same_place(std::span<const RankIdentity> ranks,
                        std::span<const plan::DeviceId> devices, size_t rank) {
  for (size_t before = 0; before < rank; ++before) {
    const bool machine = devices[before].machine == devices[rank].machine;
    if (machine == (ranks[before].host == ranks[rank].host)) continue;
    throw RequestError(
        fmt::format("`ids` puts {} and {} on {}, but they run on {}", rank_name(ranks, before),
                    rank_name(ranks, rank), machine ? "one machine" : "two machines",
                    machine ? "two hosts" : "one host"),
        "start as many ranks on each host as `ids` names GPUs of a machine, in its order");
  }
}

/// The files that a rank reads, by name: the identity and the path of each.
using ListedFiles = std::map<std::string, std::pair<std::string, std::string>>;

[[noreturn]] void refuse(const Ranks& ranks, const std::string& what,
                         const char* hint = "give all machines the same files") {
  if (!ranks.leads()) throw EndedByLeader();
  throw RequestError(what, hint);
}

void require_same_device_and_rows(const Ranks& ranks, const std::vector<Json>& said) {
  for (size_t rank = 1; rank < said.size(); ++rank) {
    const std::string name = ranks.name_of(static_cast<int>(rank));
    if (said[rank]["device"] != said[0]["device"])
      refuse(ranks,
             fmt::format("ranks differ in the device: {} has `{}`, {} has `{}`", name,
                         said[rank]["device"].get<std::string>(), ranks.name_of(0),
                         said[0]["device"].get<std::string>()),
             "results would differ; start all ranks on hosts with the same GPU model");
    if (said[rank]["rows"] != said[0]["rows"])
      refuse(ranks, fmt::format("{} has {} rows of data, {} has {}", name,
                                said[rank]["rows"].get<int64_t>(), ranks.name_of(0),
                                said[0]["rows"].get<int64_t>()));
  }
}

/// Returns the lowest rank that reads the same file as `rank`. Its digest applies to both.
size_t reader_of(const std::vector<ListedFiles>& files, const std::string& name, size_t rank) {
  const std::string& own = files[rank].at(name).first;
  for (size_t lower = 0; lower < rank && !own.empty(); ++lower) {
    const auto found = files[lower].find(name);
    if (found != files[lower].end() && found->second.first == own) return lower;
  }
  return rank;
}

/// Returns the ranks that hash the file of this name, or none if all ranks read the file of rank 0.
std::set<size_t> readers_of(const std::vector<ListedFiles>& files, const std::string& name) {
  std::set<size_t> readers;
  for (size_t rank = 0; rank < files.size(); ++rank)
    if (files[rank].contains(name)) readers.insert(reader_of(files, name, rank));
  return readers.size() > 1 ? readers : std::set<size_t>();
}

/// Returns the digests of the files that this rank must hash, by name.
std::string hash_listed(const std::vector<ListedFiles>& files, size_t rank, const DataPaths& data,
                        const DataFiles& known) {
  std::map<DataPath, std::string> done;  // several columns may be in the same files
  Json digests = Json::object();
  for (const auto& [name, source] : data) {
    if (!readers_of(files, name).contains(rank)) continue;
    std::string& digest = done[source];
    const auto before = known.find(name);
    if (digest.empty())
      digest = before != known.end() ? before->second.digest : hash_files(source).digest;
    digests[name] = digest;
  }
  return digests.dump();
}

/// Returns the digests of all ranks, on every rank. All ranks call it.
std::vector<Json> join_digests(const Ranks& ranks, const std::vector<ListedFiles>& files,
                               const DataPaths& paths, const DataFiles& known) {
  std::exception_ptr error;
  std::string mine;
  try {
    mine = hash_listed(files, static_cast<size_t>(ranks.rank()), paths, known);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  std::vector<Json> digests;
  for (const std::string& text : ranks.join(error, mine)) digests.push_back(Json::parse(text));
  return digests;
}

}  // namespace

RankIdentity identify(const std::string& instruction_set, const std::string& device,
                      const std::string& gpus) {
  return {.host = host_name(),
          .build = build_id(),
          .version = FLOW_VERSION,
          .cpu = proc_value("/proc/cpuinfo", "model name"),
          .instruction_set = instruction_set,
          .device = device,
          .cores = proc_value("/proc/self/status", "Cpus_allowed_list"),
          .gpus = gpus};
}

std::vector<RankIdentity> gather_identities(Collectives& collectives, const RankIdentity& mine) {
  std::vector<RankIdentity> all;
  for (const std::string& text : gather_texts(collectives, identity_text(mine)))
    all.push_back(read_identity(text));
  return all;
}

std::string device_model(const std::string& device) {
  static const std::regex index("cuda:[0-9]+");
  return std::regex_replace(device, index, "cuda");
}

void require_alike(std::span<const RankIdentity> ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank)
    for (const auto& [what, text, hint] : kSameTexts)
      if (device_model(ranks[rank].*text) != device_model(ranks[0].*text))
        throw RequestError(fmt::format("ranks differ in the {}: {} has `{}`, {} has `{}`", what,
                                       rank_name(ranks, rank), ranks[rank].*text,
                                       rank_name(ranks, 0), ranks[0].*text),
                           hint);
}

PlaceOnHost place_on_host(std::span<const RankIdentity> ranks, int rank) {
  PlaceOnHost place{0, 0};
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (ranks[other].host != ranks[static_cast<size_t>(rank)].host) continue;
    if (other < static_cast<size_t>(rank)) ++place.rank;
    ++place.ranks;
  }
  return place;
}

int gpu_of(std::span<const RankIdentity> ranks, int rank) {
  const RankIdentity& own = ranks[static_cast<size_t>(rank)];
  const auto shares = [&](const RankIdentity& other) {
    return other.host == own.host && other.gpus == own.gpus;
  };
  const auto sharing = static_cast<size_t>(std::ranges::count_if(ranks, shares));
  const size_t gpus = split(own.gpus, ',').size();
  if (sharing > gpus)
    throw RequestError(fmt::format("{} on {} have {}; each rank requires a GPU of its own",
                                   counted(sharing, "rank"), own.host, counted(gpus, "GPU")),
                       "start one rank a GPU, or use --device cpu");
  return static_cast<int>(std::ranges::count_if(ranks.first(static_cast<size_t>(rank)), shares));
}

int gpu_of(std::span<const RankIdentity> ranks, int rank, std::span<const plan::DeviceRange> ids) {
  if (ids.empty()) return gpu_of(ranks, rank);
  const std::vector<plan::DeviceId> devices = plan::devices_of(ids);
  if (devices.size() != ranks.size())
    throw RequestError(fmt::format("`ids` names {} for {}; each rank takes one",
                                   counted(devices.size(), "GPU"), counted(ranks.size(), "rank")),
                       fmt::format("start {}, or change `ids`", counted(devices.size(), "rank")));
  for (size_t other = 1; other < ranks.size(); ++other) require_same_place(ranks, devices, other);
  return static_cast<int>(devices[static_cast<size_t>(rank)].device);
}

int threads_here(std::span<const RankIdentity> ranks, int rank, int usable_cores) {
  const RankIdentity& own = ranks[static_cast<size_t>(rank)];
  const auto sharing = std::ranges::count_if(ranks, [&](const RankIdentity& other) {
    return other.host == own.host && other.cores == own.cores;
  });
  return std::max(1, usable_cores / static_cast<int>(sharing));
}

std::string describe_data(const std::string& device, const RunRequest& request,
                          const StepIndex& step_index) {
  ListedFiles files;
  for (const auto& [name, source] : data_paths(request)) {
    std::string identity;
    for (const fs::path& path : source.paths) identity += file_identity(path);
    files[name] = {identity, source.text()};
  }
  return Json{{"device", device_model(device)},
              {"rows", step_index.has_rows() ? step_index.rows() : 0},
              {"data", files}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

void require_same_data(const Ranks& ranks, const RunRequest& request,
                       const std::vector<std::string>& texts, const DataFiles& known) {
  std::vector<Json> said;
  std::vector<ListedFiles> files;
  for (const std::string& text : texts) {
    said.push_back(Json::parse(text));
    files.push_back(said.back()["data"].get<ListedFiles>());
  }
  require_same_device_and_rows(ranks, said);
  const auto all_read_one = [&](const auto& file) { return readers_of(files, file.first).empty(); };
  if (std::ranges::all_of(files[0], all_read_one)) return;
  const std::vector<Json> digests = join_digests(ranks, files, data_paths(request), known);
  for (size_t rank = 1; rank < digests.size(); ++rank)
    for (const auto& [name, digest] : digests[rank].items())
      if (digests[0].contains(name) && digests[0][name] != digest)
        refuse(ranks, fmt::format("{} differs between {} and {}", files[rank].at(name).second,
                                  ranks.name_of(static_cast<int>(rank)), ranks.name_of(0)));
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
