// The command of a run, and what runs were given differently.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/report/run_data.h"

namespace flow::cli::report {

/// "flowrun train lenet.yaml --set vars.lr=0.1 -o runs/a"; empty where run.json is missing.
std::string command_of(const RunData& run);

/// Something that differs between runs.
struct Setting {
  std::string name;                 // "vars.lr", "device"
  std::vector<std::string> values;  // by run; empty: the run was not given one
};

/// At most 12.
std::vector<Setting> differing_settings(const std::vector<RunData>& runs);

}  // namespace flow::cli::report
