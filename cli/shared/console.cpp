// Implements what all programs share at the terminal: messages, output, the signals that end the
// programs, and the directory for temporary files.
#include "cli/shared/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

constexpr const char* kOutputLost = "cannot write to standard output";

bool objects = false;                 // set by print_errors_as_json()
std::function<bool()> stops_waiting;  // set by stop_waiting_when()

constexpr const char* kReport =
    "this is a bug in flow; please report it with the job file and this message";

/// Opens closed standard streams on /dev/null. Otherwise a file that is opened later could take the
/// place of a standard stream and receive its output.
void open_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) std::abort();
}

/// Runs before all other code of the program, because the constructors of libraries also allocate
/// memory.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeAll)() = catch_last_bad_alloc;

/// Makes the run fail if a library calls exit() during the lifetime of this object. OpenMP does so
/// after it reports that it lacks memory or threads.
class NoExit {
 public:
  NoExit() {
    active = true;
    std::atexit([] {
      if (active) ::_exit(kRunFailed);
    });
  }
  ~NoExit() { active = false; }
  NoExit(const NoExit&) = delete;
  NoExit& operator=(const NoExit&) = delete;

 private:
  static inline std::atomic<bool> active = false;
};

/// The signal handler may access no other data.
std::atomic<int> requested = 0;

extern "C" void on_stop_request(int signal) { requested = signal; }

}  // namespace

bool is_screen(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) && term && std::string_view(term) != "dumb";
}

int screen_columns(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return size.ws_col;
}

int columns_of(std::FILE* stream) { return std::clamp(screen_columns(stream), 20, 100); }

bool wants_color(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");  // no-color.org: an empty value does not count
  return is_screen(stream) && !(no_color && *no_color) && !(objects && stream == stderr);
}

bool write_all(int descriptor, std::string_view text) {
  int idle = 0;  // tenths of a second without reading, after a stop was requested
  while (!text.empty()) {
    pollfd ready{descriptor, POLLOUT, 0};
    const int found = ::poll(&ready, 1, 100);
    if (found < 0 && errno != EINTR) return false;
    if (found <= 0) {
      if (!stops_waiting || !stops_waiting() || ++idle < 20) continue;
      errno = EPIPE;
      return false;
    }
    idle = 0;
    // A pipe that is ready accepts this many bytes without blocking.
    const ssize_t written =
        ::write(descriptor, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR && errno != EAGAIN)
      return false;
  }
  return true;
}

void stop_waiting_when(std::function<bool()> stopping) { stops_waiting = std::move(stopping); }

void print_to_stderr(std::string_view text) { print_painted_to_stderr(escaped_lines(text)); }

void print_painted_to_stderr(std::string_view text) { write_all(STDERR_FILENO, text); }

void print_in_handler(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void print(std::string_view text) { print_painted(escaped_lines(text)); }

void print_painted(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text) && errno != EPIPE) throw RunError(kOutputLost);
}

void print_folded(std::string_view text) {
  print(folded(text, static_cast<size_t>(columns_of(stdout))));
}

std::string json_line(const OrderedJson& object) {
  return escaped(object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)) + '\n';
}

void print_fitted(std::string_view text) {
  const auto columns = static_cast<size_t>(std::max(20, screen_columns(stdout)));
  print(isatty(STDOUT_FILENO) ? folded(text, columns) : std::string(text));
}

void print_object(const OrderedJson& line) { print_painted_to_stderr(json_line(line)); }

void print_error(const char* program, const std::string& message, const std::string& hint) {
  if (objects) {
    OrderedJson line{{"event", "error"}, {"text", message}};
    if (!hint.empty()) line["hint"] = hint;
    return print_object(line);
  }
  const bool color = wants_color(stderr);
  print_painted_to_stderr(fmt::format("{}: {}error:{} {}\n", program, color ? "\033[1;31m" : "",
                                      color ? "\033[0m" : "", escaped_message(message)));
  if (!hint.empty()) print_to_stderr(fmt::format("   hint: {}\n", escaped_message(hint)));
}

Layout message_layout() { return {wants_color(stderr), columns_of(stderr), objects}; }

void print_messages(const std::string& file, const std::string& messages, size_t errors,
                    const std::vector<OrderedJson>& as_objects) {
  if (!objects) {
    print_painted_to_stderr(messages);
    if (errors > 0)
      print_to_stderr(fmt::format("{}: {}\n", escaped(file), counted(errors, "error")));
  } else if (!messages.empty()) {
    print_object({{"event", errors > 0 ? "error" : "warning"},
                  {"text", trimmed(messages)},
                  {"diagnostics", as_objects}});
  }
}

void print_errors_as_json() {
  objects = true;
  report_out_of_memory_as_object();
}

int guarded(const char* program, const std::function<int()>& body) {
  prepare_for_little_memory();
  open_standard_streams();
  const NoExit no_exit;
  std::signal(SIGXFSZ, SIG_IGN);  // makes a file beyond the size limit an error like a full disk
  std::signal(SIGPIPE, SIG_IGN);  // a reader may close the pipe early, which is not an error
  return reported(program, body);
}

int reported(const char* program, const std::function<int()>& body) {
  try {
    return body();
  } catch (const RunError& error) {
    print_error(program, error.what(), error.hint());
    return error.exit_status();
  } catch (const Defect& defect) {
    print_error(program, defect.what(), kReport);
  } catch (const fs::filesystem_error& error) {
    print_error(program,
                fmt::format("cannot access {}: {}", error.path1().string(), error.code().message()),
                "");
    return kRunFailed;
  } catch (const std::bad_alloc&) {
    report_out_of_memory();
    return kRunFailed;
  } catch (const std::system_error& error) {
    print_error(program, error.what(), "");  // for example, if no thread can be created
    return kRunFailed;
  } catch (const std::exception& error) {
    print_error(program, fmt::format("unexpected error: {}", error.what()), kReport);
  }
  return kDefect;
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

fs::path running_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

fs::path installed_jobs() {
  std::error_code error;
  const fs::path program = running_program();
  if (program.empty()) return {};
  fs::path jobs = program.parent_path().parent_path() / "share/flow/jobs";
  return fs::is_directory(jobs, error) ? jobs : fs::path();
}

WorkDirectory::WorkDirectory(const std::string& program) {
  std::error_code unknown;
  const fs::path folder = fs::temp_directory_path(unknown);
  std::string pattern = ((unknown ? fs::path(P_tmpdir) : folder) / (program + "-XXXXXX")).string();
  if (!::mkdtemp(pattern.data())) throw cannot("create the directory", pattern, errno);
  path_ = pattern;
}

WorkDirectory::~WorkDirectory() { remove_tree(path_); }

void catch_stop_requests() {
  struct sigaction action {};
  action.sa_handler = on_stop_request;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  std::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would hide the exit statuses of children
}

bool is_stopping() { return requested != 0; }

void end_as_asked() {
  std::signal(requested, SIG_DFL);
  std::raise(requested);
}

}  // namespace flow::cli
