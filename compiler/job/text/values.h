// Declares functions that read scalars as the type that their key requires. The key determines the
// type of the text; YAML's own type rules do not apply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/text/reader.h"
#include "runtime/base/array.h"

namespace flow::job {

/// Parses a finite number as the language writes it: "100", "-0.5", "1e-1", "1/10". Returns nothing
/// for any other text ("010", "1_000", "0x10", "inf").
std::optional<double> parse_number(std::string_view text);
/// Parses the same text as an integer. Returns nothing unless the number is whole and fits in 64
/// bits: "100", "1e3", "10/2".
std::optional<int64_t> parse_integer(std::string_view text);
/// Parses an integer within a longer text ("5..8", "0:0-3"). Fractions are not allowed, because `/`
/// may have another meaning there.
std::optional<int64_t> parse_bound(std::string_view text);

/// Returns a hint for a text that is not a number although it is meant as one ("1_000", "1./255").
/// Returns an empty text for any other text.
std::string number_hint(const std::string& text);

/// If the text is not as expected, each of these readers reports one error at the node, which
/// begins with `what` (the key), and returns nothing.
std::optional<int64_t> read_integer(Reader& reader, const yaml::Node& node, std::string_view what,
                                    Bounds bounds = {});
std::optional<double> read_number(Reader& reader, const yaml::Node& node, std::string_view what,
                                  Bounds bounds = {}, std::string_view instead = {});
std::optional<bool> read_bool(Reader& reader, const yaml::Node& node, std::string_view what);
std::optional<std::string> read_text(Reader& reader, const yaml::Node& node, std::string_view what);
/// Reads one of the words.
std::optional<std::string> read_choice(Reader& reader, const yaml::Node& node,
                                       std::string_view what,
                                       const std::vector<std::string_view>& choices);
std::vector<std::string_view> dtype_names();
std::optional<DType> read_dtype(Reader& reader, const yaml::Node& node, std::string_view what);
/// Read one number, or a list of numbers.
std::optional<std::vector<int64_t>> read_integers(Reader& reader, const yaml::Node& node,
                                                  std::string_view what, Bounds bounds = {});
std::optional<std::vector<double>> read_numbers(Reader& reader, const yaml::Node& node,
                                                std::string_view what, Bounds bounds = {});
/// Reads a list of positive extents whose product does not overflow.
std::optional<Shape> read_shape(Reader& reader, const yaml::Node& node, std::string_view what);

}  // namespace flow::job
