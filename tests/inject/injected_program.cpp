// Does what a CUDA program does when CUDA_INJECTION64_PATH names a library, without CUDA: loads it, calls its entry, works, ends.
//   injected_program exit CODE | crash | wait | fork
#include <dlfcn.h>
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
  std::puts("works");
  std::fflush(stdout);
  const char* end = argc > 1 ? argv[1] : "exit";
  if (std::strcmp(end, "crash") == 0) std::abort();
  if (std::strcmp(end, "wait") == 0) {
    for (;;) pause();
  }
  if (std::strcmp(end, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) std::exit(0);  // its exit handlers must not write the file
    int status = 0;
    waitpid(child, &status, 0);
    if (const char* out = std::getenv("FORETRACE_CUDA_OUTPUT"); out != nullptr && access(out, F_OK) == 0) return 97;
  }
  std::exit(argc > 2 ? std::atoi(argv[2]) : 0);
}
