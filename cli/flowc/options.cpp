// What flowc's subcommands share.
#include "cli/flowc/options.h"

#include <fmt/format.h>

#include "cli/shared/console.h"
#include "compiler/job/suggest/vocabulary.h"
#include "runtime/base/folder.h"
#include "runtime/base/text.h"

namespace flow::cli {

CompileRequest request_of(const FlowcOptions& options) {
  CompileRequest request;
  request.file = options.file;
  request.sets = options.sets;
  if (!options.job.empty()) request.job = options.job;
  request.dump_after = options.dump_after;
  if (!options.device.empty()) {
    request.target.device =
        options.device == "gpu" ? plan::DeviceKind::kGpu : plan::DeviceKind::kCpu;
    request.target.forced = true;
  }
  return request;
}

void write_output(const FlowcOptions& options, const std::string& text, Output kind,
                  const std::vector<std::string>& sources) {
  if (options.output == "-") return print(text);
  std::error_code unknown;
  for (const std::string& source : sources)
    if (fs::equivalent(source, options.output, unknown))
      throw RequestError(fmt::format("-o {} would overwrite {}", options.output,
                                     source == options.file ? "the job file"
                                                            : "a file that the job file includes"),
                         "name another file with -o");
  check_output("-o", options.output, kind);
  write_text_atomically(options.output, text);
}

void check_new_file(const fs::path& path) {
  std::error_code unknown;
  if (fs::exists(fs::symlink_status(path, unknown)))
    throw RequestError(fmt::format("{} already exists", path.string()),
                       "write to another file with -o FILE");
  if (const fs::path folder = path.parent_path(); !folder.empty() && !fs::is_directory(folder))
    throw RequestError(fmt::format("no such directory: {}", folder.string()),
                       fmt::format("create it: {}", command_line(std::vector<std::string>{
                                                        "mkdir", "-p", folder.string()})));
}

void write_new_file(const fs::path& path, std::string_view bytes) {
  Replacement fresh(path);
  fresh.file().write(bytes);
  fresh.file().sync();
  fresh.commit();
  Folder(path.parent_path()).sync();
}

RequestError unknown_name(const std::string& what, const std::string& name,
                          const std::vector<std::string>& names, const std::string& otherwise) {
  if (const auto advice = job::advice_on(name, names); !advice.empty())
    return RequestError(what, std::string(advice));
  const std::vector<std::string> near = job::meant_by(name, names);
  return RequestError(what, near.empty() ? otherwise : fmt::format("did you mean `{}`?", near[0]));
}

}  // namespace flow::cli
