// What all programs share at the terminal: how failures are told, colour.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/plan/json.h"

namespace CLI {
class App;
}

namespace flow::cli {

/// Runs `body` and turns what it throws into a message on standard error and an exit status:
/// "flowrun: error: ..." with its hint, or a defect's "please report". `program` is its name.
int guarded(const char* program, const std::function<int()>& body);

/// Parses the command line; usage errors are told with the nearest flag and `--help`.
/// Returns -1 to go on, or the exit status to leave with (0 after --help and --version).
int parse(CLI::App& app, int argc, char** argv);

/// Names a program, gives it --version and the shape of its --help.
void dress(CLI::App& app, const std::string& name);

/// A terminal on which the cursor can be moved: TERM is not dumb.
bool is_screen(std::FILE* stream);

/// The columns of the terminal; 100 where it has more or is none, and never less than 20.
int columns_of(std::FILE* stream);

/// Is colour wanted on this stream? A screen for people, and NO_COLOR is unset.
bool wants_color(std::FILE* stream);

/// Writes all of `text`, waiting for who reads it, also where the descriptor is non-blocking;
/// false, and errno, where that cannot be.
bool write_all(int descriptor, std::string_view text);
/// Once `stopping` is true, who reads nothing for two seconds is taken to have gone (EPIPE).
void hurry_when(std::function<bool()> stopping);

/// Writes to standard error, with what a terminal would obey escaped. That nobody reads it any more
/// is no reason to fail.
void tell(std::string_view text);
/// The same as it is. REQUIRES: text of users in it is escaped.
void tell_painted(std::string_view text);

/// Writes to standard output, with what a terminal would obey escaped. RunError where that cannot
/// be, but for a reader that has seen enough.
void print(std::string_view text);
/// The same as it is. REQUIRES: text of users in it is escaped.
void print_painted(std::string_view text);
/// The same with long lines folded to the terminal's columns.
void print_folded(std::string_view text);

/// Writes an object to standard error, on a line of its own.
void tell_line(const OrderedJson& line);

/// Writes "PROGRAM: error: TEXT", and "hint: HINT" where there is one, to standard error.
void tell_error(const char* program, const std::string& message, const std::string& hint);
/// Writes what the compiler has to say of `file`; `errors`: how many of it are errors.
void tell_messages(const std::string& file, const std::string& messages, size_t errors);
/// From now on errors and the compiler's messages are objects, a line each, as all else is that
/// `flowrun --json` writes to standard error.
void tell_objects();

/// "12 s", "3 min 20 s", "2 h 05 min"
std::string human_seconds(double seconds);

}  // namespace flow::cli
