// Runs a job of a plan with fingerprints of every step, and flips one bit of a tensor between its
// writer and its first reader: damaged_run PLAN JOB DIR STEPS STEP TENSOR BIT. Prints what it did.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/multi_device/multi_device.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/plan/serialize.h"
#include "runtime/verify/verify.h"

using namespace flow;

int main(int argc, char** argv) try {
  if (argc != 8) return 2;
  const plan::Plan plan = plan::from_json(read_text(argv[1]), argv[1]);
  const fs::path root = fs::path(argv[1]).parent_path() / plan.root;
  const plan::Job& job = verify::job_of(plan, argv[2]);
  std::string done;
  const verify::Damage damage{.kind = verify::DamageKind::kWritten,
                              .job = job.name,
                              .step = std::atoll(argv[5]),
                              .root = root,
                              .tensor = argv[6],
                              .bit = std::strtoull(argv[7], nullptr, 10)};
  // A CPU takes the place of a GPU.
  auto own = plan::needs_two_devices(plan, job)
                 ? exec::make_multi_device_backend(cpu::make_backend(), cpu::make_backend())
                 : cpu::make_backend();
  const auto backend = verify::damaged(std::move(own), damage, done);
  exec::RunRequest request{.plan = plan, .job = job};
  request.root = root;
  request.directory = argv[3];
  request.steps = std::atoll(argv[4]);
  request.save = "none";
  request.out = stdout;
  request.fingerprints = exec::FingerprintOptions{};
  make_folders(request.directory);
  const exec::RunOutcome outcome = exec::run(*backend, request);
  std::puts(done.c_str());
  return outcome.exit_status;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
