// See kernel-modules.h.

#include "cuda/kernel-modules.h"

#include <cstring>

namespace chairlift {
namespace cuda {

namespace {

constexpr const char* entryStart = "\n.visible .entry ";

bool isPtx(const void* image) { return strncmp(static_cast<const char*>(image), "\n.version", 9) == 0; }

/** What follows the family in the name of a product; empty for other kernels. */
std::string formatOf(const std::string& kernel) {
  for (const char* family : {"few1_", "few2_", "few4_", "many_", "floats1_", "floats2_", "floats4_", "floats8_", "floats_many_"}) {
    if (kernel.rfind(family, 0) == 0) return kernel.substr(strlen(family));
  }
  return "";
}

}  // namespace

KernelModules::KernelModules(const Driver& driver, const void* image) : driver_(driver) {
  if (!isPtx(image)) {
    modules_[""] = loadData(image);
    return;
  }
  readEntries(static_cast<const char*>(image));
  load("");
}

KernelModules::~KernelModules() {
  for (const auto& [format, module] : modules_) driver_.cuModuleUnload(module);
}

void KernelModules::readEntries(const char* text) {
  text_ = text;
  size_t first = text_.find(entryStart);
  header_ = text_.substr(0, first);
  while (first != std::string::npos) {
    const size_t name = first + strlen(entryStart), next = text_.find(entryStart, name);
    const std::string kernel = text_.substr(name, text_.find('(', name) - name);
    entries_[kernel] = {formatOf(kernel), first, next == std::string::npos ? text_.size() : next};
    first = next;
  }
}

CUmodule KernelModules::loadData(const void* image) {
  CUmodule module = nullptr;
  driver_.check(driver_.cuModuleLoadData(&module, image), "cuModuleLoadData");
  return module;
}

void KernelModules::load(const std::string& format) {
  if (entries_.empty() || modules_.count(format)) return;
  std::string text = header_;
  for (const auto& [kernel, entry] : entries_) {
    if (entry.format == format) text.append(text_, entry.first, entry.end - entry.first);
  }
  modules_[format] = loadData(text.c_str());
}

CUfunction KernelModules::find(const std::string& kernel) {
  const auto entry = entries_.find(kernel);
  // Machine code has no list of entries.
  if (entry == entries_.end() && !entries_.empty()) return nullptr;
  const std::string format = entry == entries_.end() ? "" : entry->second.format;
  load(format);
  CUfunction function = nullptr;
  const CUresult result = driver_.cuModuleGetFunction(&function, modules_.at(format), kernel.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) return nullptr;
  driver_.check(result, kernel.c_str());
  return function;
}

}  // namespace cuda
}  // namespace chairlift
