// Declares the translation of words of PyTorch, Keras and Caffe to words of job files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::job {

/// Returns a word of another tool as it appears in the tables, such as "maxpool2d" for
/// "nn.MaxPool2D".
std::string squeezed(std::string_view word);

/// Returns the candidates that `word` may mean. This is the candidate that other tools call by this
/// word ("nn.Linear": `dense`, "MaxPool2D": `max_pool2d`), or else up to three candidates with a
/// similar spelling, nearest first.
std::vector<std::string> meant_by(std::string_view word,
                                  const std::vector<std::string>& candidates);

/// Returns a hint for a word that is `valid` except for its punctuation: typographic quotes and
/// dashes, or a comment without a space before it. Returns an empty text for all other words.
std::string respelling_hint(std::string_view word,
                            const std::function<bool(const std::string&)>& valid);

/// Returns advice for a word of other tools that has no equivalent among the candidates, or an
/// empty text.
std::string_view advice_on(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace flow::job
