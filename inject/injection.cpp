// The library that CUDA loads into a program when CUDA_INJECTION64_PATH names it: it calls InitializeInjection from cuInit.

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "cupti_api.hpp"
#include "recording.hpp"

namespace {

using foretrace::inject::Recording;

// Never destroyed: CUPTI's threads and exit handlers may still use it.
Recording* recording = nullptr;
pid_t owner = 0;
sem_t interrupted;
volatile sig_atomic_t interrupted_by = 0;

constexpr int kWatched[] = {SIGINT, SIGTERM, SIGHUP};

void at_exit() {
  if (recording != nullptr && getpid() == owner) recording->finish();
}

void on_signal(int number) {
  if (getpid() != owner) {  // a copy made by fork that in_child has not reached yet: it has no thread to wake
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(number, &usual, nullptr);
    kill(getpid(), number);
    return;
  }
  interrupted_by = number;
  sem_post(&interrupted);  // nothing else may be done in a handler
}

/// Waits for an interruption, writes the file, then lets the signal do what it would have done.
void watch() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the program's threads' to take
  while (sem_wait(&interrupted) != 0 && errno == EINTR) {
  }
  const int number = interrupted_by;
  if (getpid() == owner) recording->finish();
  struct sigaction usual = {};
  usual.sa_handler = SIG_DFL;
  sigaction(number, &usual, nullptr);
  kill(getpid(), number);
}

/// A copy made by fork has no thread that waits for interruptions: it must end by them as it would.
void in_child() {
  if (recording != nullptr) recording->forget();
  for (const int number : kWatched) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != on_signal)
      continue;
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(number, &usual, nullptr);
  }
}

/// Only signals that nobody handles: they would end the program without a word to anyone.
void watch_interruptions() {
  if (sem_init(&interrupted, 0, 0) != 0) return;
  bool any = false;
  for (const int number : kWatched) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
      continue;
    struct sigaction ours = {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_RESTART;
    any = sigaction(number, &ours, nullptr) == 0 || any;
  }
  if (any) std::thread(watch).detach();
}

void begin() {
  const foretrace::inject::Settings settings = foretrace::inject::settings_from_environment();
  if (settings.output.empty()) return;
  // Frameworks with a profiler of their own listen to CUPTI themselves, which only one can; `foretrace record` drives those.
  // CUDA may be asked for its version long before the part that profiles is loaded, so any part of theirs will do.
  if (settings.stands_aside) return;
  if (!settings.forced) {
    for (const char* part :
         {"libtorch_", "libc10", "jaxlib/", "jax_cuda", "xla_cuda_plugin", "xla_extension", "libtensorflow"}) {
      if (foretrace::inject::is_loaded(part)) return;
    }
  }
  owner = getpid();
  recording = new Recording(settings);
  if (!recording->begin()) return;
  std::atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child);
  watch_interruptions();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  static bool begun = false;
  if (!begun) {
    begun = true;
    try {
      begin();
    } catch (...) {  // the program must not notice
    }
  }
  return 1;  // CUDA goes on, whatever happened here
}
