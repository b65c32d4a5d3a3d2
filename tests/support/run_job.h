// One call of a job, on the CPU backend or another: arrays in, arrays out.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::test {

using Arrays = std::map<std::string, Array>;  // by tensor name

struct RunJob {
  int threads = 1;
  std::span<const cpu::KernelEntry> kernels = {};  // empty: the backend's choice
  int calls = 1;
  double learning_rate = 0.1;
  exec::Backend* backend = nullptr;    // another than a CPU's
  exec::Collectives* ranks = nullptr;  // that share the job's shards
  bool eager = false;
  int first = 0;  // step of the first call
};

/// The tensor of that name. FLOW_CHECKs that there is one.
plan::TensorId tensor(const plan::Job& job, const std::string& name);

/// Random values in [-1, 1) for float inputs and variables, in [0, 10) for integers; the same for
/// the same seed.
Arrays random_values(const plan::Job& job, uint64_t seed = 1);

/// Arrays are those of the whole batch. Runs `options.calls` calls on `values` (inputs and
/// variables) and returns the tensors `wanted` of the last one; a variable is read after it.
Arrays run(const plan::Job& job, const Arrays& values, const std::vector<std::string>& wanted,
           const RunJob& options = {});

inline std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// True when both hold the same arrays bit for bit.
bool same_bits(const Arrays& a, const Arrays& b);

/// The greatest difference of two float32 arrays, relative to the greatest magnitude in `b`.
double relative_difference(const Array& a, const Array& b);

}  // namespace flow::test
