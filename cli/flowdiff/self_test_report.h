// What `flowdiff --self-test` found, for programs.
#pragma once

#include <string>

#include "runtime/compare/self_test.h"

namespace flow::cli {

/// "up to 1 %" of sizes that are numbers, as smaller ones pass, too; "to float16"; "any".
std::string sizes_text(const compare::MissedFault& fault);

/// "66 of 80 faults found"
std::string self_test_summary(const compare::SelfTest& test);

std::string self_test_json(const std::string& golden, const compare::SelfTest& test);

/// A case an array. `strict`: it fails where a fault passes.
std::string self_test_junit(const compare::SelfTest& test, bool strict);

/// A summary and a table of at most 50 faults that pass.
std::string self_test_markdown(const compare::SelfTest& test);

}  // namespace flow::cli
