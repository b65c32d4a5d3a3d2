// Where two runs part, by the fingerprints of their tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/fingerprint.h"
#include "runtime/compare/run_plan.h"
#include "runtime/exec/core/fingerprints.h"

namespace flow::compare {

/// A run with fingerprints.
struct FingerprintedRun {
  fs::path path;
  RunPlan plan;
  std::optional<RunFacts> record;  // of one that was killed there is none
  exec::FingerprintReader file;
};
/// RequestError where it has no plan or no fingerprints, or these are damaged or of another plan. A
/// run that was killed may have lost the step that it wrote.
FingerprintedRun read_fingerprinted_run(const fs::path& run);

/// How far two fingerprints are apart: the largest of the differences of sums, norms and extremes,
/// relative to the size of the tensor; infinite where other elements are not finite.
double distance_between(const Fingerprint& a, const Fingerprint& b);

/// The first tensor that differs, of the first step.
struct Divergence {
  enum class Kind {
    kInput,     // what the step reads of data
    kVariable,  // a variable at the beginning of the step
    kComputed   // what a step of the plan writes
  };
  Kind kind = Kind::kComputed;
  int64_t step = 0;
  std::string tensor;
  std::string made_by, where;               // of the plan: the step, its line
  std::vector<std::string> agreeing;        // tensors that it was computed from: all agree
  std::vector<std::string> unknown;         // ... that have no fingerprint
  std::optional<int64_t> agreed_at;         // the step before it of which all is known to agree
  std::vector<std::string> also_differing;  // later tensors of the step
  Fingerprint golden, out;
  double distance = 0;
  double growth = 0;  // the largest distance before it, where distances are judged
};

struct DivergenceReport {
  size_t steps = 0, tensors = 0;  // compared
  int64_t first_step = 0, last_step = 0;
  bool by_distance = false;  // the runs are not meant to have the same bits
  std::string reason;        // ... why not
  double largest = 0;        // the largest distance of all
  std::optional<Divergence> first;
};

/// Compares tensors of the same name, in the order of golden's plan, in the steps that both runs
/// have; where only one plan has copies between devices, in the order of that plan, each copy with
/// what it copies. Bit for bit where both compute alike; else a tensor differs whose distance is a
/// jump: far above that of its inputs, of all tensors before it, and its own of the step before.
DivergenceReport find_divergence(const FingerprintedRun& golden, const FingerprintedRun& out);

}  // namespace flow::compare
