// Collectives as most callers want them: whole values, waited for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/exec/core/collectives.h"

namespace flow::exec {

/// Returns when the operation is complete. Spins for some microseconds, then yields, then sleeps
/// for longer and longer, up to a millisecond: ranks may share a core.
void wait(Collectives& collectives, Collectives::Operation operation);

/// The largest of what the ranks say.
uint8_t agree(Collectives& collectives, uint8_t mine);

/// The text of each rank, on every rank.
std::vector<std::string> gather_texts(Collectives& collectives, const std::string& mine);

/// The blocks of all ranks come to `root`, of any size.
void gather_at(Collectives& collectives, int root, const RankBlocks& blocks,
               size_t most = Collectives::kMostBytes);

/// The bytes of `root`, of any number. Every rank knows how many. `most` go in one operation.
void broadcast(Collectives& collectives, int root, std::span<std::byte> bytes,
               size_t most = Collectives::kMostBytes);

/// The text of `root`.
std::string broadcast_text(Collectives& collectives, int root, const std::string& text);

}  // namespace flow::exec
