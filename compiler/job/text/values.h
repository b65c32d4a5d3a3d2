// Scalars read as what their key wants: the key types the text, not YAML's guess.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/text/reader.h"
#include "runtime/base/array.h"

namespace flow::job {

/// A finite number as the language writes them: "100", "-0.5", "1e-1", "1/10". Nothing for other
/// text ("010", "1_000", "0x10", "inf").
std::optional<double> parse_number(std::string_view text);
/// The same where it is whole and fits 64 bits: "100", "1e3", "10/2".
std::optional<int64_t> parse_integer(std::string_view text);
/// An integer within a longer text ("5..8", "0:0-3"), where `/` may mean something else: no
/// fraction.
std::optional<int64_t> parse_bound(std::string_view text);

/// A hint for a text that is not a number although it was meant as one ("1_000", "1./255"); else
/// empty.
std::string number_hint(const std::string& text);

/// The readers report one error at the node, which begins with `what` (the key), and return
/// nothing, where the text is not as expected.
std::optional<int64_t> read_integer(Reader& reader, const yaml::Node& node, std::string_view what,
                                    Bounds bounds = {});
std::optional<double> read_number(Reader& reader, const yaml::Node& node, std::string_view what,
                                  Bounds bounds = {}, std::string_view instead = {});
std::optional<bool> read_bool(Reader& reader, const yaml::Node& node, std::string_view what);
std::optional<std::string> read_text(Reader& reader, const yaml::Node& node, std::string_view what);
/// One of the words.
std::optional<std::string> read_choice(Reader& reader, const yaml::Node& node,
                                       std::string_view what,
                                       const std::vector<std::string_view>& choices);
std::vector<std::string_view> dtype_names();
std::optional<DType> read_dtype(Reader& reader, const yaml::Node& node, std::string_view what);
/// One integer or a list of them.
std::optional<std::vector<int64_t>> read_integers(Reader& reader, const yaml::Node& node,
                                                  std::string_view what, Bounds bounds = {});
std::optional<std::vector<double>> read_numbers(Reader& reader, const yaml::Node& node,
                                                std::string_view what, Bounds bounds = {});
/// A list of positive extents, of a size that can be counted.
std::optional<Shape> read_shape(Reader& reader, const yaml::Node& node, std::string_view what);

}  // namespace flow::job
