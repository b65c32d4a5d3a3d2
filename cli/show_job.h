// A job as its author wrote it, with what each entry takes.
#pragma once

#include <span>
#include <string>

#include "compiler/written_entry.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// A line for each input and entry, networks indented, and the job's totals below. At most 100
/// columns. `all`: equal copies and networks are listed, too. `source`: the job file.
std::string show_job(const plan::Job& job, std::span<const WrittenEntry> written,
                     const std::string& source, bool all);

}  // namespace flow::cli
