// The flags of flowc's subcommands: each function adds those of one, which fill `options`.
#pragma once

#include "cli/flowc/options.h"

namespace CLI {
class App;
}

namespace flow::cli {

void declare_check(CLI::App& app, FlowcOptions& options);
void declare_build(CLI::App& app, FlowcOptions& options);
void declare_show(CLI::App& app, FlowcOptions& options);
void declare_ops(CLI::App& app, FlowcOptions& options);
void declare_diff(CLI::App& app, FlowcOptions& options);
void declare_names(CLI::App& app, FlowcOptions& options);
void declare_export(CLI::App& app, FlowcOptions& options);
void declare_import(CLI::App& app, FlowcOptions& options);
void declare_init(CLI::App& app, FlowcOptions& options);
void declare_config(CLI::App& app, FlowcOptions& options);
void declare_report(CLI::App& app, FlowcOptions& options);
void declare_schema(CLI::App& app, FlowcOptions& options);
void declare_explain(CLI::App& app, FlowcOptions& options);
void declare_help(CLI::App& app, FlowcOptions& options);
void declare_complete(CLI::App& app, FlowcOptions& options);

}  // namespace flow::cli
