// Fingerprints of several ranks, which are threads here.
#include "runtime/exec/ranks/rank_outputs.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "runtime/base/error.h"
#include "tests/support/thread_ranks.h"

namespace flow::exec {
namespace {

/// Of the part of tensor `at` that a rank has; every third tensor is another rank's.
Fingerprint part_of(int rank, size_t at) {
  if (at % 3 == static_cast<size_t>(rank % 3)) return {};
  const double value = static_cast<double>(at) + rank / 16.0;
  return {.count = rank + 1,
          .sum = value,
          .absolute = value,
          .square = value * value,
          .least = -value,
          .most = value,
          .not_finite = rank,
          .hash = at * 1000 + static_cast<uint64_t>(rank)};
}

std::vector<Fingerprint> parts_of(int rank, size_t tensors) {
  std::vector<Fingerprint> parts;
  for (size_t at = 0; at < tensors; ++at) parts.push_back(part_of(rank, at));
  return parts;
}

bool operator==(const Fingerprint& a, const Fingerprint& b) {
  return a.is_same(b) && a.sum == b.sum && a.absolute == b.absolute && a.square == b.square &&
         a.least == b.least && a.most == b.most && a.not_finite == b.not_finite;
}

}  // namespace

TEST_CASE("rank 0 gets the fingerprints of what all ranks have", "[exec]") {
  for (const int size : {1, 2, 5})
    for (const size_t tensors : {0, 1, 10000})  // 10,000: more than go at once
      ThreadRanks(size).run([&](Collectives& ranks) {
        RankFingerprints merged(ranks);
        for (int call = 0; call < 2; ++call) {
          std::vector<Fingerprint> own = parts_of(ranks.rank(), tensors);
          merged.merge(own);
          if (ranks.rank() > 0) continue;
          for (size_t at = 0; at < tensors; ++at) {
            Fingerprint expected;
            for (int rank = 0; rank < size; ++rank) expected.merge(part_of(rank, at));
            FLOW_CHECK(own[at] == expected, "tensor {}", at);
          }
        }
      });
}

}  // namespace flow::exec
