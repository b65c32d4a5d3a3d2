// Stores ids and widens their type if a larger id arrives.
#include "runtime/data/text/id_array.h"

#include <algorithm>
#include <limits>

namespace flow::data {

namespace {

/// Widens the ids to `T` if `largest` requires it, and their type is narrower.
template <typename From, typename T, typename Ids>
void widen(Ids& ids, int32_t largest) {
  const auto* const narrow = std::get_if<std::vector<From>>(&ids);
  if (narrow && largest > std::numeric_limits<From>::max())
    ids = std::vector<T>(narrow->begin(), narrow->end());
}

}  // namespace

void IdArray::append(std::span<const int32_t> ids) {
  if (ids.empty()) return;
  const int32_t largest = std::ranges::max(ids);
  widen<uint8_t, uint16_t>(ids_, largest);
  widen<uint16_t, int32_t>(ids_, largest);
  std::visit([&](auto& array) { array.insert(array.end(), ids.begin(), ids.end()); }, ids_);
}

size_t IdArray::size() const {
  return std::visit([](const auto& array) { return array.size(); }, ids_);
}

int32_t IdArray::operator[](size_t i) const {
  return std::visit([i](const auto& array) { return static_cast<int32_t>(array[i]); }, ids_);
}

void IdArray::copy(size_t first, std::span<int64_t> out) const {
  std::visit(
      [&](const auto& array) {
        std::ranges::copy(std::span(array).subspan(first, out.size()), out.begin());
      },
      ids_);
}

size_t IdArray::element_bytes() const {
  return std::visit([](const auto& array) { return sizeof(array[0]); }, ids_);
}

std::span<const std::byte> IdArray::bytes() const {
  return std::visit([](const auto& array) { return std::as_bytes(std::span(array)); }, ids_);
}

}  // namespace flow::data
