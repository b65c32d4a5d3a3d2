// Recording changes, and losing them.
#include "tests/support/disk_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.h"
#include "tests/support/file_calls.h"

namespace flow {

namespace {

using Kind = FileOperation::Kind;

constexpr size_t kSector = 512;

void set_name(std::map<std::string, size_t>& names, const std::string& name,
              std::optional<size_t> node) {
  if (node)
    names[name] = *node;
  else
    names.erase(name);
}

size_t below(size_t count, std::mt19937_64& chance) { return chance() % count; }

Bytes bytes_of_file(const fs::path& path) {
  File file = File::open_read(path);
  Bytes bytes(file.size());
  file.read(bytes);
  return bytes;
}

}  // namespace

DiskTrace::DiskTrace(const fs::path& folder)
    : folder_(fs::canonical(folder)), before_(observe_files(this)) {}

DiskTrace::~DiskTrace() { observe_files(before_); }

long DiskTrace::make(const FileOperation& operation, const std::function<long()>& call) {
  const std::scoped_lock lock(mutex_);  // the order of the list is that of the calls
  if (operation.kind == Kind::kClose) open_.erase(operation.descriptor);
  const bool continues = operation.kind == Kind::kWrite && !operation.offset;
  const off_t at = continues ? ::lseek(operation.descriptor, 0, SEEK_CUR) : 0;
  const long result = call();
  if (result >= 0 && operation.kind != Kind::kClose)
    note(operation, continues ? static_cast<uint64_t>(at) : operation.offset.value_or(0), result);
  return result;
}

void DiskTrace::note(const FileOperation& operation, uint64_t offset, long result) {
  if (operation.kind == Kind::kOpen) return note_open(operation, static_cast<int>(result));
  DiskChange change{.kind = operation.kind,
                    .path = {},
                    .target = {},
                    .opened = {},
                    .offset = offset,
                    .bytes = {}};
  const auto open = open_.find(operation.descriptor);
  if (open != open_.end()) {
    change.opened = open->second;
  } else {
    const auto path = path_below(folder_, operation_path(operation));
    if (!path) return;
    change.path = *path;
  }
  if (operation.target && operation.kind != Kind::kLink)
    change.target = path_below(folder_, fs::absolute(operation.target)).value();
  if (operation.kind == Kind::kWrite)
    change.bytes.assign(operation.bytes.begin(), operation.bytes.begin() + result);
  changes_.push_back(std::move(change));
}

void DiskTrace::note_open(const FileOperation& operation, int descriptor) {
  const auto path = path_below(folder_, operation_path(operation));
  if (!path) return;
  open_[descriptor] = changes_.size();
  changes_.push_back({.kind = Kind::kOpen,
                      .path = *path,
                      .target = {},
                      .opened = {},
                      .makes = (operation.flags & O_CREAT) != 0,
                      .empties = (operation.flags & O_TRUNC) != 0,
                      .bytes = {}});
}

void write_image(const DiskImage& image, const fs::path& to) {
  for (const auto& [path, data] : image) {
    if (!data) {
      make_folders(to / path);
      continue;
    }
    File file = File::create(to / path);
    file.write(*data);
    file.close();
  }
}

DiskModel::DiskModel(const fs::path& folder) { read_folder(folder); }

size_t DiskModel::read_folder(const fs::path& folder) {
  const size_t number = nodes_.size();
  nodes_.push_back({.folder = true, .now = {}, .synced = {}, .data = {}, .pending = {}});
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    size_t below = nodes_.size();
    if (entry.is_directory())
      below = read_folder(entry.path());
    else
      nodes_.push_back(
          {.now = {}, .synced = {}, .data = bytes_of_file(entry.path()), .pending = {}});
    nodes_[number].now[entry.path().filename()] = below;
  }
  nodes_[number].synced = nodes_[number].now;
  return number;
}

std::pair<size_t, std::string> DiskModel::place(const std::string& path) const {
  const fs::path whole = path;
  size_t folder = 0;
  for (const fs::path& part : whole.parent_path())
    if (part != ".") folder = nodes_[folder].now.at(part);
  return {folder, whole.filename()};
}

std::optional<size_t> DiskModel::find(const std::string& path) const {
  if (path == ".") return 0;
  const auto [folder, name] = place(path);
  const auto found = nodes_[folder].now.find(name);
  return found == nodes_[folder].now.end() ? std::nullopt : std::optional(found->second);
}

void DiskModel::change_names(NameChange change) {
  for (const auto& [folder, name, node] : change) set_name(nodes_[folder].now, name, node);
  pending_.push_back(std::move(change));
}

void DiskModel::open(const DiskChange& change) {
  auto node = find(change.path);
  if (!node) {
    FLOW_CHECK(change.makes, "{}", change.path);
    node = nodes_.size();
    nodes_.emplace_back();
    const auto [folder, name] = place(change.path);
    change_names({{folder, name, node}});
  } else if (change.empties) {
    nodes_[*node].pending.push_back({true, 0, {}});
  }
  opened_[changes_] = *node;
}

void DiskModel::apply(const DiskChange& change) {
  const auto file = [&]() -> Node& { return nodes_[opened_.at(*change.opened)]; };
  switch (change.kind) {
    case Kind::kOpen:
      open(change);
      break;
    case Kind::kWrite:
      file().pending.push_back({false, change.offset, change.bytes});
      break;
    case Kind::kTruncate:
      file().pending.push_back({true, change.offset, {}});
      break;
    case Kind::kSync:
      change.opened ? sync_file(file()) : sync_names(find(change.path).value());
      break;
    case Kind::kSyncFileSystem:
      sync_all();
      break;
    case Kind::kMakeFolder: {
      const auto [folder, name] = place(change.path);
      nodes_.emplace_back().folder = true;
      change_names({{folder, name, nodes_.size() - 1}});
      break;
    }
    case Kind::kRename:
    case Kind::kExchange: {
      const auto [folder, name] = place(change.path);
      const auto [to, target] = place(change.target);
      const auto other = change.kind == Kind::kExchange ? find(change.target) : std::nullopt;
      change_names({{folder, name, other}, {to, target, find(change.path)}});
      break;
    }
    case Kind::kRemove:
    case Kind::kRemoveFolder: {
      const auto [folder, name] = place(change.path);
      change_names({{folder, name, {}}});
      break;
    }
    case Kind::kClose:
    case Kind::kLink:
      FLOW_CHECK(false, "runs make no links");
      break;
  }
  ++changes_;
}

namespace {

void write_into(Bytes& data, bool truncates, uint64_t offset, const Bytes& bytes) {
  if (truncates) return data.resize(offset);
  data.resize(std::max<size_t>(data.size(), offset + bytes.size()));
  std::ranges::copy(bytes, data.begin() + static_cast<ptrdiff_t>(offset));
}

}  // namespace

void DiskModel::sync_file(Node& node) {
  for (const Write& write : node.pending)
    write_into(node.data, write.truncates, write.offset, write.bytes);
  node.pending.clear();
}

void DiskModel::choose_earlier(std::vector<bool>& chosen) const {
  std::set<std::pair<size_t, std::string>> needed;
  for (size_t i = chosen.size(); i-- > 0;) {
    const auto is_needed = [&](const Entry& entry) {
      return needed.contains({entry.folder, entry.name});
    };
    if (std::ranges::any_of(pending_[i], is_needed)) chosen[i] = true;
    if (chosen[i])
      for (const Entry& entry : pending_[i]) needed.emplace(entry.folder, entry.name);
  }
}

void DiskModel::sync_names(size_t folder) {
  std::vector<bool> kept;
  for (const NameChange& change : pending_)
    kept.push_back(
        std::ranges::any_of(change, [&](const Entry& entry) { return entry.folder == folder; }));
  choose_earlier(kept);
  std::vector<NameChange> left;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (!kept[i]) {
      left.push_back(pending_[i]);
      continue;
    }
    for (const auto& [parent, name, node] : pending_[i])
      set_name(nodes_[parent].synced, name, node);
  }
  pending_ = std::move(left);
}

void DiskModel::sync_all() {
  for (Node& node : nodes_) {
    sync_file(node);
    node.synced = node.now;
  }
  pending_.clear();
}

std::vector<bool> DiskModel::chosen_names(Loss loss, std::mt19937_64& chance) const {
  std::vector<bool> chosen(pending_.size(), loss != Loss::kAll && loss != Loss::kNames);
  if (loss == Loss::kJournal) {
    const size_t kept = below(pending_.size() + 1, chance);
    std::fill(chosen.begin() + static_cast<ptrdiff_t>(kept), chosen.end(), false);
  }
  if (loss != Loss::kAny) return chosen;
  const size_t share = 1 + below(7, chance);  // of eight
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = below(8, chance) < share;
  choose_earlier(chosen);
  return chosen;
}

Bytes DiskModel::data_of(const Node& node, Loss loss, std::mt19937_64& chance) const {
  if (loss == Loss::kAll || loss == Loss::kData || node.pending.empty()) return node.data;
  std::vector<Bytes> states = {node.data};
  for (const Write& write : node.pending) {
    states.push_back(states.back());
    write_into(states.back(), write.truncates, write.offset, write.bytes);
  }
  if (loss == Loss::kNone || loss == Loss::kNames) return states.back();
  const bool in_part = loss == Loss::kJournal || loss == Loss::kAny;
  Bytes data(in_part ? states[below(states.size(), chance)].size() : states.back().size());
  for (size_t at = 0; at < data.size(); at += kSector) {
    const size_t size = std::min(kSector, data.size() - at);
    const Bytes& state = states[in_part ? below(states.size(), chance) : 0];
    const bool garbage = loss == Loss::kGarbage || (in_part && below(4, chance) == 0);
    const size_t known = std::min(size, state.size() - std::min(state.size(), at));
    // What has never been synced there is nothing or anything; beyond the end of a sector's state
    // its rest is zeros, as the system clears it.
    if (known == 0 && garbage && at >= node.data.size())
      std::generate_n(data.begin() + static_cast<ptrdiff_t>(at), size,
                      [&] { return static_cast<std::byte>(chance()); });
    std::copy_n(state.begin() + static_cast<ptrdiff_t>(std::min(state.size(), at)), known,
                data.begin() + static_cast<ptrdiff_t>(at));
  }
  return data;
}

void DiskModel::list(size_t folder, const std::vector<Names>& names, const std::string& path,
                     Loss loss, std::mt19937_64& chance, DiskImage& image) const {
  for (const auto& [name, number] : names[folder]) {
    const std::string below = path + name;
    const Node& node = nodes_[number];
    if (!node.folder) {
      image[below] = data_of(node, loss, chance);
      continue;
    }
    image[below] = std::nullopt;
    list(number, names, below + '/', loss, chance, image);
  }
}

DiskImage DiskModel::after(Loss loss, std::mt19937_64& chance) const {
  std::vector<Names> names;
  for (const Node& node : nodes_) names.push_back(node.synced);
  const std::vector<bool> chosen = chosen_names(loss, chance);
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (!chosen[i]) continue;
    for (const auto& [folder, name, node] : pending_[i]) set_name(names[folder], name, node);
  }
  DiskImage image;
  list(0, names, "", loss, chance, image);
  return image;
}

}  // namespace flow
