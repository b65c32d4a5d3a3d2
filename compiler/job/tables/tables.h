// The sections of a job file, and what `type:` picks in them. Optimizers and learning rates:
// optimizer_table.h.
#pragma once

#include <string>

#include "compiler/job/tables/keys.h"
#include "ops/core/spec.h"

namespace flow::job {

const Section& file_section();
const Section& check_section();
const Section& column_section();
const Section& network_section();
const Section& job_section();
const Section& input_section();
const Section& npy_section();  // {npy: PATH}, a source
const Section& returns_section();
/// The kinds of hooks, distinguished by their first keys.
const std::vector<Section>& hook_sections();
const Section& placement_section();
const Section& entry_placement_section();
const Section& run_section();
const Section& loop_section();
const Section& checkpoint_section();
const Section& keep_best_section();
const Section& early_stopping_section();
const Section& metrics_section();
const Section& name_rule_section();
const Section& sub_jobs_section();
const Section& every_section();
/// `every` of `checkpoint`.
const Section& checkpoint_every_section();
const Section& regularizer_section();
/// Keys of every call in a graph, besides `in`, operands and attributes.
const std::vector<KeyDef>& call_keys();
/// Keys for variables and training of a call. `op`: the called op; null: a network.
std::vector<KeyDef> training_keys(const ops::OpSpec* op);

/// What `variable_dtype:` may say.
const std::vector<std::string_view>& variable_dtypes();

const VariantKind& generators();
const VariantKind& metrics();
const VariantKind& sinks();
const VariantKind& initializers();

/// Operands, results and attributes of the op, and the keys of every entry that calls it.
std::string describe_call(const ops::OpSpec& op);

}  // namespace flow::job
