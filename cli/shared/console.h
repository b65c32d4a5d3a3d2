// What all programs share at the terminal: error messages, output, color; where the running program
// is installed and works, and which signals end it.
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

/// Runs `body` and turns what it throws into a message on standard error and an exit status:
/// "flowrun: error: ..." with its hint, or a defect's "please report". `program` is its name.
int guarded(const char* program, const std::function<int()>& body);
/// The same within `guarded`, for what comes after the message.
int reported(const char* program, const std::function<int()>& body);

/// Is the stream a terminal with a movable cursor? TERM must not be dumb.
bool is_screen(std::FILE* stream);

/// Columns of the terminal; 100 if the stream is not a terminal.
int screen_columns(std::FILE* stream);
/// The same for text: from 20 to 100.
int columns_of(std::FILE* stream);

/// Use color on this stream? It must be a screen, without NO_COLOR and, on standard error, --json.
bool wants_color(std::FILE* stream);

/// Writes all of `text` and waits for the reader, even if the descriptor is non-blocking. Returns
/// false and sets errno on failure.
bool write_all(int descriptor, std::string_view text);
/// Once `stopping` returns true, a reader that is idle for two seconds counts as gone (EPIPE).
void stop_waiting_when(std::function<bool()> stopping);

/// Writes to standard error and escapes terminal control characters. Ignores failures, such as a
/// closed pipe.
void print_to_stderr(std::string_view text);
/// The same as it is. REQUIRES: text of users in it is escaped.
void print_painted_to_stderr(std::string_view text);

/// The same of a signal handler.
void print_in_handler(std::string_view text);

/// Writes to standard output and escapes terminal control characters. RunError on failure, except
/// if the reader closed the pipe.
void print(std::string_view text);
/// The same as it is. REQUIRES: text of users in it is escaped.
void print_painted(std::string_view text);
/// The same, with long lines folded to the terminal's width, at most 100.
void print_folded(std::string_view text);
/// The same where standard output is a terminal, to its whole width; elsewhere lines stay long.
void print_fitted(std::string_view text);

/// An object on a line of its own. Bytes that are no UTF-8 become U+FFFD.
std::string json_line(const OrderedJson& object);
/// Writes it to standard error.
void print_object(const OrderedJson& line);

/// Writes "PROGRAM: error: TEXT" and, if not empty, "hint: HINT" to standard error.
void print_error(const char* program, const std::string& message, const std::string& hint);
/// How messages look on standard error.
Layout message_layout();
/// Writes the compiler's messages about `file`; `errors`: the number of errors among them.
void print_messages(const std::string& file, const std::string& messages, size_t errors,
                    const std::vector<OrderedJson>& as_objects = {});
/// From now on, errors and compiler messages are JSON objects, one per line, like everything else
/// that `flowrun --json` writes to standard error.
void print_errors_as_json();

/// "12 s", "3 min 20 s", "2 h 05 min"
std::string human_seconds(double seconds);

/// The file of the running program; empty where the system does not say.
fs::path running_program();

/// PREFIX/share/flow/jobs of the running program; empty where it is not installed.
fs::path installed_jobs();

/// A directory in the system's folder of temporary files, which is removed in the end.
class WorkDirectory {
 public:
  /// `program` begins its name. RunError when it cannot be made.
  explicit WorkDirectory(const std::string& program);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Catches SIGINT, SIGTERM and SIGHUP, unless they are ignored. A wait for a child is not
/// restarted.
void catch_stop_requests();

/// Has one of them come?
bool is_stopping();

/// Dies of the signal, as its sender expects. REQUIRES: is_stopping().
void end_as_asked();

/// Leaves what a command is doing once is_stopping() is true.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "stopped by a signal"; }
};

}  // namespace flow::cli
