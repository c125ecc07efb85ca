// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/standin/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>

namespace standin {
namespace {

struct Variable {
  std::size_t offset, bytes;  // in the program's thread-local block
};

struct Table {
  std::map<std::uintptr_t, std::string> functions;  // address in the file
  std::vector<Variable> shared;
};

Table read_table() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto at = [&bytes](std::size_t offset) { return bytes.data() + offset; };
  Table table;
  if (bytes.size() < sizeof(ElfW(Ehdr))) return table;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(at(0));
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(at(header->e_shoff));
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const char* names = at(sections[sections[s].sh_link].sh_offset);
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(at(sections[s].sh_offset));
    bool device_file = false;  // local symbols follow the name of their file
    for (std::size_t i = 0; i < sections[s].sh_size / sizeof(ElfW(Sym)); ++i) {
      const ElfW(Sym)& symbol = symbols[i];
      const std::string_view name = names + symbol.st_name;
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FILE) device_file = name.ends_with(".cu");
      if (type == STT_FUNC) table.functions[symbol.st_value] = name;
      const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      if (type == STT_TLS && name.starts_with("_ZZ") && (device_file || !local))
        table.shared.push_back({symbol.st_value, symbol.st_size});
    }
  }
  return table;
}

const Table& table() {
  static const Table read = read_table();
  return read;
}

struct Program {
  std::uintptr_t base = 0;
  std::byte* thread_local_block = nullptr;
};

Program program() {
  Program out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {  // the program itself comes first
        *static_cast<Program*>(data) = {info->dlpi_addr, static_cast<std::byte*>(info->dlpi_tls_data)};
        return 1;
      },
      &out);
  return out;
}

}  // namespace

std::string name_of(const void* kernel) {
  const auto found = table().functions.find(reinterpret_cast<std::uintptr_t>(kernel) - program().base);
  if (found == table().functions.end()) return "kernel";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(found->second.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : found->second;
}

std::vector<std::span<std::byte>> shared_variables() {
  std::vector<std::span<std::byte>> out;
  std::byte* block = program().thread_local_block;
  if (block == nullptr) return out;
  for (const Variable& v : table().shared) out.emplace_back(block + v.offset, v.bytes);
  return out;
}

}  // namespace standin
