// A job as its author wrote it, with what each entry takes.
#pragma once

#include <span>
#include <string>

#include "compiler/ir/written_entry.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// A line for each input and entry, networks indented, and the job's totals below. `all`:
/// equal copies and networks are listed, too. `source`: the job file. Where `columns` are few,
/// the least important ones of the table are left out.
std::string show_job(const plan::Job& job, std::span<const WrittenEntry> written,
                     const std::string& source, bool all, int columns = 100);

}  // namespace flow::cli
