// Forks processes for the runs of a job, and returns their results and errors through a pipe.
#include "runtime/verify/verify.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/exec/run/run.h"
#include "runtime/io/process.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::verify {
namespace {

RunError no_process() {
  return RunError(
      fmt::format("cannot start a process for a run: {}", std::generic_category().message(errno)),
      "end other processes, or raise the limit on processes");
}

/// Calls `work` and returns its result, or the error that it throws, as text. Strings from users
/// need not be UTF-8.
std::string report_of(const std::function<std::string()>& work) {
  OrderedJson report{{"status", 0}};
  try {
    report["result"] = work();
  } catch (const std::exception& error) {
    report["status"] = exit_status_of(error);
    report["error"] = error.what();
    if (const auto* known = dynamic_cast<const RunError*>(&error)) report["hint"] = known->hint();
  }
  return report.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

void write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;  // the waiting process no longer exists
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Runs the child process and never returns, because everything that this process inherited, such
/// as files to be removed, belongs to its parent.
[[noreturn]] void be_child(pid_t parent, int descriptor, const std::function<std::string()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  const Descriptor nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nowhere.get(), STDIN_FILENO);
  ::dup2(nowhere.get(), STDOUT_FILENO);
  write_whole(descriptor, report_of(work));
  ::_exit(0);
}

/// Kills the child if necessary, and waits for it, no matter how the scope is left.
class Reaper {
 public:
  explicit Reaper(pid_t child) : child_(child) {}
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;
  ~Reaper() {
    if (child_ < 0) return;
    ::kill(child_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    return status;
  }

 private:
  pid_t child_;
};

/// The milliseconds between checks whether the process should end. A signal may arrive just before
/// a wait, which it then does not interrupt.
constexpr int kLook = 200;

std::string read_until_closed(int descriptor, const std::function<bool()>& stopping) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd door{descriptor, POLLIN, 0};
    const int ready = ::poll(&door, 1, kLook);
    if (stopping && stopping()) throw Interrupted();
    if (ready <= 0) continue;
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
  }
}

exec::Misreading misreading_of(const Trial& trial) {
  if (trial.damage == DamageKind::kSeed) return {.seed = 1};
  if (trial.damage == DamageKind::kDataPosition) return {.steps = -1};
  return {};
}

exec::RunRequest request_of(const TrialOptions& options, const Trial& trial, const plan::Job& job) {
  exec::RunRequest request(trial.plan, job, options.root, options.directory / trial.folder);
  request.inputs = options.inputs;
  request.commands = options.commands;
  request.misread = misreading_of(trial);
  request.save = "none";
  request.steps = trial.steps;
  request.resume = trial.resume;
  request.threads = trial.threads;
  request.eager = trial.eager;
  if (trial.resume) return request;  // a resumed run loads its own checkpoint
  request.load = options.load;
  request.load_partial = options.load_partial;
  return request;
}

/// Runs in the child process. Returns a description of the run, except for its error.
std::string run_here(const TrialOptions& options, const Trial& trial) {
  const plan::Job& job = job_of(trial.plan, options.job);
  exec::RunRequest request = request_of(options, trial, job);
  make_folders(request.directory);
  std::optional<io::Watchdog> watchdog;
  if (options.commands && !plan::commands_of(trial.plan, job).empty()) watchdog.emplace();
  request.watchdog = watchdog ? &*watchdog : nullptr;
  request.out = stdout;  // the child's stdout is discarded
  request.progress = [&](const exec::Progress& at) {
    if (trial.killed_at && at.step >= *trial.killed_at) std::raise(SIGKILL);
  };
  std::string done;
  const Damage damage{trial.damage.value_or(DamageKind::kBit), options.job, trial.damaged_from,
                      options.root};
  auto backend = options.open(trial.plan, job);
  if (trial.damage) backend = damaged(std::move(backend), damage, done);
  const exec::RunOutcome outcome = exec::run(*backend, request);
  if (outcome.exit_status != kDone)
    throw RunError(outcome.error, outcome.hint, outcome.exit_status);
  return OrderedJson{{"steps", outcome.steps}, {"damaged", done}}.dump();
}

}  // namespace

ChildEnd run_in_child(const std::function<std::string()>& work,
                      const std::function<bool()>& stopping) {
  if (stopping && stopping()) throw Interrupted();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw no_process();
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw no_process();
  if (child == 0) be_child(parent, writing.get(), work);
  Reaper reaper(child);
  writing.close();
  const std::string text = read_until_closed(reading.get(), stopping);
  const int status = reaper.wait();
  const Json report = Json::parse(text, nullptr, false);
  if (report.is_object())
    return {report.at("status"), report.value("error", ""), report.value("hint", ""),
            report.value("result", ""), false};
  if (!WIFSIGNALED(status)) return {kDefect, "a run ended without a result", "", "", false};
  const int signal = WTERMSIG(status);
  return {kRunFailed,
          fmt::format("the process of a run was killed by signal {} ({})", signal,
                      ::sigdescr_np(signal) ? ::sigdescr_np(signal) : "unknown"),
          "", "", signal == SIGKILL};
}

TrialEnd run_trial(const TrialOptions& options, const Trial& trial) {
  const ChildEnd end = run_in_child([&] { return run_here(options, trial); }, options.stopping);
  TrialEnd result{end.status, end.error, end.hint, options.directory / trial.folder};
  if (trial.killed_at && end.killed) {
    result.status = kDone;
    result.killed = true;
  }
  if (const Json report = Json::parse(end.result, nullptr, false); report.is_object()) {
    result.steps = report.at("steps");
    result.damaged = report.at("damaged");
  }
  return result;
}

std::string on_device(const TrialOptions& options, const plan::Plan& plan,
                      const std::function<std::string(exec::Backend&, const plan::Job&)>& work) {
  const auto here = [&] {
    const plan::Job& job = job_of(plan, options.job);
    const auto backend = options.open(plan, job);
    return work(*backend, job);
  };
  ChildEnd end = run_in_child(here, options.stopping);
  if (end.status != kDone) throw RunError(end.error, end.hint, end.status);
  return std::move(end.result);
}

const plan::Job& job_of(const plan::Plan& plan, const std::string& name) {
  const auto job = std::ranges::find(plan.jobs, name, &plan::Job::name);
  FLOW_CHECK(job != plan.jobs.end());
  return *job;
}

plan::Job& job_of(plan::Plan& plan, const std::string& name) {
  return const_cast<plan::Job&>(job_of(std::as_const(plan), name));
}

}  // namespace flow::verify
