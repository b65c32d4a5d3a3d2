// Contains the tables of datasets: which keys a column has, by its source, and the options of a
// dataset. The keys themselves are those of the records in runtime/plan/model.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/dataset.h"

namespace flow::job {
namespace {

using plan::CellType;
using plan::SourceKind;
using enum plan::SourceKind;

using SourceList = std::vector<SourceKind>;
using TypeList = std::vector<CellType>;

const SourceList kAllSources = {kIdx, kNpy, kNpz, kCsv, kBin, kText, kSafetensors, kTar, kImages};
const SourceList kCells = {kCsv, kText, kTar, kImages};
const SourceList kWindows = {kCsv, kBin, kText, kNpy, kNpz, kSafetensors};

/// The keys of a group whose sources or types differ from those of the group.
struct Exception {
  std::string_view key;
  SourceList sources;
  TypeList types;
};

const TypeList kNumbers = {CellType::kNumber, CellType::kInteger, CellType::kBool};
const TypeList kPresent = {CellType::kNumber, CellType::kInteger, CellType::kBool,
                           CellType::kCategory};
const TypeList kCategory = {CellType::kCategory}, kTokens = {CellType::kText};
const SourceList kCategories = {kCsv, kTar, kImages};

const std::vector<Exception> kExceptions = {
    {"type", {kCsv, kTar}, {}},
    {"missing", {kCsv}, kPresent},
    {"missing_values", {kCsv}, kPresent},
    {"categories", kCategories, kCategory},
    {"max_categories", {kCsv, kTar}, kCategory},
    {"unknown", kCells, {CellType::kCategory, CellType::kText}},
    {"one_hot", kCategories, {CellType::kCategory, CellType::kInteger}},
    {"lines", {kText}, kTokens},
    {"root", {kCsv}, {CellType::kImage}}};

void add(std::vector<ColumnKey>& keys, const std::vector<KeyDef>& defs, const SourceList& sources,
         const TypeList& types = {}) {
  for (const KeyDef& def : defs) {
    const auto found = std::ranges::find(kExceptions, def.name, &Exception::key);
    if (found == kExceptions.end())
      keys.push_back({def, sources, types});
    else
      keys.push_back({def, found->sources, found->types});
  }
}

KeyDef key_with_section(std::string_view name, std::string_view doc, const Section& of) {
  return section(name, "none", doc, of);
}

std::vector<ColumnKey> make_column_keys() {
  std::vector<ColumnKey> keys;
  add(keys,
      {text("like", "none",
            "column, as DATASET.COLUMN, to take all absent keys and the learned values from")},
      kAllSources);
  add(keys, {text("array", "", "name of the array in the file")}, {kNpz, kSafetensors});
  add(keys,
      {{"shape", KeyType::kShape, "none",
        "shape of one row, without the batch axis; default: the shape that the input needs"}},
      {kIdx, kNpy, kNpz, kBin, kSafetensors, kTar});
  add(keys, keys_of_record<plan::Column>(), kAllSources);
  add(keys,
      {matching(KeyDef{"rows", KeyType::kRanges, "none",
                       "range of rows to use, or list of ranges: 0..50000 excludes row 50000, "
                       "50000.. runs to the end"},
                R"(^\d+\.\.\d*$)")},
      kAllSources);
  add(keys, {key_with_section("window", "rows of several neighboring source rows", kWindowSection)},
      kWindows);
  add(keys, keys_of_record<plan::CsvFormat>(), {kCsv});
  add(keys, keys_of_record<plan::CellRules>(), kCells);
  add(keys, keys_of_record<plan::BinFormat>(), {kBin});
  add(keys, keys_of_record<plan::TarFormat>(), {kTar});
  add(keys, keys_of_record<plan::TextFormat>(), {kCsv, kText, kTar}, kTokens);
  for (const KeyDef& key : keys_of_record<plan::ImageFormat>())
    if (key.name == "take")
      add(keys, {key}, {kImages});
    else
      add(keys, {key}, {kCsv, kTar, kImages}, {CellType::kImage});
  return keys;
}

/// Returns the keys for paths.
std::vector<KeyDef> path_keys() {
  constexpr std::pair<SourceKind, std::string_view> kDocs[] = {
      {kIdx, "path of an IDX file, plain or compressed"},
      {kNpy, "path of a NumPy .npy file; flow maps it into memory"},
      {kNpz, "path of a NumPy .npz archive"},
      {kCsv, "path of a CSV file, plain or compressed"},
      {kBin, "path of a file of raw numbers"},
      {kText, "path of a text file, plain or compressed"},
      {kSafetensors, "path of a .safetensors file"},
      {kTar, "path of a tar file of samples, as WebDataset writes it"},
      {kImages, "path of a folder of PNG and JPEG images"}};
  std::vector<KeyDef> keys;
  for (const auto& [source, doc] : kDocs)
    keys.push_back({plan::enum_name(source), KeyType::kGlobs, "none", doc});
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < i; ++j) keys[i].unless.push_back(keys[j].name);
  return keys;
}

/// Returns the keys of all sources. No key is required, because `defaults` and `like` can supply
/// it. Keys that differ from source to source accept the words of all of them.
std::vector<KeyDef> all_column_keys() {
  std::vector<KeyDef> all = path_keys();
  for (const auto& [def, sources, types] : make_column_keys()) {
    const auto same = std::ranges::find(all, def.name, &KeyDef::name);
    if (same != all.end()) {
      same->words.insert(same->words.end(), def.words.begin(), def.words.end());
      same->fallback = plan::kNoDefault;
      continue;
    }
    all.push_back(def);
    if (def.required()) all.back().fallback = plan::kNoDefault;
  }
  return all;
}

std::vector<KeyDef> default_keys() {
  std::vector<KeyDef> keys = all_column_keys();
  std::erase_if(keys, [](const KeyDef& key) { return key.name == "like"; });
  return keys;
}

template <typename T>
Section augment_section() {
  constexpr auto kRecord = T::record();
  std::vector<KeyDef> keys = keys_of_record<T>();
  if (find_key(keys, kRecord.type)) return {"an op of `augment`", std::move(keys)};
  static const Section kOwn{"`" + std::string(kRecord.type) + "`", std::move(keys)};
  return {"an op of `augment`", {section(kRecord.type, "", kRecord.doc, kOwn)}};
}

template <typename... T>
std::vector<Section> augment_sections(const std::variant<T...>*) {
  return {augment_section<T>()...};
}

std::vector<KeyDef> option_keys() {
  std::vector<KeyDef> keys = keys_of_record<plan::Dataset>();
  keys.push_back(section("split", "none", "parts of the dataset, by name, with their fractions",
                         kSplitSection));
  keys.push_back(text("like", "none",
                      "dataset whose columns this one has too, with `like`, unless it lists them"));
  return keys;
}

}  // namespace

const std::vector<ColumnKey> kColumnKeys = make_column_keys();

std::vector<KeyDef> column_keys(SourceKind source, std::optional<CellType> type) {
  std::vector<KeyDef> keys = path_keys();
  for (const ColumnKey& key : kColumnKeys)
    if (key.applies(source, type)) keys.push_back(key.def);
  return keys;
}

void add_forms(KeyDef& key, const plan::Channels*) {
  key.type = KeyType::kNumbers;
  key.words = {"learn"};
}
void add_forms(KeyDef& key, const plan::Replacement*) { key.section = &kReplacementSection; }
void add_forms(KeyDef& key, const plan::Categories*) {
  key.type = KeyType::kTexts;
  key.words = {"learn"};
  key.section = &kCategoriesSection;
}
void add_forms(KeyDef& key, const plan::Tokenizer*) {
  key.type = KeyType::kWord;
  key.words = {"bytes", "characters"};
  key.section = &kTokenizerSection;
}
void add_forms(KeyDef& key, const plan::ImageSize*) {
  key.type = KeyType::kSides;
  key.section = &kShorterSection;
}
void add_forms(KeyDef& key, const plan::Mix*) {
  key.type = KeyType::kSection;
  key.section = &kMixSection;
}
void add_forms(KeyDef& key, const std::vector<plan::Augment>*) { key.type = KeyType::kAugment; }

void add_form_of_text(KeyDef& key, plan::TextForm form) {
  using enum plan::TextForm;
  if (form == kCharacter) key.pattern = "^.$";
  if (form == kCharacterOrNone) key.pattern = "^(.|none)$";
  if (form != kElementType) return;
  key.type = KeyType::kWord;
  key.words = {plan::kElementTypes.begin(), plan::kElementTypes.end()};
}

const Section kColumnSection{.what = "a column", .keys = all_column_keys()};
const Section kColumnDefaultsSection{.what = "`defaults` of a dataset", .keys = default_keys()};
const Section kOptionsSection{.what = "`options` of a dataset", .keys = option_keys()};
const Section kDatasetSection{
    .what = "a dataset",
    .keys = {section("defaults", "none", "keys that every column starts from",
                     kColumnDefaultsSection),
             section("options", "none", "keys of the whole dataset", kOptionsSection)},
    .each = section("", "none", "column: one array with a row per example", kColumnSection)};
const Section kSplitSection{
    .what = "`split`",
    .keys = keys_of_record<plan::Split>(),
    .each = KeyDef{"", KeyType::kNumber, "none",
                   "part: fraction of the rows that DATASET/NAME has; DATASET keeps the rest",
                   plan::kFraction}};
const Section kMixSection{
    .what = "`mix`", .keys = keys_of_record<plan::Mix>(), .one_of = {"mixup", "cutmix"}};
const Section kWindowSection{.what = "`window`", .keys = keys_of_record<plan::Window>()};
const Section kReplacementSection{.what = "a category",
                                  .keys = {text("category", "", "name of the category")}};
const Section kCategoriesSection{
    .what = "a file of categories",
    .keys = {text("lines", "", "path of a text file with one category per line")}};
const Section kTokenizerSection{
    .what = "`tokenizer`",
    .keys = {text("characters", "none", "all characters, in the order of their ids"),
             requiring(excluding(text("vocab", "none",
                                      "path of a JSON file with the ids of byte-level BPE"),
                                 {"characters"}),
                       "merges"),
             requiring(text("merges", "none", "path of the file of merges, one per line"), "vocab"),
             requiring(KeyDef{"special", KeyType::kGlobs, "none",
                              "special tokens, which are never cut; each is in the vocabulary"},
                       "vocab"),
             excluding(text("json", "none", "path of a tokenizer.json"), {"characters", "vocab"})},
    .one_of = {"characters", "vocab", "json"}};
const Section kShorterSection{
    .what = "a size",
    .keys = {{"short", KeyType::kInteger, "", "length of the shorter side in pixels",
              plan::augments::kSide}}};
const Section kShuffleSection{.what = "`shuffle`", .keys = keys_of_record<plan::ShuffleBuffer>()};
const Section kSampleSection{
    .what = "`sample`",
    .keys = {text("weights", "none", "column of weights, as DATASET.COLUMN"),
             excluding(text("balance", "none",
                            "column of categories, as DATASET.COLUMN, which are drawn equally "
                            "often"),
                       {"weights"})},
    .one_of = {"weights", "balance"}};

const std::vector<Section> kAugmentSections =
    augment_sections(static_cast<const plan::Augment*>(nullptr));

std::span<const Section> kinds_of(const KeyDef& key) {
  if (key.type == KeyType::kHooks) return kHookSections;
  if (key.type == KeyType::kAugment) return kAugmentSections;
  return {};
}

}  // namespace flow::job
