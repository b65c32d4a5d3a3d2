// The parts that all programs share at the terminal: error messages, output, color, the location of
// the running program, temporary files, and the signals that end a program.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "runtime/base/file.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

/// Runs `body` and converts an exception to an exit status and a message on standard error:
/// "flowrun: error: ..." with its hint, or a request to report a bug. `program` is the name of the
/// program.
int guarded(const char* program, const std::function<int()>& body);
/// Does the same inside `guarded`, for code that runs after the message.
int reported(const char* program, const std::function<int()>& body);

/// Returns true if the stream is a terminal with a movable cursor. TERM must not be "dumb".
bool is_screen(std::FILE* stream);

/// Returns the number of columns of the terminal, or 100 if the stream is not a terminal.
int screen_columns(std::FILE* stream);
/// Returns the number of columns for text, from 20 to 100.
int columns_of(std::FILE* stream);

/// Returns true if output on this stream should have color. The stream must be a screen, NO_COLOR
/// must be unset and, on standard error, --json must be absent.
bool wants_color(std::FILE* stream);

/// Writes all of `text` and waits for the reader, even if the descriptor is non-blocking. Returns
/// false and sets errno on failure.
bool write_all(int descriptor, std::string_view text);
/// Once `stopping` returns true, a reader that is idle for two seconds counts as gone (EPIPE).
void stop_waiting_when(std::function<bool()> stopping);

/// Writes to standard error and escapes terminal control characters. Ignores failures, such as a
/// closed pipe.
void print_to_stderr(std::string_view text);
/// Writes the text to standard error without escaping. REQUIRES: text from users in it is escaped.
void print_painted_to_stderr(std::string_view text);

/// Writes the text to standard error. May be called in a signal handler.
void print_in_handler(std::string_view text);

/// Writes to standard output and escapes terminal control characters. Throws RunError on failure,
/// unless the reader closed the pipe.
void print(std::string_view text);
/// Writes the text to standard output without escaping. REQUIRES: text from users in it is escaped.
void print_painted(std::string_view text);
/// Writes like `print`, with long lines folded to the terminal's width, at most 100.
void print_folded(std::string_view text);
/// Writes like `print`, with long lines folded to the full width of the terminal. If standard
/// output is not a terminal, lines stay long.
void print_fitted(std::string_view text);

/// Returns the object as one line. Bytes that are not UTF-8 become U+FFFD.
std::string json_line(const OrderedJson& object);
/// Writes the object as one line to standard error.
void print_object(const OrderedJson& line);

/// Writes "PROGRAM: error: TEXT" and, if not empty, "hint: HINT" to standard error.
void print_error(const char* program, const std::string& message, const std::string& hint);
/// Returns the layout of messages on standard error.
Layout message_layout();
/// Writes the compiler's messages about `file`. `errors` is the number of errors among them.
void print_messages(const std::string& file, const std::string& messages, size_t errors,
                    const std::vector<OrderedJson>& as_objects = {});
/// Makes all later errors and compiler messages JSON objects, one per line, like everything else
/// that `flowrun --json` writes to standard error.
void print_errors_as_json();

/// Returns a text such as "12 s", "3 min 20 s" or "2 h 05 min".
std::string human_seconds(double seconds);

/// Returns the file of the running program, or an empty path if the system does not provide it.
fs::path running_program();

/// Returns PREFIX/share/flow/jobs of the running program, or an empty path if the program is not
/// installed.
fs::path installed_jobs();

/// A directory in the system's folder of temporary files. The destructor removes it.
class WorkDirectory {
 public:
  /// Creates the directory, whose name begins with `program`. Throws RunError on failure.
  explicit WorkDirectory(const std::string& program);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Catches SIGINT, SIGTERM and SIGHUP unless they are ignored. A signal interrupts a wait for a
/// child.
void catch_stop_requests();

/// Returns true if one of these signals has arrived.
bool is_stopping();

/// Ends the process with the signal, as its sender expects. REQUIRES: is_stopping().
void end_as_asked();

/// Thrown to leave the work of a command after is_stopping() becomes true.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace flow::cli
