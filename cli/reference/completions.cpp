// Writes completions for bash, zsh and fish. The name of a value in --help determines how it is
// completed. For names that depend on a file or come from a table of the compiler, the completions
// call `flowc complete`.
#include <fmt/format.h>

#include <algorithm>

#include "cli/reference/pages.h"
#include "cli/shared/reports.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

struct Rule {
  std::string_view command;  // empty for any command
  std::string_view name;     // the name of an argument or of an option's value
  std::string_view kind;
};
// The first matching rule applies.
constexpr Rule kRules[] = {
    {"flowdiff", "GOLDEN", "files"},
    {"flowdiff", "OUT", "files"},
    {"update", "GOLDEN", "folders"},
    {"update", "OUT", "folders"},
    {"names", "WEIGHTS", "files"},
    {"export", "CKPT", "files"},
    {"ops", "NAME", "ops"},
    {"init", "NAME", "templates"},
    {"init", "DATA", "files"},
    {"data", "DATASET", "none"},
    {"", "JOB", "jobs"},
    {"", "J", "jobs"},
    {"", "CODE", "codes"},
    {"", "TOPIC", "topics"},
    {"", "PASS", "passes"},
    {"", "PATH=YAML", "paths"},
    {"", "DIR", "folders"},
    {"", "TBDIR", "folders"},
    {"", "NAME=SPEC", "none"},
    {"", "NAME[:N]", "none"},
    {"", "NAME,...", "none"},
    {"", "KIND,...", "none"},
    {"", "GLOB", "none"},
    {"", "GLOB=R,A", "none"},
    {"", "TEXT", "none"},
    {"", "TOLERANCES", "files"},
    {"", "N", "none"},
    {"", "E", "none"},
    {"", "COLUMN", "none"},
    {"", "R", "none"},
    {"", "A", "none"},
};

/// Returns what completes a value on the command line. Shells themselves complete "files",
/// "folders", "job_files", "runs" (a folder or a file) and "none". All other results are kinds of
/// `flowc complete`.
std::string_view completed_by(const CommandInfo& command, const OptionInfo& option) {
  const std::string& name = option.is_argument() ? option.names[0] : option.value;
  // The two job files that `flowc diff` compares are called A and B.
  if (option.is_argument() && command.name != "flowdiff" && name.size() == 1) return "job_files";
  const auto rule = std::ranges::find_if(kRules, [&](const Rule& one) {
    return (one.command.empty() || one.command == command.name) && one.name == name;
  });
  if (rule != std::end(kRules)) return rule->kind;
  return option.is_argument() ? "job_files" : "files";
}

constexpr const char* kHead = "Written by flow_reference from the options of the programs.";

/// Returns the text in the single quotes of a shell.
std::string shell_quoted(std::string_view text) {
  return '\'' + replaced(text, {{'\'', "'\\''"}}) + '\'';
}

/// Returns the first clause of an option's text, which is short enough for a list of completions.
std::string brief(const std::string& doc) {
  return doc.substr(0, std::min(doc.find(';'), doc.size()));
}

std::vector<const OptionInfo*> arguments_of(const CommandInfo& command) {
  std::vector<const OptionInfo*> arguments;
  for (const OptionInfo& option : command.options)
    if (option.is_argument()) arguments.push_back(&option);
  return arguments;
}

// bash -----------------------------------------------------------------------------------------

constexpr const char* kBashHelpers = R"shell(
_flow_values() {  # KIND WORD
  local kind=$1 word=$2 file files=() IFS=$'\n'
  for file in "${COMP_WORDS[@]:1}"; do
    file=${file/#\~/$HOME}
    [[ -f $file ]] && files+=("$file")
  done
  case $kind in
    none) ;;
    files) compopt -o filenames; COMPREPLY=($(compgen -f -- "$word")) ;;
    folders) compopt -o filenames; COMPREPLY=($(compgen -d -- "$word")) ;;
    job_files)
      compopt -o filenames
      for file in yaml yml plan json; do COMPREPLY+=($(compgen -f -X "!*.$file" -- "$word")); done
      COMPREPLY+=($(compgen -d -- "$word")) ;;
    jobs)
      [[ ${#files[@]} -gt 0 ]] || files=($(compgen -f -X '!*.yaml'))
      COMPREPLY+=($(compgen -W "$(flowc complete jobs "${files[@]}" 2>/dev/null)" -- "$word")) ;;
    paths)
      compopt -o nospace
      COMPREPLY=($(flowc complete paths --word "$word" "${files[@]}" 2>/dev/null)) ;;
    *) COMPREPLY=($(compgen -W "$(flowc complete "$kind" 2>/dev/null)" -- "$word")) ;;
  esac
}
)shell";

std::string bash_action(const CommandInfo& command, const OptionInfo& option) {
  return option.choices.empty()
             ? fmt::format("_flow_values {} \"$cur\"", completed_by(command, option))
             : fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))",
                           shell_quoted(join(option.choices, " ")));
}

/// Returns the branches of `case` for the options of a command that take a value.
std::string bash_options(const CommandInfo& command, std::string_view prefix) {
  std::string text;
  for (const OptionInfo& option : command.options) {
    if (option.is_argument() || !option.takes_value()) continue;
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back(fmt::format("{}{}", prefix, name));
    text += fmt::format("    {}) {}; return ;;\n", join(names, "|"), bash_action(command, option));
  }
  return text;
}

std::string bash_flags(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const OptionInfo& option : command.options)
    if (!option.is_argument()) names.insert(names.end(), option.names.begin(), option.names.end());
  return join(names, " ");
}

/// Returns the branches of `case` for the arguments of a command. The last branch also covers all
/// further arguments.
std::string bash_arguments(const CommandInfo& command) {
  const std::vector<const OptionInfo*> arguments = arguments_of(command);
  std::string text;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const OptionInfo& argument = *arguments[i];
    std::string action = bash_action(command, argument);
    // The job is optional. If it is omitted, the file is in its place.
    if (completed_by(command, argument) == "jobs") action += "; _flow_values job_files \"$cur\"";
    text += fmt::format("        {}) {} ;;\n", i + 1 < arguments.size() ? std::to_string(i) : "*",
                        action);
  }
  return text.empty() ? "        *) ;;\n" : text;
}

/// Returns the branch of `case` for a command. `instead` lists words that may replace the first
/// argument.
std::string bash_command(const CommandInfo& command, const std::string& pattern,
                         const std::vector<std::string>& instead = {}) {
  const std::string words = instead.empty()
                                ? ""
                                : fmt::format(
                                      "      ((place == 0)) && COMPREPLY+=($(compgen -W {} -- "
                                      "\"$cur\"))\n",
                                      shell_quoted(join(instead, " ")));
  return fmt::format(
      "    {})\n      if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W {} -- \"$cur\"))\n"
      "        return\n      fi\n      case $place in\n{}      esac\n{}      ;;\n",
      pattern, shell_quoted(bash_flags(command)), bash_arguments(command), words);
}

/// Returns the code with which bash finds the command. If the program itself has arguments, its
/// first word is a command only if it is the name of one.
std::string bash_find_command(const CommandInfo& program,
                              const std::vector<std::string>& commands) {
  if (commands.empty()) return {};
  if (arguments_of(program).empty()) return "  ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}\n";
  return fmt::format(
      "  case ${{COMP_WORDS[1]}} in\n    {}) ((COMP_CWORD > 1)) && command=${{COMP_WORDS[1]}} ;;\n"
      "  esac\n",
      join(commands, "|"));
}

/// Adds the options of all commands that take a value. The shell needs them to count arguments.
void add_valued(const CommandInfo& command, std::vector<std::string>& names) {
  for (const OptionInfo& option : command.options)
    if (!option.is_argument() && option.takes_value())
      for (const std::string& name : option.names)
        if (std::ranges::count(names, name) == 0) names.push_back(name);
  for (const CommandInfo& inner : command.commands) add_valued(inner, names);
}

std::string bash(const CommandInfo& program) {
  std::vector<std::string> valued, commands;
  add_valued(program, valued);
  for (const CommandInfo& command : program.commands) commands.push_back(command.name);
  const bool has_commands = !commands.empty();
  std::string options, branches;
  for (const CommandInfo& command : program.commands) {
    options += bash_options(command, command.name + ":");
    branches += bash_command(command, command.name);
  }
  if (has_commands && arguments_of(program).empty())
    branches += fmt::format("    *) COMPREPLY=($(compgen -W {} -- \"$cur\")) ;;\n",
                            shell_quoted(join(commands, " ") + ' ' + bash_flags(program)));
  else
    branches += bash_command(program, "*", commands);
  options += bash_options(program, has_commands ? ":" : "*:");
  return fmt::format(
      "# bash completion of {0}. {1}\n{2}\n_{0}() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= place=0 "
      "i\n"
      "  COMPREPLY=()\n"
      "  # bash splits words at `=`.\n"
      "  [[ $cur == = ]] && cur=\n"
      "  if [[ $prev == = || ( -z $cur && ${{COMP_WORDS[COMP_CWORD]}} == = ) ]]; then\n"
      "    [[ $prev == = ]] && prev=${{COMP_WORDS[COMP_CWORD-2]}}\n"
      "    [[ $prev == -* ]] || return\n"
      "  fi\n"
      "{3}"
      "  for ((i = {4}; i < COMP_CWORD; ++i)); do\n"
      "    case ${{COMP_WORDS[i]}} in\n"
      "      {5}) ((++i)); [[ ${{COMP_WORDS[i]}} == = ]] && ((++i))\n"
      "        [[ ${{COMP_WORDS[i+1]}} == = ]] && ((i += 2)) ;;\n"
      "      =) ((++i)) ;;\n"
      "      -*) ;;\n"
      "      *) ((++place)) ;;\n"
      "    esac\n"
      "  done\n"
      "  case $command:$prev in\n{6}  esac\n"
      "  case $command in\n{7}  esac\n}}\n"
      "complete -F _{0} {0}\n",
      program.name, kHead, kBashHelpers, bash_find_command(program, commands),
      has_commands ? "${#command} ? 2 : 1" : "1", join(valued, "|"), options, branches);
}

// zsh ------------------------------------------------------------------------------------------

constexpr const char* kZshHelpers = R"shell(
_flow_values() {  # KIND
  local kind=$1 word
  local -a files names
  for word in ${words[2,-1]}; do
    word=${~word}
    [[ -f $word ]] && files+=($word)
  done
  case $kind in
    none) return 1 ;;
    files) _files ;;
    folders) _files -/ ;;
    job_files) _files -g '*.(yaml|yml|plan|json)(-.)' ;;
    jobs)
      (( $#files )) || files=(*.yaml(N))
      names=(${(f)"$(flowc complete jobs $files 2>/dev/null)"})
      compadd -a names ;;
    jobs_or_files) _alternative 'jobs:job: _flow_values jobs' 'files:job file: _flow_values job_files' ;;
    paths)
      names=(${(f)"$(flowc complete paths --word "$PREFIX" $files 2>/dev/null)"})
      compadd -S '' -a names ;;
    *)
      names=(${(f)"$(flowc complete $kind 2>/dev/null)"})
      compadd -a names ;;
  esac
}
)shell";

/// Escapes a text for a specification of _arguments.
std::string zsh_text(std::string_view text) {
  return replaced(text, {{'[', "\\["}, {']', "\\]"}, {':', "\\:"}, {'\\', "\\\\"}});
}

std::string zsh_action(const CommandInfo& command, const OptionInfo& option) {
  if (!option.choices.empty()) return fmt::format("({})", join(option.choices, " "));
  const std::string_view kind = completed_by(command, option);
  const bool optional_job = option.is_argument() && kind == "jobs";
  // Without the leading blank, _arguments would insert options of compadd before the kind.
  return fmt::format(" _flow_values {}", optional_job ? "jobs_or_files" : kind);
}

std::string zsh_option(const CommandInfo& command, const OptionInfo& option) {
  std::string spec = fmt::format("[{}]", zsh_text(brief(option.doc)));
  if (option.takes_value()) {
    const std::string value = option.value.empty() ? "value" : option.value;
    spec += fmt::format(":{}:{}", zsh_text(value), zsh_action(command, option));
  }
  std::string text;
  for (const std::string& name : option.names) {
    const std::string others = option.repeats ? "*" : fmt::format("({})", join(option.names, " "));
    text += fmt::format("    {} \\\n", shell_quoted(others + name + spec));
  }
  return text;
}

std::string zsh_arguments(const CommandInfo& command) {
  const std::vector<const OptionInfo*> arguments = arguments_of(command);
  std::string text = "  _arguments -s -S \\\n";
  for (const OptionInfo& option : command.options)
    if (!option.is_argument()) text += zsh_option(command, option);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool many = command.name == "check";
    text += fmt::format(
        "    {} \\\n",
        shell_quoted(fmt::format("{}:{}:{}", many ? "*" : std::to_string(i + 1),
                                 arguments[i]->names[0], zsh_action(command, *arguments[i]))));
  }
  return text.substr(0, text.size() - 3) + '\n';
}

/// Returns the completion of a program that itself has arguments. A command may replace the first
/// argument.
std::string zsh_program(const CommandInfo& program, const std::string& commands) {
  return fmt::format(
      "\n_{0}() {{\n  local -a commands=(\n{1}  )\n"
      "  if (( CURRENT > 2 && $+functions[_{0}_$words[2]] )); then\n"
      "    shift words\n    (( CURRENT-- ))\n    _{0}_$words[1]\n    return\n  fi\n"
      "  (( CURRENT == 2 )) && _describe command commands\n{2}}}\n\n_{0} \"$@\"\n",
      program.name, commands, zsh_arguments(program));
}

std::string zsh(const CommandInfo& program) {
  std::string text = fmt::format("#compdef {0}\n# zsh completion of {0}. {1}\n{2}", program.name,
                                 kHead, kZshHelpers);
  if (program.commands.empty())
    return text +
           fmt::format("\n_{0}() {{\n{1}}}\n\n_{0} \"$@\"\n", program.name, zsh_arguments(program));
  std::string commands, branches;
  for (const CommandInfo& command : program.commands) {
    commands +=
        fmt::format("    {}\n", shell_quoted(zsh_text(command.name) + ':' + brief(command.doc)));
    text +=
        fmt::format("\n_{}_{}() {{\n{}}}\n", program.name, command.name, zsh_arguments(command));
  }
  if (!arguments_of(program).empty()) return text + zsh_program(program, commands);
  return text + fmt::format(
                    "\n_{0}() {{\n  local state\n  local -a commands=(\n{1}  )\n"
                    "  _arguments -C '1:command:->command' '*::argument:->argument' && return\n"
                    "  case $state in\n"
                    "    command) _describe command commands ;;\n"
                    "    argument) (( $+functions[_{0}_$words[1]] )) && _{0}_$words[1] ;;\n"
                    "  esac\n}}\n\n_{0} \"$@\"\n",
                    program.name, commands);
}

// fish -----------------------------------------------------------------------------------------

constexpr const char* kFishHelpers = R"shell(
function __flow_values  # KIND
    set -l files
    for word in (commandline -opc)
        test -f "$word"; and set -a files $word
    end
    test (count $files) -eq 0; and test $argv[1] = jobs; and set files *.yaml
    flowc complete $argv[1] --word (commandline -ct | string collect --allow-empty) $files 2>/dev/null
end
)shell";

std::string fish_values(const CommandInfo& command, const OptionInfo& option) {
  if (!option.choices.empty())
    return fmt::format(" -x -a {}", shell_quoted(join(option.choices, " ")));
  const std::string_view kind = completed_by(command, option);
  if (kind == "none") return " -x";
  if (kind == "files") return " -r -F";
  if (kind == "folders") return " -x -a '(__fish_complete_directories)'";
  if (kind == "job_files") return " -k -x -a '(__fish_complete_suffix .yaml)'";
  return fmt::format(" -x -a '(__flow_values {})'", kind);
}

std::string fish_option(const std::string& start, const CommandInfo& command,
                        const OptionInfo& option) {
  std::string text = start;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_value()) text += fish_values(command, option);
  return text + " -d " + shell_quoted(brief(option.doc)) + '\n';
}

std::string fish_command(const std::string& start, const CommandInfo& command) {
  std::string text;
  for (const OptionInfo& option : command.options) {
    if (!option.is_argument()) {
      text += fish_option(start, command, option);
      continue;
    }
    std::string values = fish_values(command, option);
    if (const size_t exclusive = values.find(" -x"); exclusive != values.npos)
      values.replace(exclusive, 3, " -f");
    if (values != " -r -F") text += start + values + '\n';
  }
  return text;
}

std::string fish(const CommandInfo& program) {
  const std::string start = "complete -c " + program.name;
  std::string text =
      fmt::format("# fish completion of {}. {}\n{}\n", program.name, kHead, kFishHelpers);
  if (program.commands.empty()) return text + fish_command(start, program);
  if (arguments_of(program).empty()) {
    text += start + " -f\n";
    for (const OptionInfo& option : program.options) text += fish_option(start, program, option);
  } else {
    std::vector<std::string> names;
    for (const CommandInfo& command : program.commands) names.push_back(command.name);
    text += fish_command(
        fmt::format("{} -n 'not __fish_seen_subcommand_from {}'", start, join(names, " ")),
        program);
  }
  for (const CommandInfo& command : program.commands)
    text += fmt::format("{} -n __fish_use_subcommand -a {} -d {}\n", start, command.name,
                        shell_quoted(brief(command.doc)));
  for (const CommandInfo& command : program.commands)
    text += fish_command(fmt::format("{} -n '__fish_seen_subcommand_from {}'", start, command.name),
                         command);
  return text;
}

}  // namespace

std::vector<GeneratedFile> completions(std::span<const CommandInfo> programs) {
  std::vector<GeneratedFile> files;
  for (const CommandInfo& program : programs) {
    files.push_back({"bash/" + program.name, bash(program)});
    files.push_back({"zsh/_" + program.name, zsh(program)});
    files.push_back({"fish/" + program.name + ".fish", fish(program)});
  }
  return files;
}

}  // namespace flow::cli
