// The kernels of a device by name. Machine code is loaded whole; of PTX the driver compiles what is asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda/driver.h"

namespace chairlift {
namespace cuda {

class KernelModules {
 public:
  /** `image`: machine code, or PTX that ends with a zero. */
  KernelModules(const Driver& driver, const void* image);
  ~KernelModules();
  KernelModules(const KernelModules&) = delete;

  /** Null where it is none of these. */
  CUfunction find(const std::string& kernel);
  /** Loads the products of a kind of matrices, so that no step waits for them; without a name all that are no products. */
  void load(const std::string& format);

 private:
  struct Entry {
    std::string format;
    // In the text.
    size_t first, end;
  };

  void readEntries(const char* text);
  CUmodule loadData(const void* image);

  const Driver& driver_;
  std::string header_, text_;
  std::map<std::string, Entry> entries_;
  // By format; machine code has none.
  std::map<std::string, CUmodule> modules_;
};

}  // namespace cuda
}  // namespace chairlift
