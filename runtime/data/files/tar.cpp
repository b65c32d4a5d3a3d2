// Indexes the samples of a tar archive.
#include "runtime/data/files/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/data/files/tar_reader.h"
#include "runtime/data/files/unpack.h"

namespace flow::data {

namespace {

struct KeyAndField {
  std::string_view key;
  std::string field;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Splits the name of a file. Returns an empty key for a file that belongs to no sample.
KeyAndField key_and_field(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == name.npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base) return {};
  const std::string_view stem = name.substr(base, dot - base);
  if (stem.size() >= 4 && stem.starts_with("__") && stem.ends_with("__")) return {};
  std::string field(name.substr(dot + 1));
  std::ranges::transform(field, field.begin(), lower);
  return {name.substr(0, dot), std::move(field)};
}

}  // namespace

class TarIndex::Builder {
 public:
  Builder(TarIndex& index, const TarReader& reader) : index_(index), reader_(reader) {}

  void add(const TarMember& member) {
    const auto [key, field] = key_and_field(member.name);
    if (key.empty()) return;
    if (index_.samples_.empty() || index_.key(index_.size() - 1) != key) start(key, member);
    const size_t name = number_of(field);
    if (last_sample_[name] == index_.size())
      throw reader_.error_at(member.header, fmt::format("sample `{}` has the field `{}` twice",
                                                        shortened(key), shortened(field)));
    last_sample_[name] = index_.size();
    index_.fields_.push_back({name, member.offset, member.size});
  }

 private:
  void start(std::string_view key, const TarMember& member) {
    if (!seen_.emplace(key).second)
      throw reader_.error_at(
          member.header, fmt::format("the key `{}` returns after other samples", shortened(key)),
          "sort the files by name when you write the shard, for example with `tar --sort=name`");
    index_.samples_.push_back({index_.keys_.size(), key.size(), index_.fields_.size()});
    index_.keys_ += key;
  }

  size_t number_of(const std::string& field) {
    const auto [found, is_new] = numbers_.try_emplace(field, index_.names_.size());
    if (is_new) {
      index_.names_.push_back(field);
      last_sample_.push_back(0);
    }
    return found->second;
  }

  TarIndex& index_;
  const TarReader& reader_;
  std::unordered_set<std::string> seen_;             // the keys so far
  std::unordered_map<std::string, size_t> numbers_;  // indexes of the fields' names
  std::vector<size_t> last_sample_;  // for each name, the number of the last sample with it, from 1
};

TarIndex::TarIndex(std::span<const std::byte> shard, const std::string& name) {
  TarReader reader(shard, name);
  Builder builder(*this, reader);
  while (const auto member = reader.next())
    if (!member->is_folder) builder.add(*member);
  keys_.shrink_to_fit();
  samples_.shrink_to_fit();
  fields_.shrink_to_fit();
}

const TarField* TarIndex::find(size_t sample, std::span<const std::string> names) const {
  const std::span<const TarField> all = fields(sample);
  for (const std::string& name : names) {
    const auto found = std::ranges::find_if(
        all, [&](const TarField& field) { return names_[field.name] == name; });
    if (found != all.end()) return &*found;
  }
  return nullptr;
}

namespace {

/// A program that packs whole files.
struct Packer {
  std::string_view magic, name, command, suffix;
};
constexpr std::array kPackers = {
    Packer{"\x1F\x8B", "gzip", "gzip -dc", ".gz"},
    Packer{"\x28\xB5\x2F\xFD", "zstd", "zstd -dc", ".zst"},
    Packer{"BZh", "bzip2", "bzip2 -dc", ".bz2"},
    Packer{std::string_view("\xFD"
                            "7zXZ\0",
                            6),
           "xz", "xz -dc", ".xz"},
    Packer{"\x04\x22\x4D\x18", "lz4", "lz4 -dc", ".lz4"},
};

/// Returns the path of the unpacked shard that the hint proposes.
std::string unpacked_path(const std::string& path, const Packer& packer) {
  if (path.ends_with(".tgz")) return path.substr(0, path.size() - 2) + "ar";
  if (path.ends_with(packer.suffix)) return path.substr(0, path.size() - packer.suffix.size());
  return path + ".unpacked";
}

/// Throws RunError for an empty or packed shard. A plain archive begins with a name, which could
/// begin like a packed file, so it is told apart by the mark of its format.
void require_unpacked(std::span<const std::byte> shard, const std::string& path) {
  if (shard.empty()) throw RunError(path + " is empty; expected a tar archive");
  constexpr size_t kChecked = 512, kMark = 257;
  const std::string_view begin(reinterpret_cast<const char*>(shard.data()),
                               std::min(shard.size(), kChecked));
  const auto packer = std::ranges::find_if(
      kPackers, [&](const Packer& one) { return begin.starts_with(one.magic); });
  if (packer == kPackers.end() || begin.substr(std::min(kMark, begin.size())).starts_with("ustar"))
    return;
  const std::array source = {path}, target = {unpacked_path(path, *packer)};
  throw RunError(
      fmt::format("{} is packed with {}; expected a plain tar archive", path, packer->name),
      fmt::format("unpack it by `{} {} > {}`, because shards are read in place", packer->command,
                  command_line(source), command_line(target)));
}

MappedFile map_shard(const fs::path& path) {
  require_regular_file(path);
  return MappedFile(path);
}

TarIndex index_of(const MappedFile& file, const std::string& name) {
  std::optional<TarIndex> index;
  file.recovering([&] {
    require_unpacked(file.bytes(), name);
    index.emplace(file.bytes(), name);
  });
  return *std::move(index);
}

}  // namespace

TarShard::TarShard(const fs::path& path)
    : file_(map_shard(path)), index_(index_of(file_, path.string())) {}

}  // namespace flow::data
