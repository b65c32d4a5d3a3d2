// flowrun runs a job of a job file or of a plan.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/flowrun/directory.h"
#include "cli/flowrun/flowrun.h"
#include "cli/flowrun/progress_bar.h"
#include "cli/flowrun/verify.h"
#include "cli/shared/command_line.h"
#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "compiler/compile.h"
#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/run/follower.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/run.h"
#include "runtime/exec/run/run_outputs.h"
#include "runtime/io/process.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli {
namespace {

/// The signal that requested a stop, and its time in seconds. The signal handler may access no
/// other data.
std::atomic<int> stop_signal = 0;
std::atomic<int64_t> stop_second = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t second_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/// Handles a stop signal. A second signal ends the program immediately, unless it arrives within a
/// second of the first: timeout(1) and other tools signal the program and then its process group.
extern "C" void on_stop_signal(int signal) {
  if (stop_signal && second_now() - stop_second > 1) {
    clear_bar_for_signal();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (stop_signal) return;
  stop_second = second_now();
  stop_signal = signal;
}

/// Catches the signals that stop a run. In a distributed run this includes SIGUSR1, because
/// launchers forward it without killing the ranks afterwards.
void catch_stop_signals(bool distributed) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = on_stop_signal;
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  std::vector<int> signals = {SIGINT, SIGTERM};
  if (distributed) signals.push_back(SIGUSR1);
  for (const int signal : signals) {
    sigaction(signal, &action, &before);
    // A shell makes its background processes ignore Ctrl-C, which stays in effect.
    if (before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
  }
  std::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would hide the exit statuses of commands
}

/// Raises the limit of open files as far as this program may, because each watched array needs one
/// or two.
void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  // A higher limit slows down programs that close all possible files one by one.
  constexpr rlim_t kEnough = 65536;
  files.rlim_cur = std::max(files.rlim_cur, std::min(files.rlim_max, kEnough));
  setrlimit(RLIMIT_NOFILE, &files);
}

const plan::Job& choose_job(const plan::Plan& plan, const RunOptions& options) {
  if (!options.job.empty()) return find_job(plan, options.job);
  if (plan.jobs.size() == 1) return plan.jobs.front();
  throw RequestError(
      fmt::format("{} has {} jobs: {}", options.file, plan.jobs.size(), job_names(plan)),
      fmt::format("name one: flowrun {} {}", plan.jobs.front().name, options.file));
}

/// Returns the command that starts the ranks of a distributed run.
std::vector<std::string> launcher_of(const RankSession* session) {
  return session ? session->command() : std::vector<std::string>();
}

int finish(const RunOptions& options, const plan::Job& job, const fs::path& directory,
           const exec::RunOutcome& outcome, RankSession* session) {
  if (!outcome.error.empty()) print_error("flowrun", outcome.error, outcome.hint);
  print_end(options, job, directory, outcome, launcher_of(session));
  // A shell loop stops only if its command died from the signal. In a distributed run, the launcher
  // would kill the other ranks.
  if (!session && stop_signal && outcome.stop == exec::Stop::kSignal) {
    std::signal(stop_signal, SIG_DFL);
    std::raise(stop_signal);
  }
  return outcome.exit_status;
}

/// Removes the default directory again if the run was refused and wrote nothing.
class DefaultDirectory {
 public:
  explicit DefaultDirectory(fs::path path) : path_(std::move(path)) {}
  DefaultDirectory(const DefaultDirectory&) = delete;
  DefaultDirectory& operator=(const DefaultDirectory&) = delete;
  ~DefaultDirectory() {
    if (!path_.empty()) remove_path(path_);  // removes only an empty directory
  }

 private:
  fs::path path_;
};

/// Checks that an earlier run's output can be removed: this run must be able to start, and must not
/// read that output.
void check_removal(exec::Backend& backend, const exec::RunRequest& request, const char* flag) {
  for (const fs::path& path : exec::paths_read(request))
    if (exec::is_written(path, request.directory))
      throw RequestError(
          fmt::format("{} would remove {}, which this run reads", flag, path.string()),
          "name another directory with -o DIR");
  // The run itself prints the messages and consults the other ranks.
  exec::RunRequest silent = request;
  silent.ranks = nullptr;
  silent.say = {};
  exec::dry_run(backend, silent);
}

/// Returns "4 ranks on 2 hosts" or "4 GPUs", or an empty string if a single process uses a single
/// device.
std::string ranks_text(const RankSession* session, const RunDevices& devices) {
  if (session) return session->text();
  return devices.gpus.size() > 1 ? counted(devices.gpus.size(), "GPU") : "";
}

/// Returns the number of threads. The ranks of a host share its cores.
int threads_of(const RunOptions& options, const RankSession* session) {
  return options.threads > 0 || !session ? options.threads : session->threads();
}

void check_flags(const RunOptions& options) {
  if (options.resume && options.force)
    throw RequestError("--resume continues the run that --force removes", "omit one of them");
  if (options.resume && !options.directory)
    throw RequestError("--resume requires the directory of the run", "name it with -o DIR");
  if (options.verify_data && !options.resume)
    throw RequestError("--verify-data requires --resume; a new run always reads all its data",
                       "omit --verify-data");
  if (options.fingerprint_size && options.fingerprint.empty())
    throw RequestError("--fingerprint-size requires --fingerprint",
                       "add --fingerprint, or omit it");
}

/// Rejects --load for a resumed run, which loads its own checkpoint. A command that is repeated to
/// resume a run must mean the same at every start.
void check_resumed_load(const exec::RunRequest& request) {
  if (request.resume && request.job.train &&
      (!request.load.empty() || request.ema || !request.load_partial.empty()))
    throw RequestError("--resume conflicts with --load: a resumed run loads its own checkpoint",
                       "omit one of them; `run: {checkpoint: {load: PATH}}` in the job file "
                       "applies only to a start from step 0");
}

/// Rejects --tune with ranks. Each rank would choose different algorithms, and several devices
/// would no longer compute the same result as one device.
void check_tuning(const exec::RunRequest& request) {
  if (request.tune && request.ranks)
    throw RequestError("--tune works on one device only", "omit --tune");
}

/// Keeps the algorithms with which a resumed run began, including timed ones if it used any.
void keep_algorithms(exec::RunRequest& request) {
  std::error_code unknown;
  const bool timed = fs::is_directory(request.directory / exec::kAlgorithmsFolder, unknown);
  if (request.tune && !timed)
    request.say("the run began without timed algorithms and continues without them");
  request.tune = timed;
}

/// Resumes the run, or starts it from step 0 and prints a message if the directory contains nothing
/// to resume.
exec::Resumable begin_resume(exec::RunRequest& request) {
  const exec::Resumable found = exec::find_resumable(request);
  request.resume = found == exec::Resumable::kCheckpoint;
  request.restarts = !request.resume;
  if (request.resume) {
    keep_algorithms(request);
    return found;
  }
  std::error_code ignored;
  const fs::path rescued = request.directory / exec::kRescued;
  request.say(
      fmt::format("nothing to resume in {}; starting from step 0{}", request.directory.string(),
                  fs::exists(rescued, ignored)
                      ? fmt::format("; {} keeps the state of the run that failed", rescued.string())
                      : ""));
  return found;
}

DirectoryLock resume_directory(exec::Backend& backend, exec::RunRequest& request) {
  DirectoryLock lock = lock_directory(request.directory);
  if (begin_resume(request) == exec::Resumable::kUnsaved)
    check_removal(backend, request, "--resume");
  if (!request.resume) remove_run(request.directory, true);
  return lock;
}

/// Reserves the request's directory for this run while the lock is held. The directory is that of
/// `-o`, or a new one.
DirectoryLock take_directory_of(const RunOptions& options, exec::Backend& backend,
                                exec::RunRequest& request) {
  if (!options.directory) {
    request.directory = make_default_directory(options.file, request.job.name);
    return DirectoryLock(request.directory);
  }
  if (options.resume) return resume_directory(backend, request);
  if (options.force && fs::exists(request.directory)) check_removal(backend, request, "--force");
  return take_directory(request.directory, options.force);
}

/// Rejects `flowrun verify FILE` if FILE has no job `verify`, because the user then meant the
/// command.
void check_command(const RunOptions& options) {
  std::error_code unknown;
  if (options.job != kVerifyCommand || !fs::is_regular_file(options.file, unknown)) return;
  const std::vector<std::string> jobs = jobs_in(options.file, read_text(options.file));
  if (jobs.empty() || std::ranges::count(jobs, kVerifyCommand) > 0) return;
  const std::vector<std::string> words = {"flowrun", "verify", jobs.front(), options.file};
  throw RequestError(fmt::format("missing JOB before {}", options.file),
                     fmt::format("write {}", command_line(words)));
}

/// Checks the file. A single word that is not a file may be the name of a job.
void check_file(const RunOptions& options) {
  check_command(options);
  const std::string& word = options.file;
  if (!options.job.empty() || word == "-" || fs::exists(word)) return;
  if (const std::string file = file_with_job(word); !file.empty())
    throw RequestError(
        fmt::format("missing FILE for job `{}`", word),
        fmt::format("write {}", command_line(std::vector<std::string>{"flowrun", word, file})));
}

/// Starts a thread for each further GPU of this process. The threads follow this one. Returns null
/// if there is only one GPU.
std::unique_ptr<exec::FollowerThreads> start_followers(const RunOptions& options,
                                                       const RunDevices& devices,
                                                       const exec::Gpu& gpu) {
  if (devices.gpus.size() < 2) return nullptr;
  const auto open = [devices, gpu](int rank, const plan::Plan&, const plan::Job&) {
    return devices.open(gpu, static_cast<size_t>(rank));
  };
  return std::make_unique<exec::FollowerThreads>(devices.names(), open,
                                                 exec::FollowOptions{options.threads, {}});
}

/// Returns the ranks with which the run shares its shards, or null.
exec::Ranks* ranks_of(RankSession* session, exec::FollowerThreads* followers) {
  if (session) return session->others();
  return followers ? &followers->leader() : nullptr;
}

int execute_distributed(const RunOptions& options, const std::string& what);

/// Runs the job. `session` belongs to a distributed run in which this process is rank 0, or is
/// null.
int execute(const RunOptions& options, RankSession* session) {
  check_file(options);
  const exec::Gpu gpu = find_gpu(options);
  const auto loaded = load(compile_request(options, gpu.found()));
  if (!loaded) return kRequestWrong;
  const plan::Plan& plan = loaded->plan;
  const plan::Job& job = choose_job(plan, options);
  if (!session && plan::machines_of(job.ids) > 1)
    return execute_distributed(
        options,
        fmt::format("{}: job `{}`, whose `ids` names several machines,", job.where, job.name));
  std::optional<io::Watchdog> watchdog;  // the watchdog is forked while this process is still small
  const bool commands = !options.no_commands && !options.dry_run;
  if (commands && !plan::commands_of(plan, job).empty()) watchdog.emplace();
  const RunDevices devices = choose_devices(*loaded, job, options, gpu, session);
  const auto backend = devices.open(gpu);
  const auto followers = start_followers(options, devices, gpu);

  ProgressBar bar(progress_style(options), job.name);
  const auto say = [&](const std::string& text) {
    if (!options.quiet) bar.write_above([&] { print_remark(options, text); });
  };
  const auto printed = output_beside(bar, [&] {
    if (!stop_signal) say("the reader closed standard output; the run continues without it");
  });
  exec::RunRequest request(plan, job, options.root.value_or(plan.root));
  static_cast<exec::RunFlags&>(request) = options;
  request.threads = threads_of(options, session);
  request.fuse = !options.no_fusion;
  request.overrides = overrides_of(options);
  request.out = printed.get();
  // Launchers connect the ranks to terminals that no user sees.
  request.print_steps = !session && isatty(STDOUT_FILENO) != 0;
  request.commands = !options.no_commands;
  request.progress = [&](const exec::Progress& at) { bar.show(at); };
  request.say = say;
  request.stop_signal = [] { return stop_signal.load(); };
  request.watchdog = watchdog ? &*watchdog : nullptr;
  request.ranks = ranks_of(session, followers.get());
  request.fingerprints = fingerprints_of(options);
  if (const std::string remark = session ? "" : remark_on_launcher(); !remark.empty()) say(remark);
  request.inputs = inputs_of(options);
  if (options.capture) request.capture = exec::parse_capture(*options.capture);
  check_flags(options);
  check_resumed_load(request);
  check_tuning(request);
  if (options.directory) request.directory = *options.directory;
  exec::require_utf8_paths(request);
  if (options.dry_run) {
    if (options.directory && !options.resume) check_directory(*options.directory, options.force);
    if (options.resume) begin_resume(request);
    print_memory(options, exec::dry_run(*backend, request));
    if (followers) followers->end();
    return kDone;
  }
  const DirectoryLock taken = take_directory_of(options, *backend, request);
  print_start(options, request, *backend, why_cpu(options, *loaded, job, gpu),
              ranks_text(session, devices));
  catch_stop_signals(session != nullptr);
  stop_waiting_when([] { return stop_signal != 0; });
  allow_many_files();
  const DefaultDirectory made(options.directory ? fs::path() : request.directory);
  bar.begin();
  const exec::RunOutcome outcome = exec::run(*backend, request);
  if (followers) followers->end();
  bar.clear();
  for (const exec::ProfileReport& profile : outcome.profiles) print_profile(options, plan, profile);
  return finish(options, job, request.directory, outcome, session);
}

/// Runs the part of every rank except rank 0.
int follow(const RunOptions& options, RankSession& session) {
  catch_stop_signals(true);
  const auto make = [&](const plan::Plan& plan, const plan::Job& job) {
    const exec::Gpu gpu = find_gpu(options);
    return choose_devices({plan}, job, options, gpu, &session).open(gpu);
  };
  return exec::follow(session.ranks(), make,
                      {threads_of(options, &session), [] { return stop_signal.load(); }});
}

/// Runs the job on all ranks. `what` names the setting that makes the run distributed.
int execute_distributed(const RunOptions& options, const std::string& what) {
  RankSession session(options, what);
  return session.ranks().leads() ? session.lead([&] { return execute(options, &session); })
                                 : session.follow([&] { return follow(options, session); });
}

int run(int argc, char** argv) {
  CLI::App app("Run a job from a job file, or from a plan that flowc built.", "flowrun");
  configure(app, "flowrun", version_report);
  RunOptions options;
  add_options(app, options);
  VerifyOptions verify;
  CLI::App* verifying = nullptr;
  const bool asked = asks_to_verify(app, argc, argv);
  if (asked || argc < 2 || argv[1] != kVerifyCommand) {
    verifying = declare_verify(app, verify);
    verifying->group("Commands");
  }
  // The parser would treat the name of a command as the required argument.
  if (asked) app.get_option("FILE")->required(false);
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  if (verifying && verifying->parsed()) return run_verify(verify);
  if (options.json) print_errors_as_json();
  if (options.distributed) return execute_distributed(options, "--distributed");
  return execute(options, nullptr);
}

}  // namespace
}  // namespace flow::cli

int main(int argc, char** argv) {
  return flow::cli::guarded("flowrun", [&] { return flow::cli::run(argc, argv); });
}
