#include "base/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <cstring>

namespace rlx {
namespace {

struct BuildIdSearch {
  std::uintptr_t address;  // of code of this library
  std::string found, file;
};

std::string note_text(const char* at, const char* end) {
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const char* name = at + sizeof note;
    const char* content = name + (note.n_namesz + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string text;
      for (std::size_t i = 0; i < note.n_descsz; ++i)
        text += fmt::format("{:02x}", static_cast<unsigned char>(content[i]));
      return text;
    }
    at = content + (note.n_descsz + 3) / 4 * 4;
  }
  return {};
}

int look_at_module(dl_phdr_info* module, std::size_t, void* context) {
  auto& search = *static_cast<BuildIdSearch*>(context);
  bool mine = false;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const std::uintptr_t start = module->dlpi_addr + part.p_vaddr;
    mine = mine || (part.p_type == PT_LOAD && search.address >= start && search.address < start + part.p_memsz);
  }
  if (!mine) return 0;
  search.file = module->dlpi_name;
  for (int i = 0; i < module->dlpi_phnum && search.found.empty(); ++i) {
    const ElfW(Phdr)& part = module->dlpi_phdr[i];
    const char* start = reinterpret_cast<const char*>(module->dlpi_addr + part.p_vaddr);
    if (part.p_type == PT_NOTE) search.found = note_text(start, start + part.p_memsz);
  }
  return 1;
}

std::string find_build_id() {
  BuildIdSearch search{reinterpret_cast<std::uintptr_t>(&find_build_id), {}, {}};
  ::dl_iterate_phdr(look_at_module, &search);
  if (search.found.empty()) {
    struct stat st {};
    // The program itself has no name in the list of modules.
    if (::stat(search.file.empty() ? "/proc/self/exe" : search.file.c_str(), &st) == 0)
      search.found = fmt::format("{} {}.{}", st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  }
  return fmt::format("{} {} {}", RLX_VERSION, __VERSION__, search.found);
}

}  // namespace

const std::string& build_id() {
  static const std::string id = find_build_id();
  return id;
}

}  // namespace rlx
