// Which processors the threads of a team run on (workers.h). A thread that stays on its processor finds in the caches
// what it left there, and on machines with several memory nodes the weights that it packed lie on its own node, since
// Linux places a page on the node of the thread that first writes it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace rlx {

/// Processors as the kernel numbers them, in the order of the threads that get them: "0-3,8"; "cores": the first
/// processor of each core that this process may use; "none" or "": empty, the system places threads.
/// `name` begins errors. Error(usage): not of this form, a processor twice, or one that this process may not use.
std::vector<int> parse_affinity(std::string_view name, std::string_view text);

/// Sets the processors of all teams that start from now on: thread t of a team runs on number t.
void set_affinity(std::vector<int> processors);

/// What set_affinity gave, else RLX_AFFINITY. Empty: the system places threads. Error(usage): see parse_affinity.
const std::vector<int>& affinity();

/// Who said what affinity() gives: "--affinity" after set_affinity, else "RLX_AFFINITY".
std::string_view affinity_source();

/// The processors that this process may use, also from a thread that is pinned.
std::vector<int> allowed_processors();

/// Keeps the calling thread on one processor; when it ends on the same thread, that may run where it could before.
/// Where the system refuses (the processor has gone since), the thread stays free.
class Pinned {
 public:
  explicit Pinned(int processor);
  Pinned(const Pinned&) = delete;
  ~Pinned();

 private:
  struct Before;
  std::unique_ptr<Before> before_;  // null: refused
};

}  // namespace rlx
