// Does what a CUDA program does when CUDA_INJECTION64_PATH names a library, without CUDA: loads it, calls its entry, works, ends.
//   injected_program exit CODE | crash | kill | leave CODE | exec CODE | wait | handles | fork | fork-wait
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  void* library = path != nullptr ? dlopen(path, RTLD_NOW) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 99;
  }
  using Entry = int (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "InitializeInjection"));
  if (entry == nullptr || entry() != 1 || entry() != 1) return 98;
  const char* end = argc > 1 ? argv[1] : "exit";
  const auto is = [&](const char* what) { return std::strcmp(end, what) == 0; };
  if (is("handles")) {
    signal(SIGTERM, [](int) {
      (void)!write(STDOUT_FILENO, "handled\n", 8);
      std::exit(9);  // as bad a habit as it is a common one
    });
  }
  std::puts("works");
  std::fflush(stdout);
  if (is("crash")) std::abort();
  if (is("kill")) kill(getpid(), SIGKILL);
  if (is("leave")) _exit(argc > 2 ? std::atoi(argv[2]) : 0);
  if (is("exec")) {
    char plain[] = "exit";
    argv[1] = plain;
    execv(argv[0], argv);
  }
  if (is("fork-wait")) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    kill(child, SIGTERM);  // at once: it may not have come back from fork yet
    int status = 0;
    for (int i = 0; i < 100 && waitpid(child, &status, WNOHANG) == 0; ++i) usleep(50'000);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM) {
      kill(child, SIGKILL);
      return 96;
    }
  }
  if (is("wait") || is("handles")) {
    for (;;) pause();
  }
  if (is("fork")) {
    const pid_t child = fork();
    if (child == 0) std::exit(0);  // its exit handlers must not write the file
    int status = 0;
    waitpid(child, &status, 0);
    if (const char* out = std::getenv("FORETRACE_CUDA_OUTPUT"); out != nullptr && access(out, F_OK) == 0) return 97;
  }
  std::exit(argc > 2 ? std::atoi(argv[2]) : 0);
}
