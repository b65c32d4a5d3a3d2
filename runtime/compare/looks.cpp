// The best of all looks.
#include "runtime/compare/looks.h"

#include <algorithm>
#include <array>

#include "runtime/compare/look_search.h"

namespace flow::compare {
namespace {

constexpr int64_t kMostSearched = int64_t{1} << 22;
// Of a few elements, one number or one order explains much by chance; of fewer, nearly all.
constexpr size_t kFewElements = 8, kTooFewElements = 4;
constexpr double kLeastShare = 0.75, kLeastShareOfFew = 0.99;
// Shares that differ less are equal: rounding of the dtype blurs them.
constexpr double kEqualShares = 0.005;

}  // namespace

const char* name_of(LookKind kind) {
  static constexpr std::array kNames = {"one_element", "sign",        "rounding",     "stale",
                                        "tail_rows",   "one_channel", "offset",       "gain",
                                        "transposed",  "shifted",     "permuted_rows"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<Look> best_look(const ArrayView& golden, const ArrayView& out,
                              const LookContext& context) {
  if (out.shape.elements() > kMostSearched || out.shape.elements() < 2) return {};
  const LookInput input(golden, out, context);
  if (input.errors.total == 0) return {};
  Looks looks;
  if (golden.shape == out.shape) {
    find_places(input, looks);
    find_values(input, looks);
    find_stale(input, looks);
  }
  find_moves(input, looks);
  if (input.size() < kTooFewElements)
    std::erase_if(looks, [](const Look& look) {
      return look.kind != LookKind::kSign && look.kind != LookKind::kRounding;
    });
  const double least = input.size() < kFewElements ? kLeastShareOfFew : kLeastShare;
  std::erase_if(looks, [&](const Look& look) { return look.share < least; });
  if (looks.empty()) return {};
  const double best = std::ranges::max_element(looks, {}, &Look::share)->share;
  std::erase_if(looks, [&](const Look& look) { return look.share < best - kEqualShares; });
  return *std::ranges::min_element(
      looks, {}, [](const Look& look) { return std::pair(look.kind, -look.share); });
}

}  // namespace flow::compare
