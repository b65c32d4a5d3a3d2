// Pairs groups of arrays with groups of variables: first one with one, then several with one.
#include "runtime/exec/weights/name_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::exec {
namespace {

/// With more groups than this, finding pairs would take too long.
constexpr size_t kMostGroups = 300;

// Scores that are added to the number of words in common. Two groups that fit only each other are a
// pair regardless of their names.
constexpr double kOnlyPair = 100;
constexpr double kSameParents = 1.5;
constexpr double kReshaped = -2;

/// The conversion of an array to a variable.
struct Way {
  std::vector<int64_t> perm = {};
  bool reshape = false;
};

/// The permutations to try: a transposed matrix, and a convolution filter in TensorFlow's order.
const std::array<std::vector<int64_t>, 2> kPerms = {{{1, 0}, {3, 2, 0, 1}}};

Shape without_ones(const Shape& shape) {
  std::vector<int64_t> extents = shape.extents();
  std::erase(extents, 1);
  return Shape(std::move(extents));
}

std::optional<Way> way_between(const Shape& from, const Shape& to) {
  if (from == to) return Way{};
  for (const std::vector<int64_t>& perm : kPerms)
    if (perm.size() == static_cast<size_t>(from.rank()) && io::permuted(from, perm) == to)
      return Way{perm};
  if (without_ones(from) == without_ones(to)) return Way{{}, true};
  return {};
}

/// Returns the number that must be added to the numbers of `from` to get those of `to`, or nothing
/// if there is no such number.
std::optional<int64_t> offset_between(const NameGroup& from, const NameGroup& to) {
  if (from.numbers == to.numbers) return 0;
  if (from.wildcards() != 1 || to.wildcards() != 1) return {};
  const auto numbers_of = [](const NameGroup& group) {
    std::set<int64_t> numbers;
    for (const auto& one : group.numbers) numbers.insert(whole_number(one[0]).value_or(-1));
    return numbers;
  };
  const std::set<int64_t> a = numbers_of(from), b = numbers_of(to);
  const int64_t first = *a.begin(), other = *b.begin();
  const auto from_first = [](int64_t start) { return [start](int64_t n) { return n - start; }; };
  if (first < 0 || other < 0 || !std::ranges::equal(a, b, {}, from_first(first), from_first(other)))
    return {};
  return other - first;
}

/// Returns a name for a rule's `to`: "gpt/{1}/weight" for "gpt/*/weight".
std::string template_of(const NameGroup& group, int64_t offset) {
  std::string text;
  int capture = 0;
  for (const char c : group.pattern)
    text += c != '*'      ? std::string(1, c)
            : offset == 0 ? fmt::format("{{{}}}", ++capture)
                          : fmt::format("{{{}{:+}}}", ++capture, offset);
  return text;
}

/// Returns the position of a part in the order in which programs usually join parts; other parts
/// are last.
size_t order_of(const NameGroup& group) {
  constexpr std::array<std::string_view, 5> kOrder = {"query", "key", "value", "gate", "up"};
  for (size_t i = 0; i < kOrder.size(); ++i)
    if (std::ranges::count(group.words, kOrder[i]) > 0) return i;
  return kOrder.size();
}

class Proposer {
 public:
  explicit Proposer(const NameMap& map) {
    std::vector<NamedShape> arrays, variables;
    const auto add = [](std::vector<NamedShape>& list, const std::string& name,
                        const Shape& shape) {
      // The pattern of a rule cannot contain a name that itself contains a wildcard.
      if (name.find_first_of("*{}") == name.npos && shape.elements() > 0)
        list.push_back({name, shape});
    };
    for (const UnusedArray& array : map.unused)
      if (!array.rule) add(arrays, array.item.name, array.item.shape);
    for (const MappedVariable& variable : map.variables)
      if (variable.arrays.empty()) add(variables, variable.wanted.name, variable.wanted.shape);
    in_order_ = !std::ranges::is_sorted(arrays, {}, &NamedShape::name);
    arrays_ = group_names(arrays);
    variables_ = group_names(variables);
    arrays_.resize(std::min(arrays_.size(), kMostGroups));
    variables_.resize(std::min(variables_.size(), kMostGroups));
    used_.resize(arrays_.size());
    given_.resize(variables_.size());
  }

  std::vector<ProposedRule> run() {
    pair_singles();
    decide_squares();
    join_several();
    split_several();
    std::ranges::sort(made_, {}, [](const Made& one) { return one.variable; });
    std::vector<ProposedRule> rules;
    for (Made& one : made_)
      if (!one.dropped) rules.push_back({std::move(one.rule), std::move(one.remark)});
    for (size_t i = 0; i < arrays_.size(); ++i)
      if (!used_[i] || left_.contains(i))
        rules.push_back({{.from = {arrays_[i].pattern}, .ignore = true},
                         left_.contains(i)
                             ? fits_as_well(variables_[left_.at(i)])
                             : fmt::format("{}: no variable fits", arrays_[i].shape.str())});
    std::erase_if(rules, [](const ProposedRule& one) { return !faults_of(one.rule).empty(); });
    return rules;
  }

 private:
  struct Made {
    size_t variable;  // the first of its variables
    plan::NameRule rule;
    std::string remark = {};
    bool dropped = false;  // neither names nor positions determine the pair
  };
  struct Pair {
    size_t array, variable;
    Way way;
    int64_t offset;
    double score;
  };

  std::vector<Pair> find_pairs() const {
    std::vector<Pair> pairs;
    std::vector<size_t> of_array(arrays_.size()), of_variable(variables_.size());
    for (size_t a = 0; a < arrays_.size(); ++a)
      for (size_t v = 0; v < variables_.size(); ++v) {
        const auto way = way_between(arrays_[a].shape, variables_[v].shape);
        const auto offset = way ? offset_between(arrays_[a], variables_[v]) : std::nullopt;
        if (!offset) continue;
        pairs.push_back({a, v, *way, *offset, similarity(arrays_[a], variables_[v])});
        ++of_array[a];
        ++of_variable[v];
      }
    for (Pair& pair : pairs) {
      if (of_array[pair.array] == 1 && of_variable[pair.variable] == 1) pair.score += kOnlyPair;
      if (pair.way.reshape) pair.score += kReshaped;
    }
    return pairs;
  }

  using Parents = std::pair<std::string, std::string>;
  Parents parents_of(const Pair& pair) const {
    return {arrays_[pair.array].parent, variables_[pair.variable].parent};
  }

  /// Pairs one array with one variable: first the best pair, then pairs with the same parents, such
  /// as the bias of a weight. Of equally good pairs, the first in the order of arrays and variables
  /// is chosen.
  void pair_singles() {
    const std::vector<Pair> pairs = find_pairs();
    std::vector<const Pair*> chosen;
    std::set<Parents> parents;
    for (;;) {
      const Pair* best = nullptr;
      double most = kReshaped - 1;
      for (const Pair& pair : pairs) {
        if (used_[pair.array] || given_[pair.variable]) continue;
        const double score = pair.score + (parents.contains(parents_of(pair)) ? kSameParents : 0);
        if (score > most) best = &pair, most = score;
      }
      if (!best) break;
      used_[best->array] = given_[best->variable] = true;
      chosen.push_back(best);
      parents.insert(parents_of(*best));
      const NameGroup &array = arrays_[best->array], &variable = variables_[best->variable];
      made_.push_back({best->variable,
                       {.from = {array.pattern},
                        .to = {template_of(variable, best->offset)},
                        .perm = best->way.perm,
                        .reshape = best->way.reshape}});
      if (array.shape.rank() == 2 && array.shape[0] == array.shape[1])
        squares_.push_back(made_.size() - 1);
      else if (array.shape.rank() == 2)
        deciding_.push_back(made_.size() - 1);
    }
    remark_doubts(pairs, chosen);
    drop_crossing(pairs, chosen);
  }

  static std::string fits_as_well(const NameGroup& other) {
    return fmt::format("check: {} also fits", other.pattern);
  }

  /// Adds remarks to pairs that neither shapes nor names determine: another pair with the same
  /// array or variable also fits and is at least as good as the pair chosen for its other side.
  /// These pairs are proposed only if their positions agree. Pairs with the same parents as a
  /// certain pair, such as the weight of a bias, are certain, too.
  void remark_doubts(const std::vector<Pair>& pairs, const std::vector<const Pair*>& chosen) {
    std::vector<const Pair*> of_array(arrays_.size()), of_variable(variables_.size());
    for (const Pair* pair : chosen) of_array[pair->array] = of_variable[pair->variable] = pair;
    std::map<const Pair*, std::vector<const Pair*>> rivals;
    for (const Pair& pair : pairs) {
      const Pair *a = of_array[pair.array], *v = of_variable[pair.variable];
      const auto as_good = [&](const Pair* other) { return !other || pair.score >= other->score; };
      if (a == v || !as_good(a) || !as_good(v)) continue;
      for (const Pair* one : {a, v})
        if (one) rivals[one].push_back(&pair);
      if (!a) left_.emplace(pair.array, pair.variable);
    }
    std::set<Parents> certain;
    for (const Pair* pair : chosen)
      if (!rivals.contains(pair)) certain.insert(parents_of(*pair));
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto found = rivals.find(chosen[i]);
      if (found == rivals.end() || certain.contains(parents_of(*chosen[i]))) continue;
      const Pair& other = *found->second.front();
      made_[i].remark = fits_as_well(other.array == chosen[i]->array ? variables_[other.variable]
                                                                     : arrays_[other.array]);
      if (!positions_agree(*chosen[i], found->second)) drop(i, *chosen[i]);
    }
  }

  /// Returns true if the position of the array among those that fit the variable is the position of
  /// the variable among those that fit the array. Returns false if the arrays are sorted by name,
  /// because this order contains no information.
  bool positions_agree(const Pair& pair, const std::vector<const Pair*>& rivals) const {
    std::set<size_t> arrays{pair.array}, variables{pair.variable};
    for (const Pair* rival : rivals) {
      if (rival->variable == pair.variable) arrays.insert(rival->array);
      if (rival->array == pair.array) variables.insert(rival->variable);
    }
    return in_order_ && arrays.size() == variables.size() &&
           std::distance(arrays.begin(), arrays.find(pair.array)) ==
               std::distance(variables.begin(), variables.find(pair.variable));
  }

  void drop(size_t made, const Pair& pair) {
    made_[made].dropped = true;
    left_.emplace(pair.array, pair.variable);
  }

  /// Drops two pairs in opposite orders if names do not distinguish them from the pairs with
  /// swapped variables. Below one parent, for example a weight and its bias, the order may differ.
  void drop_crossing(const std::vector<Pair>& pairs, const std::vector<const Pair*>& chosen) {
    std::map<std::pair<size_t, size_t>, double> scores;
    for (const Pair& pair : pairs) scores[{pair.array, pair.variable}] = pair.score;
    for (size_t i = 0; i < chosen.size(); ++i)
      for (size_t k = i + 1; k < chosen.size(); ++k) {
        const Pair &a = *chosen[i], &b = *chosen[k];
        if ((a.array < b.array) == (a.variable < b.variable) ||
            arrays_[a.array].parent == arrays_[b.array].parent)
          continue;
        const auto one = scores.find({a.array, b.variable}),
                   other = scores.find({b.array, a.variable});
        if (one == scores.end() || other == scores.end() ||
            one->second + other->second < a.score + b.score)
          continue;
        drop(i, a);
        drop(k, b);
      }
  }

  /// Decides for square matrices whether they are transposed. Their shapes do not show it, but
  /// those of similar matrices do.
  void decide_squares() {
    for (const size_t square : squares_) {
      Made& made = made_[square];
      int64_t votes = 0;
      for (const size_t other : deciding_) {
        const auto weight = static_cast<int64_t>(
            1 << std::min<size_t>(common_components(made.rule.from[0], made_[other].rule.from[0]),
                                  20));
        votes += made_[other].rule.perm.empty() ? -weight : weight;
      }
      if (votes > 0) made.rule.perm = {1, 0};
      made.remark += made.remark.empty() ? "square: check `perm`" : "; square: check `perm`";
    }
  }

  /// Returns the groups that are not taken, by their name without its second-to-last component.
  std::map<std::string, std::vector<size_t>> families(const std::vector<NameGroup>& groups,
                                                      const std::vector<bool>& taken) const {
    std::map<std::string, std::vector<size_t>> found;
    for (size_t i = 0; i < groups.size(); ++i)
      if (!taken[i])
        found[parent_of(parent_of(groups[i].pattern)) + "\n" + leaf_of(groups[i].pattern)]
            .push_back(i);
    for (auto& [key, members] : found)
      std::ranges::stable_sort(members, {}, [&](size_t i) { return order_of(groups[i]); });
    return found;
  }

  /// Two or three consecutive groups of a family that together make `whole` along an axis.
  struct Parts {
    std::vector<size_t> members;
    int64_t axis = 0;
  };
  static std::optional<Parts> parts_of(const NameGroup& whole, const Shape& shape,
                                       const std::vector<NameGroup>& groups,
                                       const std::vector<size_t>& family, bool transposed) {
    for (const size_t count : {3, 2})
      for (size_t first = 0; first + count <= family.size(); ++first)
        for (int axis = 0; axis < shape.rank(); ++axis) {
          Parts parts{{family.begin() + static_cast<std::ptrdiff_t>(first),
                       family.begin() + static_cast<std::ptrdiff_t>(first + count)},
                      axis};
          int64_t sum = 0;
          const bool fit = std::ranges::all_of(parts.members, [&](size_t i) {
            const NameGroup& part = groups[i];
            if (part.shape.rank() != shape.rank() || part.numbers != whole.numbers) return false;
            if (transposed && part.shape.rank() != 2) return false;
            Shape same = transposed ? io::permuted(part.shape, kPerms[0]) : part.shape;
            sum += same[axis];
            same[axis] = shape[axis];
            return same == shape;
          });
          if (fit && sum == shape[axis]) return parts;
        }
    return {};
  }

  void join_several() {
    for (const bool transposed : {false, true})
      for (size_t v = 0; v < variables_.size(); ++v) {
        if (given_[v]) continue;
        for (const auto& [key, family] : families(arrays_, used_))
          if (const auto parts =
                  parts_of(variables_[v], variables_[v].shape, arrays_, family, transposed)) {
            add_joined(v, *parts, transposed);
            break;
          }
      }
  }

  void add_joined(size_t v, const Parts& parts, bool transposed) {
    plan::NameRule rule{.to = {template_of(variables_[v], 0)}, .concat = parts.axis};
    if (transposed) rule.perm = kPerms[0];
    std::vector<int64_t> sizes;
    for (const size_t a : parts.members) {
      used_[a] = true;
      rule.from.push_back(arrays_[a].pattern);
      const auto axis = static_cast<int>(parts.axis);
      sizes.push_back(arrays_[a].shape[transposed ? 1 - axis : axis]);
    }
    if (std::ranges::count(sizes, sizes[0]) != static_cast<std::ptrdiff_t>(sizes.size()))
      rule.sizes = sizes;
    given_[v] = true;
    made_.push_back({v, std::move(rule), "check the order"});
  }

  void split_several() {
    for (const bool transposed : {false, true})
      for (size_t a = 0; a < arrays_.size(); ++a) {
        if (used_[a] || (transposed && arrays_[a].shape.rank() != 2)) continue;
        const Shape shape =
            transposed ? io::permuted(arrays_[a].shape, kPerms[0]) : arrays_[a].shape;
        for (const auto& [key, family] : families(variables_, given_))
          if (const auto parts = parts_of(arrays_[a], shape, variables_, family, false)) {
            plan::NameRule rule{.from = {arrays_[a].pattern}, .split = parts->axis};
            if (transposed) rule.perm = kPerms[0];
            for (const size_t v : parts->members) {
              given_[v] = true;
              rule.to.push_back(template_of(variables_[v], 0));
            }
            used_[a] = true;
            made_.push_back({parts->members[0], std::move(rule), "check the order"});
            break;
          }
      }
  }

  std::vector<NameGroup> arrays_, variables_;
  bool in_order_ = false;  // true if arrays have their program's order and are not sorted
  std::vector<bool> used_, given_;
  std::vector<Made> made_;
  std::vector<size_t> squares_, deciding_;  // indices into made_
  std::map<size_t, size_t> left_;           // arrays not used, with a variable that could use them
};

/// Returns the text in double quotes, with `$` escaped so that it does not refer to a variable of
/// the file.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '$') out += '$';
    out += c;
  }
  return out + "\"";
}

std::string quoted_list(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(quoted(text));
  return all.size() == 1 ? all[0] : fmt::format("[{}]", join(all, ", "));
}

}  // namespace

std::vector<ProposedRule> propose_rules(const NameMap& map) { return Proposer(map).run(); }

std::string yaml_text(const plan::NameRule& rule) {
  std::string text = "{from: " + quoted_list(rule.from);
  if (!rule.to.empty()) text += ", to: " + quoted_list(rule.to);
  if (!rule.perm.empty()) text += fmt::format(", perm: [{}]", fmt::join(rule.perm, ", "));
  if (rule.concat) text += fmt::format(", concat: {}", *rule.concat);
  if (!rule.sizes.empty()) text += fmt::format(", sizes: [{}]", fmt::join(rule.sizes, ", "));
  if (rule.split) text += fmt::format(", split: {}", *rule.split);
  if (rule.copy) text += ", copy: true";
  if (rule.reshape) text += ", reshape: true";
  if (rule.ignore) text += ", ignore: true";
  return text + "}";
}

}  // namespace flow::exec
