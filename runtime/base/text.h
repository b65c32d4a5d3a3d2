// Small texts: joining, suggestions, numbers as people read them and as printf formats write them.
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
/// Without spaces and line ends around it.
std::string trimmed(std::string_view text);

/// The first line of a text, cut off with "..." where it has more than 60 characters.
std::string shortened(std::string_view text);

bool same_but_for_case(std::string_view a, std::string_view b);

/// The candidates a typist may have meant, nearest first, at most three: a Damerau-Levenshtein
/// distance of at most a third of the word's length (at least 1), or the same word but for case.
std::vector<std::string> suggest(std::string_view word, std::span<const std::string> candidates);

/// "`a`, `b` or `c`"
std::string quoted_alternatives(std::span<const std::string> words);

/// Words as a person types them into a shell: those that need quotes have them.
std::string command_line(std::span<const std::string> words);

/// Lines of at most so many columns where words allow it: what is folded goes on below the line's
/// second column, which two blanks or more set off, or below its first.
std::string folded(std::string_view text, size_t columns);

/// Is it one or more of 0 to 9?
bool is_digits(std::string_view text);

/// "-12" as a number; nothing for other text, or more than 64 bits.
std::optional<int64_t> whole_number(std::string_view text);

/// "1 step", "3 steps"
std::string counted(uint64_t n, std::string_view noun);

/// Bytes in the largest binary unit that keeps three digits: "512 B", "1.5 MiB".
std::string human_bytes(uint64_t bytes);

/// A count with three digits and an SI prefix: "832", "1.66 M", "3.4 G".
std::string human_count(double count);

/// All digits of a count, in groups of three: "1,663,370".
std::string grouped_digits(uint64_t count);

/// Four digits: "0.2931", "1.2e-05"; "nan" without the sign that it may have.
std::string human_number(double value);

/// The shortest decimal text that reads back as the same double: "0.1", "1e-09", "nan", "inf".
std::string shortest(double value);

/// True when `format` is text with exactly one conversion of a double: "%.6g", "%6.2f %%". Formats
/// are untrusted text, so this is asked before printf sees them.
bool is_number_format(std::string_view format);

/// The number in that format. REQUIRES: is_number_format(format).
std::string format_number(const std::string& format, double value);

}  // namespace flow
