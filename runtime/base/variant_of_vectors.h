// Makes variants of vectors of integers safe to copy. A header that declares such a variant
// includes this one first.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#ifdef __GLIBCXX__
// libstdc++ (at least up to version 12) assumes that a variant of these types always holds a value,
// even during a copy. If the copy fails to allocate memory, libstdc++ then destroys an object that
// does not exist.
template <>
struct std::__detail::__variant::_Never_valueless_alt<std::vector<int64_t>> : std::false_type {};
#endif
