// A job's entries as a reader needs them once: equal copies and networks together.
#pragma once

#include <string>
#include <vector>

#include "cli/show/job_tree.h"

namespace flow::cli {

/// One line of a table, or one box of a picture.
struct Folded {
  size_t entry = 0;           // in the tree; of equal copies, the first
  std::string name = {};      // "stage1", "blocks/1"
  size_t copies = 1;          // equal ones in a row, each reading the one before
  std::string shown_at = {};  // the same network with other sizes, where its entries are shown
  uint64_t parameters = 0;    // of all copies
  double flops = 0;           // of all copies
  std::vector<size_t> members = {};  // the entries that it stands for
  std::vector<Folded> inside = {};
};

/// The job itself, with its entries inside. `all`: nothing is put together.
Folded fold(const JobTree& tree, const plan::Job& job, bool all);

}  // namespace flow::cli
