// Finds where two runs diverge, by the fingerprints of their tensors.
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
  std::optional<RunFacts> record;  // nothing for a run that was killed
  exec::FingerprintReader file;
};
/// Throws RequestError if the run has no plan or no fingerprints, or if these are damaged or belong
/// to another plan. A run that was killed may lack the step that it was writing.
FingerprintedRun read_fingerprinted_run(const fs::path& run);

/// Returns the distance between two fingerprints: the largest of the differences of sums, norms and
/// extremes, relative to the size of the tensor. The distance is infinite if different elements are
/// not finite.
double distance_between(const Fingerprint& a, const Fingerprint& b);

/// The first tensor that differs, in the first step in which one does.
struct Divergence {
  enum class Kind {
    kInput,     // a value that the step reads from data
    kVariable,  // a variable at the beginning of the step
    kComputed   // a result of a step of the plan
  };
  Kind kind = Kind::kComputed;
  int64_t step = 0;
  std::string tensor;
  std::string made_by, where;               // the step that computes the tensor, and its line
  std::vector<std::string> agreeing;        // operands of that step; all of them agree
  std::vector<std::string> unknown;         // operands without a fingerprint
  std::optional<int64_t> agreed_at;         // the last step before it in which all tensors agree
  std::vector<std::string> also_differing;  // tensors that differ later in the step
  Fingerprint golden, out;
  double distance = 0;
  double growth = 0;  // the largest distance before this tensor, if distances are judged
};

struct DivergenceReport {
  size_t steps = 0, tensors = 0;  // the number of steps and tensors that were compared
  int64_t first_step = 0, last_step = 0;
  bool by_distance = false;  // the runs are not expected to be bit-identical
  std::string reason;        // the reason why they are not
  double largest = 0;        // the largest of all distances
  std::optional<Divergence> first;
};

/// Compares tensors of the same name, in the steps that both runs have. The order is that of
/// golden's plan, or that of the other plan if only that one has copies between devices; each copy
/// is compared with the tensor that it copies. If both runs compute in the same way, tensors must
/// be bit-identical. Otherwise, a tensor differs if its distance is a jump: far above the distances
/// of its inputs, of all tensors before it, and of the same tensor in the previous step.
DivergenceReport find_divergence(const FingerprintedRun& golden, const FingerprintedRun& out);

}  // namespace flow::compare
