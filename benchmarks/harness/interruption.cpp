// SPDX-License-Identifier: Apache-2.0
// See interruption.h.
#include "benchmarks/harness/interruption.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string_view>

namespace quadrille {

namespace {

// A handler has no other way to its data than a global, and may call nothing but write and _exit.
std::atomic<int> received = 0;
std::atomic<bool> on_terminal = false;
static_assert(std::atomic<int>::is_always_lock_free);

void say(std::string_view text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

void leave(int signal) {
  if (received.exchange(signal) == 0) {
    if (on_terminal) say("\n");  // below the live line
    say("quadrille: error: the run was interrupted by ");
    say(signal == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM");
    say(" before it had ended: there is no result\n");
  }
  _exit(128 + signal);
}

void note(int signal) {
  if (received.exchange(signal) != 0) _exit(128 + signal);
}

void install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

}  // namespace

void leave_on_signals() {
  on_terminal = isatty(STDERR_FILENO) == 1;
  install(leave);
}

const std::atomic<int>* note_signals() {
  install(note);
  return &received;
}

}  // namespace quadrille
