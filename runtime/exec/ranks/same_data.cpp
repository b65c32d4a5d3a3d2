// How ranks describe their data to each other, and whether they can divide the shards.
#include "runtime/exec/ranks/same_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/content_digest.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

namespace {

/// By name, the file that a rank reads: its identity and its path.
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

/// The lowest rank that reads the same file as this one: its digest is that of both.
size_t reader_of(const std::vector<ListedFiles>& files, const std::string& name, size_t rank) {
  const std::string& own = files[rank].at(name).first;
  for (size_t lower = 0; lower < rank && !own.empty(); ++lower) {
    const auto found = files[lower].find(name);
    if (found != files[lower].end() && found->second.first == own) return lower;
  }
  return rank;
}

/// Which ranks hash the file of this name; none where all read the one of rank 0.
std::set<size_t> readers_of(const std::vector<ListedFiles>& files, const std::string& name) {
  std::set<size_t> readers;
  for (size_t rank = 0; rank < files.size(); ++rank)
    if (files[rank].contains(name)) readers.insert(reader_of(files, name, rank));
  return readers.size() > 1 ? readers : std::set<size_t>();
}

/// Digests of what this rank has to hash, by name.
std::string hash_files(const std::vector<ListedFiles>& files, size_t rank,
                       const std::map<std::string, fs::path>& paths, const DataFiles& known) {
  std::map<fs::path, std::string> done;  // several columns may be in one file
  Json digests = Json::object();
  for (const auto& [name, path] : paths) {
    if (!readers_of(files, name).contains(rank)) continue;
    std::string& digest = done[path];
    const auto before = known.find(name);
    if (digest.empty())
      digest = before != known.end() ? before->second.digest : digest_of_file(path);
    digests[name] = digest;
  }
  return digests.dump();
}

/// The same on all ranks, each of which gets the digests of all.
std::vector<Json> join_digests(const Ranks& ranks, const std::vector<ListedFiles>& files,
                               const std::map<std::string, fs::path>& paths,
                               const DataFiles& known) {
  std::exception_ptr error;
  std::string mine;
  try {
    mine = hash_files(files, static_cast<size_t>(ranks.rank()), paths, known);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  std::vector<Json> digests;
  for (const std::string& text : ranks.join(error, mine)) digests.push_back(Json::parse(text));
  return digests;
}

}  // namespace

std::string describe_data(const std::string& device, const RunRequest& request,
                          const StepIndex& step_index) {
  ListedFiles files;
  for (const auto& [name, path] : data_paths(request))
    files[name] = {file_identity(path), path.string()};
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
