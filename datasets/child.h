// SPDX-License-Identifier: Apache-2.0
// Runs another program and waits for it: arguments are passed as they are, no shell reads them. Used by fetch.cpp for
// apt-get.
#pragma once

#include <string>
#include <vector>

namespace quadrille {

struct ChildResult {
  int status = 0;      // its exit status; 127: not found; 128 + n: ended by signal n
  std::string output;  // what it wrote
};
// In `directory`, messages in English. An interrupt from the keyboard ends the child; we live on to clean up.
ChildResult run_child(const std::vector<std::string>& arguments, const std::string& directory);

// A new folder `parent`/.NAME-PID-XXXXXX, removed with all it holds when the object dies (gone by then: nothing).
// Folders of that name whose process is gone are removed first.
class TemporaryFolder {
 public:
  TemporaryFolder(const std::string& parent, const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quadrille
