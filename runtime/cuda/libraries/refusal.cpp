// Refusals in reports.
#include "runtime/cuda/libraries/refusal.h"

#include <fmt/format.h>

#include <utility>

namespace flow::cuda {
namespace {

constexpr std::string_view kRefusal = "refusal";

}  // namespace

void set_refusal(plan::Step& step, std::string reason) {
  step.attributes.set(kRefusal, std::move(reason));
}

std::string name_own_kernel(const plan::Step& step, std::string_view products) {
  std::string name = "flow kernel";
  if (!products.empty()) name += fmt::format(" with {}", products);
  if (step.attributes.has(kRefusal)) name += ": " + step.attributes.get<std::string>(kRefusal);
  return name;
}

}  // namespace flow::cuda
