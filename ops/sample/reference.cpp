// Reference: sample, by sorting all tokens.
#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/sample/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// The places of the tokens that may be drawn, the likeliest first, and their weights.
template <typename T>
void keep_tokens(const T* logits, const Sampling& sampling, std::vector<int64_t>& places,
                 std::vector<uint64_t>& weights) {
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(
      places, [&](int64_t a, int64_t b) { return order_of(logits[a]) > order_of(logits[b]); });
  const auto n = static_cast<int64_t>(places.size());
  if (sampling.temperature == 0) places.resize(1);
  if (sampling.top_k > 0) places.resize(static_cast<size_t>(std::min(n, sampling.top_k)));
  weights.clear();
  for (const int64_t place : places)
    weights.push_back(weight_of(logits[place], logits[places[0]], sampling.temperature));
  if (sampling.top_p == 1) return;
  const uint64_t share =
      kept_weight(std::accumulate(weights.begin(), weights.end(), uint64_t{0}), sampling.top_p);
  size_t kept = 0;
  for (uint64_t sum = 0; sum < share; ++kept) sum += weights[kept];
  places.resize(kept);
  weights.resize(kept);
}

template <typename T>
int64_t draw(const std::vector<int64_t>& places, const std::vector<uint64_t>& weights, int64_t n,
             uint64_t drawn) {
  std::vector<uint64_t> by_place(static_cast<size_t>(n), 0);
  for (size_t i = 0; i < places.size(); ++i) by_place[static_cast<size_t>(places[i])] = weights[i];
  int64_t place = 0;
  for (uint64_t sum = by_place[0]; sum <= drawn;) sum += by_place[static_cast<size_t>(++place)];
  return place;
}

Kernel prepare_sample(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [sizes = sample_problem(request)](const Buffers& buffers,
                                                      const CallState& state) {
      for (int64_t row = 0; row < sizes.rows; ++row) {
        std::vector<int64_t> places(static_cast<size_t>(sizes.tokens));
        std::vector<uint64_t> weights;
        keep_tokens(input<T>(buffers, 0) + row * sizes.tokens, sizes.sampling, places, weights);
        int64_t place = places[0];
        if (sizes.sampling.temperature > 0) {
          const int64_t position =
              integer_at(sizes.position, buffers.inputs[1], sizes.position_at(row));
          const uint64_t all = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
          place = draw<T>(places, weights, sizes.tokens, sizes.draw(row, position, state, all));
        }
        output<int32_t>(buffers, 0)[row] = static_cast<int32_t>(place);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> sample() {
  static constexpr KernelEntry kKernels[] = {{"sample", prepare_sample}};
  return kKernels;
}

}  // namespace flow::cpu::reference
