// Child processes: how they are started, their pipes, their ends, and the ends of the processes
// that they started.
#include "runtime/io/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"

/// An alias of clone(). ThreadSanitizer treats clone() as a fork, after which no memory is shared.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);

namespace flow::io {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kAckDescriptor = 3;
/// How often the status of a process is checked while its pipe is awaited: a pipe can outlive its
/// process if another process has it open.
constexpr milliseconds kLook{100};
/// The most seconds that a killed process takes to end, unless it is blocked in the system.
constexpr double kGone = 1;

std::string error_text(int error) { return std::generic_category().message(error); }

struct Pipe {
  Descriptor read, write;
};

/// Creates a pipe. Both ends are closed by exec and differ from the descriptors that a child
/// receives.
Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw RunError(fmt::format("cannot create a pipe: {}", error_text(errno)));
  const Descriptor low_read(ends[0]), low_write(ends[1]);
  Pipe pipe{Descriptor(::fcntl(ends[0], F_DUPFD_CLOEXEC, kAckDescriptor + 1)),
            Descriptor(::fcntl(ends[1], F_DUPFD_CLOEXEC, kAckDescriptor + 1))};
  if (!pipe.read.is_open() || !pipe.write.is_open())
    throw RunError(fmt::format("cannot create a pipe: {}", error_text(errno)));
  return pipe;
}

void make_nonblocking(const Descriptor& end) {
  const int flags = ::fcntl(end.get(), F_GETFL);
  FLOW_CHECK(::fcntl(end.get(), F_SETFL, flags | O_NONBLOCK) == 0);
}

/// Makes this process the new parent of orphaned descendants, so that it learns when a process
/// group is empty.
void adopt_orphans() {
  static const int adopted = ::prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
  FLOW_CHECK(adopted == 0);
}

std::vector<std::string> environment_of(const ProcessOptions& options) {
  const std::map<std::string, std::string>& added = options.environment;
  std::vector<std::string> all;
  for (char** variable = environ; *variable; ++variable) {
    if (options.hides_launcher && is_of_launcher(*variable)) continue;
    const std::string text = *variable;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

/// Returns a hint such as "did you mean `python3`?" for a name that no folder of PATH contains.
/// Returns an empty string if no program has a similar name.
std::string hint_for_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  if (!path || name.find('/') != std::string::npos) return {};
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const std::string& folder : split(path, ':'))
    for (fs::directory_iterator at(folder, unreadable), end; at != end; at.increment(unreadable))
      names.push_back(at->path().filename().string());
  if (std::ranges::count(names, name) > 0) return {};  // something else is missing
  const auto near = suggest(name, names);
  return near.empty() ? "" : fmt::format("did you mean `{}`?", near.front());
}

/// The data that the child reads from the memory of the parent, in which it runs until the program
/// starts. The names of the descriptors state their numbers in the child; a negative descriptor is
/// not passed to the child.
struct Start {
  const ProcessOptions& options;
  int standard_input;  // must be above 3
  int third;           // becomes descriptor 3; must be above 3
  int watchdog;        // receives the child's process group before the program starts
  char* const* words = nullptr;
  char* const* environment = nullptr;
  sigset_t mask = {};  // signal mask of the program
  int error = 0;       // errno of the call that failed
};

/// Runs in the child and may only make system calls.
__attribute__((no_sanitize("address", "undefined", "thread"))) int become(void* given) {
  Start& start = *static_cast<Start*>(given);
  const ProcessOptions& options = start.options;
  ::setpgid(0, 0);
  const pid_t own = ::getpid();
  if (start.watchdog >= 0 && ::write(start.watchdog, &own, sizeof own) < 0) {
    // The watchdog was killed.
  }
  bool good = ::dup2(start.standard_input, STDIN_FILENO) >= 0;
  if (options.output_to_stderr) good = good && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  if (start.third >= 0) good = good && ::dup2(start.third, 3) >= 0;
  good = good && ::chdir(options.directory.c_str()) == 0;
  if (good) {
    ::closefrom(start.third >= 0 ? 4 : 3);
    // A handler of this process would run in the parent's memory, so it is removed. Signals that
    // the user ignores stay ignored.
    struct sigaction action {};
    for (int signal = 1; signal < NSIG; ++signal) {
      if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_DFL) continue;
      if (action.sa_handler == SIG_IGN && signal != SIGPIPE && signal != SIGXFSZ) continue;
      action.sa_handler = SIG_DFL;
      action.sa_flags = 0;
      ::sigaction(signal, &action, nullptr);
    }
    ::sigprocmask(SIG_SETMASK, &start.mask, nullptr);
    if (std::strchr(start.words[0], '/'))
      ::execve(start.words[0], start.words, start.environment);
    else
      ::execvpe(start.words[0], start.words, start.environment);
  }
  start.error = errno;
  const pid_t gone = -own;
  if (start.watchdog >= 0 && ::write(start.watchdog, &gone, sizeof gone) < 0) {
    // The watchdog was killed.
  }
  ::_exit(127);
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// Starts the program as leader of a new process group, without any other descriptor, and with
/// default signals. Returns its process id. Throws RunError if it cannot be started. REQUIRES:
/// SIGPIPE is ignored.
///
/// This works like posix_spawn, which cannot notify the watchdog before the program starts.
pid_t start_child(Start start) {
  std::vector<std::string> texts = start.options.words, variables = environment_of(start.options);
  const std::vector<char*> words = pointers_to(texts), environment = pointers_to(variables);
  start.words = words.data();
  start.environment = environment.data();
  // execvpe() copies the words onto this stack for a script whose first line does not name its
  // shell.
  const size_t size = (size_t{65536} + words.size() * sizeof(char*)) / 16 * 16;
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(size);

  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &start.mask);
  const pid_t pid = ::__clone(become, stack.get() + size, CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
  const int error = pid < 0 ? errno : start.error;
  ::pthread_sigmask(SIG_SETMASK, &start.mask, nullptr);
  if (error == 0) return pid;
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  throw RunError(fmt::format("cannot start in {}: {}", start.options.directory.string(),
                             std::generic_category().message(error)),
                 error == ENOENT ? hint_for_program(texts[0]) : "");
}

/// Returns the milliseconds to wait before the next check.
int next_look(const Deadline& deadline) {
  if (!deadline) return static_cast<int>(kLook.count());
  const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), kLook).count());
}

bool has_passed(const Deadline& deadline) { return deadline && Clock::now() >= *deadline; }

}  // namespace

Deadline deadline_in(std::optional<double> seconds) {
  if (!seconds) return {};
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
}

std::string ExitStatus::str() const {
  if (signal == 0) return fmt::format("exited with status {}", code);
  return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
}

Process::Process(const ProcessOptions& options)
    : stopping_(options.stopping), patience_(options.patience), watchdog_(options.watchdog) {
  adopt_orphans();
  Pipe input = make_pipe(), acknowledgements;
  make_nonblocking(input.write);  // The child's end stays blocking, as programs expect.
  if (options.acknowledges) acknowledgements = make_pipe();
  pid_ = start_child({.options = options,
                      .standard_input = input.read.get(),
                      .third = acknowledgements.write.get(),
                      .watchdog = watchdog_ ? watchdog_->door() : -1});
  input_ = std::move(input.write);
  acknowledgements_ = std::move(acknowledgements.read);
}

Process::~Process() {
  try {
    end();
  } catch (const RunError&) {
    // The process can no longer be observed, and no code needs its status.
  }
}

Deadline Process::limited(Deadline deadline) {
  if (stopping_ && stopping_() && !out_of_patience_) out_of_patience_ = deadline_in(patience_);
  if (!deadline || !out_of_patience_) return deadline ? deadline : out_of_patience_;
  return std::min(deadline, out_of_patience_);
}

Process::Reached Process::await(int descriptor, short events, Deadline deadline) {
  while (true) {
    pollfd watched{descriptor, events, 0};
    const Deadline until = limited(deadline);
    const int found = ::poll(&watched, 1, next_look(until));
    if (found < 0 && errno != EINTR)
      throw RunError(fmt::format("cannot wait for a pipe: {}", error_text(errno)));
    if (found > 0) return watched.revents & events ? Reached::kDone : Reached::kClosed;
    if (status()) return Reached::kClosed;
    if (has_passed(until)) return Reached::kTimeout;
  }
}

Process::Reached Process::write(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(input_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EPIPE) return Reached::kClosed;
    if (errno != EAGAIN)
      throw RunError(fmt::format("cannot write to a command: {}", error_text(errno)));
    if (const Reached free = await(input_.get(), POLLOUT, deadline); free != Reached::kDone)
      return free;
  }
  return Reached::kDone;
}

Process::Reached Process::write(std::string_view text, Deadline deadline) {
  return write(std::as_bytes(std::span(text)), deadline);
}

Process::Reached Process::await_newline(Deadline deadline) {
  while (newlines_ == 0) {
    if (const Reached there = await(acknowledgements_.get(), POLLIN, deadline);
        there != Reached::kDone)
      return there;
    char text[256];
    const ssize_t size = ::read(acknowledgements_.get(), text, sizeof text);
    if (size == 0) return Reached::kClosed;
    if (size < 0 && errno != EINTR)
      throw RunError(fmt::format("cannot read from a command: {}", error_text(errno)));
    if (size > 0) newlines_ += static_cast<size_t>(std::count(text, text + size, '\n'));
  }
  --newlines_;
  return Reached::kDone;
}

std::optional<ExitStatus> Process::look(int options) {
  if (status_) return status_;
  int raw = 0;
  pid_t found = 0;
  do found = ::waitpid(pid_, &raw, options);
  while (found < 0 && errno == EINTR);
  if (found < 0) throw RunError(fmt::format("cannot wait for a command: {}", error_text(errno)));
  if (found == 0) return {};
  status_ = WIFSIGNALED(raw) ? ExitStatus{0, WTERMSIG(raw)} : ExitStatus{WEXITSTATUS(raw), 0};
  return status_;
}

std::optional<ExitStatus> Process::status() { return look(WNOHANG); }

std::optional<ExitStatus> Process::wait(Deadline deadline) {
  if (!deadline && !stopping_) return look(0);
  // The system offers no wait for one process with a timeout. The process is therefore polled, at
  // intervals that grow with time.
  for (milliseconds pause{1}; !status() && !has_passed(limited(deadline));
       pause = std::min(2 * pause, kLook / 5))
    std::this_thread::sleep_for(pause);
  return status();
}

bool Process::group_has_ended() {
  if (group_ended_) return true;
  if (!status()) return false;
  while (::waitpid(-pid_, nullptr, WNOHANG) > 0) {
    // Reaps processes of the group that have become children of this process.
  }
  // A process that has not been reaped keeps its group number from being reused.
  if (::kill(-pid_, 0) == 0 || errno != ESRCH) return false;
  if (watchdog_) watchdog_->forget(pid_);
  return group_ended_ = true;
}

bool Process::await_group(Deadline deadline) {
  while (!group_has_ended() && !has_passed(deadline)) std::this_thread::sleep_for(milliseconds(2));
  return group_ended_;
}

void Process::ask_to_end() {
  if (group_has_ended() || asked_) return;
  ::kill(-pid_, SIGTERM);
  asked_ = deadline_in(kGrace);
}

void Process::end() {
  ask_to_end();
  if (await_group(asked_)) return;
  ::kill(-pid_, SIGKILL);
  look(0);
  await_group(deadline_in(kGone));
}

}  // namespace flow::io
