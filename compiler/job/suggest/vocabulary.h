// What PyTorch, Keras and Caffe call what a job file calls otherwise.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::job {

/// A word of another tool as the tables here have it: "nn.MaxPool2D" -> "maxpool2d".
std::string squeezed(std::string_view word);

/// The candidates that may have been meant by `word`: the one that other tools call so
/// ("nn.Linear": `dense`, "MaxPool2D": `max_pool2d`), else those that are spelt alike, nearest
/// first, at most three.
std::vector<std::string> meant_by(std::string_view word,
                                  const std::vector<std::string>& candidates);

/// A hint for a word that is `valid` but for its punctuation: typographic quotes and dashes, or a
/// comment without a space before it. Empty where neither explains the word.
std::string respelling_hint(std::string_view word,
                            const std::function<bool(const std::string&)>& valid);

/// What to do instead of a word of other tools that has no equal among the candidates; empty where
/// there is no advice.
std::string_view advice_on(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace flow::job
