// SPDX-License-Identifier: Apache-2.0
#include "datasets/child.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "datasets/mapped_file.h"

namespace quadrille {
namespace {

// As system(3) does: the terminal's interrupt is for the child alone.
class IgnoreInterrupt {
 public:
  IgnoreInterrupt() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &interrupt_);
    sigaction(SIGQUIT, &ignore, &quit_);
  }
  ~IgnoreInterrupt() { restore(); }
  void restore() const {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }

 private:
  struct sigaction interrupt_ {
  }, quit_{};
};

[[noreturn]] void become(char* const* arguments, const char* directory, int output) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::chdir(directory) == 0 && ::dup2(nothing, 0) >= 0 && ::dup2(output, 1) >= 0 && ::dup2(output, 2) >= 0) {
    ::execvp(arguments[0], arguments);
  }
  ::_exit(127);
}

void remove_stale(const std::filesystem::path& parent, const std::string& start) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start)) continue;
    pid_t owner = 0;
    const auto read = std::from_chars(name.data() + start.size(), name.data() + name.size(), owner);
    if (read.ec == std::errc() && owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH)
      std::filesystem::remove_all(entry.path(), error);
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments, const std::string& directory) {
  std::vector<std::string> words = {"env", "LC_ALL=C"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string log = directory + "/.output";
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  require(output >= 0, "cannot write {}: {}", log, std::strerror(errno));
  const IgnoreInterrupt ignore;
  const pid_t child = ::fork();
  if (child == 0) {
    ignore.restore();
    become(pointers.data(), directory.c_str(), output);
  }
  const int fork_error = errno;
  ::close(output);
  require(child > 0, "cannot start {}: {}", arguments[0], std::strerror(fork_error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    require(errno == EINTR, "waiting for {}: {}", arguments[0], std::strerror(errno));
  ChildResult result;
  result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.output = std::string(MappedFile(log).text());
  std::error_code error;
  std::filesystem::remove(log, error);
  return result;
}

TemporaryFolder::TemporaryFolder(const std::string& parent, const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  require(std::filesystem::is_directory(parent, error), "{} is no folder and cannot be made one: {}", parent,
          error.message());
  const std::string start = fmt::format(".{}-", name);
  remove_stale(parent, start);
  path_ = (std::filesystem::absolute(parent) / fmt::format("{}{}-XXXXXX", start, ::getpid())).string();
  require(::mkdtemp(path_.data()) != nullptr, "cannot make a folder in {}: {}", parent, std::strerror(errno));
  ::chmod(path_.c_str(), 0755);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace quadrille
