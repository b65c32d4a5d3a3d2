// Functions for small texts: joining, suggestions, and numbers as people read them and as printf
// formats write them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flow {

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
/// Returns the text without the spaces and line ends around it.
std::string trimmed(std::string_view text);

/// Returns the first line of a text, cut off with "..." if it has more than 60 characters.
std::string shortened(std::string_view text);

bool same_but_for_case(std::string_view a, std::string_view b);

/// Returns the candidates that the user may have meant, nearest first, at most three. These have a
/// Damerau-Levenshtein distance of at most a third of the word's length (at least 1), or differ
/// from the word only in case.
std::vector<std::string> suggest(std::string_view word, std::span<const std::string> candidates);

/// Returns the words as text: "`a`, `b` or `c`".
std::string quoted_alternatives(std::span<const std::string> words);

/// Returns words as a user would type them into a shell, with quotes around those that need them.
std::string command_line(std::span<const std::string> words);

/// Folds lines to at most `columns` columns if the words allow it. The continuation of a line is
/// aligned with its second column, which follows two or more blanks, or with its first column.
std::string folded(std::string_view text, size_t columns);

/// Returns true if the text is one or more digits 0 to 9.
bool is_digits(std::string_view text);

/// Returns the number of a text such as "-12", or nothing for other text and for numbers of more
/// than 64 bits.
std::optional<int64_t> whole_number(std::string_view text);

/// Returns a count and a noun: "1 step", "3 steps".
std::string counted(uint64_t n, std::string_view noun);

/// Returns a size in the largest binary unit that keeps three digits: "512 B", "1.5 MiB".
std::string human_bytes(uint64_t bytes);

/// Returns a count with three digits and an SI prefix: "832", "1.66 M", "3.4 G".
std::string human_count(double count);

/// Returns all digits of a count in groups of three: "1,663,370".
std::string grouped_digits(uint64_t count);

/// Returns a number with four digits: "0.2931", "1.2e-05". A NaN is "nan" even if its sign is set.
std::string human_number(double value);

/// Returns the shortest decimal text that reads back as the same double: "0.1", "1e-09", "nan",
/// "inf".
std::string shortest(double value);

/// Returns true if `format` is text with exactly one conversion of a double: "%.6g", "%6.2f %%".
/// Formats are untrusted text, so check them before printf receives them.
bool is_number_format(std::string_view format);

/// Returns the number in this format. REQUIRES: is_number_format(format).
std::string format_number(const std::string& format, double value);

}  // namespace flow
