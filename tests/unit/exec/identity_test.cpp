// What ranks say of themselves, and which sets of ranks are refused.
#include "runtime/exec/ranks/identity.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/exec/core/module.h"

namespace flow::exec {
namespace {

/// Four ranks on two hosts.
std::vector<RankIdentity> four_ranks() {
  std::vector<RankIdentity> ranks(
      4, {"hosta", "b1", "0.2.0", "EPYC 7763", "avx2", "cuda:0 NVIDIA H100", "0-7"});
  ranks[2].host = ranks[3].host = "hostb";
  ranks[1].device = ranks[3].device = "cuda:1 NVIDIA H100";
  return ranks;
}

void check_refused(const std::vector<RankIdentity>& ranks, const std::string& message,
                   const std::string& hint) {
  try {
    require_alike(ranks);
    FAIL("not refused");
  } catch (const RequestError& error) {
    CHECK(error.what() == message);
    CHECK(error.hint() == hint);
  }
}

/// The only rank of its run: there is nothing to move.
class OnlyRank : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string library() const override { return "one rank"; }
  Operation exchange(const RankBlocks&, const RankBlocks&) override { return 0; }
  Operation gather(const RankBlocks&) override { return 0; }
  Operation gather_at(int, const RankBlocks&) override { return 0; }
  Operation broadcast(int, std::span<std::byte>) override { return 0; }
  bool test(Operation) override { return true; }
  void post(int, std::span<const std::byte>) override {}
  std::optional<RankMessage> poll() override { return {}; }
  void finish() override {}
};

TEST_CASE("a rank knows its build, its host and its cores", "[exec]") {
  const RankIdentity own = identify("avx2", "cpu");
  char host[256] = {};
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  CHECK(own.host == host);
  CHECK(own.build == build_id());
  CHECK_FALSE(own.version.empty());
  CHECK(own.instruction_set == "avx2");
  CHECK(own.device == "cpu");
  CHECK(own.cpu.find_first_of("\t:") == std::string::npos);
  REQUIRE_FALSE(own.cores.empty());
  CHECK(own.cores.find_first_not_of("0123456789,-") == std::string::npos);
}

TEST_CASE("identities reach other ranks as they are", "[exec]") {
  OnlyRank rank;
  const RankIdentity own{"h\"ost", "b1", "0.2.0", "a CPU", "avx2", "cpu", "0-1"};
  CHECK(gather_identities(rank, own) == std::vector{own});
}

TEST_CASE("ranks of one kind are accepted, whatever their GPU's number and their cores", "[exec]") {
  std::vector<RankIdentity> ranks = four_ranks();
  ranks[3].cores = "8-15";
  CHECK_NOTHROW(require_alike(ranks));
  CHECK_NOTHROW(require_alike({}));
}

TEST_CASE("the first rank that differs is named", "[exec]") {
  const std::string build = "install the same build of flow on all hosts";
  const std::string machine =
      "results would differ; start all ranks on hosts with the same CPU and GPU models";
  std::vector<RankIdentity> ranks = four_ranks();
  ranks[3].device = "cuda:1 NVIDIA A100";
  check_refused(ranks,
                "ranks differ in the device: rank 3 (hostb) has `cuda:1 NVIDIA A100`, "
                "rank 0 (hosta) has `cuda:0 NVIDIA H100`",
                machine);
  ranks[2].instruction_set = "avx512_core";
  check_refused(ranks,
                "ranks differ in the instruction set: rank 2 (hostb) has `avx512_core`, "
                "rank 0 (hosta) has `avx2`",
                machine);
  ranks[2].cpu = "EPYC 9654";
  check_refused(ranks,
                "ranks differ in the CPU model: rank 2 (hostb) has `EPYC 9654`, "
                "rank 0 (hosta) has `EPYC 7763`",
                machine);
  ranks[1].build = "b2";
  check_refused(ranks,
                "ranks differ in the build of flow: rank 1 (hosta) has `b2`, "
                "rank 0 (hosta) has `b1`",
                build);
  ranks[1].version = "0.3.0";
  check_refused(ranks,
                "ranks differ in the version of flow: rank 1 (hosta) has `0.3.0`, "
                "rank 0 (hosta) has `0.2.0`",
                build);
}

TEST_CASE("ranks are counted by host, in whatever order they are", "[exec]") {
  std::vector<RankIdentity> ranks = four_ranks();
  std::swap(ranks[1], ranks[2]);  // a, b, a, b
  const auto is = [&](int rank, int place) {
    const PlaceOnHost found = place_on_host(ranks, rank);
    return found.rank == place && found.ranks == 2;
  };
  CHECK(is(0, 0));
  CHECK(is(1, 0));
  CHECK(is(2, 1));
  CHECK(is(3, 1));
}

TEST_CASE("ranks of a host take a GPU each, in order", "[exec]") {
  std::vector<RankIdentity> ranks = four_ranks();
  for (RankIdentity& rank : ranks) rank.gpus = "GPU-1,GPU-2";
  for (const int rank : {0, 1, 2, 3}) CHECK(gpu_of(ranks, rank) == rank % 2);
  ranks[0].gpus = "GPU-1";  // given by the launcher
  ranks[1].gpus = "GPU-2";
  CHECK(gpu_of(ranks, 0) == 0);
  CHECK(gpu_of(ranks, 1) == 0);
  ranks[2].gpus = ranks[3].gpus = "GPU-3";
  try {
    gpu_of(ranks, 3);
    FAIL("not refused");
  } catch (const RequestError& error) {
    CHECK(error.what() ==
          std::string("2 ranks on hostb have 1 GPU; each rank requires a GPU of its own"));
  }
}

TEST_CASE("`ids` names the GPU of each rank, machine by machine", "[exec]") {
  const std::vector<RankIdentity> ranks = four_ranks();
  const std::vector<plan::DeviceRange> ids = {{5, 2, 3}, {0, 7, 7}, {0, 1, 1}};
  CHECK(gpu_of(ranks, 0, ids) == 2);
  CHECK(gpu_of(ranks, 1, ids) == 3);
  CHECK(gpu_of(ranks, 2, ids) == 7);
  CHECK(gpu_of(ranks, 3, ids) == 1);
  const auto refusal = [&](const std::vector<plan::DeviceRange>& other) {
    try {
      gpu_of(ranks, 0, other);
      return std::string("not refused");
    } catch (const RequestError& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal({{0, 0, 7}}) == "`ids` names 8 GPUs for 4 ranks; each rank takes one");
  CHECK(refusal({{0, 0, 3}}) ==
        "`ids` puts rank 0 (hosta) and rank 2 (hostb) on one machine, but they run on two hosts");
  CHECK(refusal({{0, 0, 0}, {1, 0, 0}, {2, 0, 1}}) ==
        "`ids` puts rank 0 (hosta) and rank 1 (hosta) on two machines, but they run on one host");
}

TEST_CASE("ranks share the cores that they may all run on", "[exec]") {
  std::vector<RankIdentity> ranks = four_ranks();
  CHECK(threads_here(ranks, 0, 8) == 4);
  CHECK(threads_here(ranks, 0, 7) == 3);
  CHECK(threads_here(ranks, 0, 1) == 1);
  ranks[1].cores = "8-15";  // bound by the launcher
  CHECK(threads_here(ranks, 0, 8) == 8);
  CHECK(threads_here(ranks, 1, 8) == 8);
  CHECK(threads_here(ranks, 2, 8) == 4);
}

}  // namespace
}  // namespace flow::exec
