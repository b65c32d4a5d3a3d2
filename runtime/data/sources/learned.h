// Values that a train job learns from its rows before the first step: means, standard deviations,
// replacements of missing values, categories and characters. A checkpoint keeps them, so that other
// jobs prepare their rows in the same way without the rows of the train job.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::data {

/// What one column has learned. A list that the column does not learn is absent.
struct LearnedColumn {
  std::optional<std::vector<double>> mean, std;  // one value, or one per leading channel
  std::optional<std::vector<double>> fill;       // replacements of missing values, before `scale`
  std::optional<std::vector<std::string>> categories;  // in the order of their ids

  bool operator==(const LearnedColumn&) const = default;
};

/// The learned columns by name: "houses.area".
using Learned = std::map<std::string, LearnedColumn, std::less<>>;

/// The name of the file of a checkpoint that keeps the learned values.
inline constexpr const char* kLearnedFile = "data.json";

/// Returns the values as JSON. Equal values give equal bytes, and numbers read back as the same
/// doubles.
std::string learned_text(const Learned& learned);

/// Reads such a text. Throws RequestError with `path` if it is not JSON of this form, or if a
/// number is not finite.
Learned parse_learned(std::string_view text, const std::string& path);

}  // namespace flow::data
