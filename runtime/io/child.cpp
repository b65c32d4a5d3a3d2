// As posix_spawn does it, which has no room for a call of ours before the program starts.
#include "runtime/io/child.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/io/programs.h"

/// clone() by the name that ThreadSanitizer does not take for a fork, after which nothing is
/// shared.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);

namespace flow::io {

namespace {

/// What the child reads of the parent's memory, in which it runs until the program starts.
struct Start {
  const ChildOptions& options;
  char* const* words;
  char* const* environment;
  sigset_t mask;  // of the program
  int error = 0;  // of the call that failed
};

/// Runs in the child, and may only make system calls.
__attribute__((no_sanitize("address", "undefined", "thread"))) int become(void* given) {
  Start& start = *static_cast<Start*>(given);
  const ChildOptions& options = start.options;
  ::setpgid(0, 0);
  const pid_t own = ::getpid();
  if (options.keeper >= 0 && ::write(options.keeper, &own, sizeof own) < 0) {
    // The keeper was killed.
  }
  bool good = ::dup2(options.standard_input, STDIN_FILENO) >= 0;
  if (options.output_to_stderr) good = good && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0;
  if (options.third >= 0) good = good && ::dup2(options.third, 3) >= 0;
  good = good && ::chdir(options.directory.c_str()) == 0;
  if (good) {
    ::closefrom(options.third >= 0 ? 4 : 3);
    // A handler of ours would run in the parent's memory; what the user ignores stays ignored.
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
  if (options.keeper >= 0 && ::write(options.keeper, &gone, sizeof gone) < 0) {
    // The keeper was killed.
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

}  // namespace

pid_t start_child(ChildOptions options) {
  const std::vector<char*> words = pointers_to(options.words);
  const std::vector<char*> environment = pointers_to(options.environment);
  Start start{options, words.data(), environment.data(), {}};
  // execvpe() copies the words for a script without a first line that names its shell.
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
  throw RunError(fmt::format("cannot start in {}: {}", options.directory.string(),
                             std::generic_category().message(error)),
                 error == ENOENT ? hint_for_program(options.words[0]) : "");
}

}  // namespace flow::io
