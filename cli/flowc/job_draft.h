// The text of the job file that `flowc init --from` writes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flow::cli {

/// An input of the jobs, and the column of the same name that it reads.
struct DraftInput {
  std::string name;
  std::string row;    // the shape of a row as in "[$batch, 3]": ", 3", or empty for a scalar
  std::string dtype;  // "float32"
};

/// What a new job file says. Texts of YAML are complete lines with their indentation.
struct JobDraft {
  std::string file;     // of the job, as the user names it
  std::string data;     // the file or folder, as the user names it
  std::string dataset;  // name of the dataset
  std::string what;     // what is predicted: "price from the other columns of houses.csv"
  std::string target;   // name of the input and column that is predicted
  std::vector<std::string> classes;  // by id; empty for a number
  std::vector<std::string> notes;    // about the data
  std::vector<std::pair<std::string, std::string>> vars;
  std::vector<std::string> data_lines;
  std::vector<DraftInput> inputs;        // without the target
  std::vector<std::string> graph_lines;  // of the network, up to its last hidden layer
  bool is_scaled = false;  // the target is normalized with the variables `mean` and `std`
};

/// Returns the whole job file.
std::string text_of(const JobDraft& draft);

/// Returns a text as a YAML scalar, in quotes where it needs them.
std::string yaml_text(std::string_view text);

/// Returns "KEY: [a, b, c]", on several lines if it is long. Further lines are indented by
/// `indent` spaces.
std::string yaml_list(std::string_view key, const std::vector<std::string>& items, size_t indent);

/// Returns a name of the language for any text: "Sale Price ($)" becomes Sale_Price. The name is
/// different from those in `taken`, to which it is added.
std::string draft_name(std::string_view text, std::set<std::string>& taken);

}  // namespace flow::cli
