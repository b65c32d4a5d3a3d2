// Defects that are planted in a run, in this process alone, to see that a comparison finds them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::verify {

enum class DamageKind {
  kSlot,
  kStep,
  kDataPosition,
  kSeed,
  kMovingMean,
  kLossScale,
  kBit,
  kGradient,
  kWritten
};

struct DamageInfo {
  DamageKind kind;
  const char* name;  // "slot"
  const char* doc;   // what is done
};
/// The kinds that properties notice, in the order of the enum: all but kWritten, which fingerprints
/// show.
std::span<const DamageInfo> all_damages();

struct Damage {
  DamageKind kind = DamageKind::kBit;
  std::string job;   // that is damaged
  int64_t step = 0;  // the first call that it is in
  fs::path root;     // of the plan's paths: initial values may come from files
  // Of kWritten: a tensor that has a fingerprint, of which one bit is flipped in that step, after
  // it was written and before anything reads it.
  std::string tensor = {};
  uint64_t bit = 0;  // modulo those of the tensor
};

/// Programs of the job behave as the damage says; others are the backend's own. What a program did
/// is appended to `done`: "hidden/weight/m is back at its initial value". The data position, and
/// the seed of inputs and shuffles, are the input pipeline's: exec::Misreading.
std::unique_ptr<exec::Backend> damaged(std::unique_ptr<exec::Backend> backend, const Damage& damage,
                                       std::string& done);

}  // namespace flow::verify
