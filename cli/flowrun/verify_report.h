// What `flowrun verify` found, as text for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "runtime/verify/verify.h"

namespace flow::cli {

struct VerifyReport {
  std::string job, file;
  std::vector<verify::Result> results = {};
  std::vector<verify::Proof> proofs = {};
};

/// The title of the table, the lines of a property or a proof, and the last line, which sums up.
std::string title_of_results();
std::string lines_of(const verify::Result& result);
std::string title_of_proofs();
std::string lines_of(const verify::Proof& proof);
/// "10 properties: 7 hold, 1 measured, 2 n/a; damage: 7 of 8 noticed"
std::string summary_of(const VerifyReport& report);

/// One JSON object.
std::string verify_json(const VerifyReport& report);

/// A JUnit test suite, a case a property and a kind of damage. `strict`: unproved damage fails.
std::string verify_junit(const VerifyReport& report, bool strict);

/// 1 where a property differs or, with `strict`, damage is unproved; else 3 where a run failed.
int exit_status_of(const VerifyReport& report, bool strict);

}  // namespace flow::cli
