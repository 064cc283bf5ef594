// A CUDA program that does one of everything the injection library records, a known number of times, and then ends in the way it
// is told to. gpu_check.py runs it on a GPU and compares what it says it did with what was recorded.
//   gpu_program exit CODE | _exit | abort | segv | wait | fork | thread
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#define CHECK(call)                                                              \
  do {                                                                           \
    const cudaError_t error = (call);                                            \
    if (error != cudaSuccess) {                                                  \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));        \
      std::exit(99);                                                             \
    }                                                                            \
  } while (0)

namespace {

constexpr int kSteps = 20, kNumbers = 1 << 20, kGraphKernels = 3;

__global__ void scale(float* x, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * by + 1.0f;
}

__global__ void add(float* to, const float* from, int n) {
  __shared__ float tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? from[i] : 0.0f;
  __syncthreads();
  if (i < n) to[i] += tile[threadIdx.x];
}

void work() {
  float *a = nullptr, *b = nullptr, *host = nullptr;
  cudaStream_t first, second;
  cudaEvent_t done;
  CHECK(cudaMalloc(&a, kNumbers * sizeof(float)));
  CHECK(cudaMalloc(&b, kNumbers * sizeof(float)));
  CHECK(cudaMallocHost(&host, kNumbers * sizeof(float)));
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  std::memset(host, 0, kNumbers * sizeof(float));
  const dim3 grid(kNumbers / 256), block(256);

  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kGraphKernels; ++i) scale<<<grid, block, 0, first>>>(a, kNumbers, 0.5f);
  CHECK(cudaStreamEndCapture(first, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));

  for (int step = 0; step < kSteps; ++step) {
    nvtxRangePushA(("step " + std::to_string(step)).c_str());
    nvtxRangePushA("forward");
    CHECK(cudaMemcpyAsync(a, host, kNumbers * sizeof(float), cudaMemcpyHostToDevice, first));
    scale<<<grid, block, 0, first>>>(a, kNumbers, 2.0f);
    CHECK(cudaEventRecord(done, first));
    CHECK(cudaStreamWaitEvent(second, done, 0));
    CHECK(cudaMemsetAsync(b, 0, kNumbers * sizeof(float), second));
    add<<<grid, block, 0, second>>>(b, a, kNumbers);
    nvtxRangePop();
    nvtxRangePushA("update \"\xc3\xa9\"");
    float* more = nullptr;
    CHECK(cudaMallocAsync(&more, kNumbers * sizeof(float), second));
    CHECK(cudaMemcpyAsync(more, b, kNumbers * sizeof(float), cudaMemcpyDeviceToDevice, second));
    CHECK(cudaFreeAsync(more, second));
    CHECK(cudaGraphLaunch(ready, first));
    CHECK(cudaMemcpyAsync(host, b, kNumbers * sizeof(float), cudaMemcpyDeviceToHost, second));
    CHECK(cudaEventSynchronize(done));
    CHECK(cudaStreamSynchronize(second));
    CHECK(cudaStreamSynchronize(first));
    nvtxMarkA("here");
    nvtxRangePop();
    nvtxRangePop();
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string end = argc > 1 ? argv[1] : "exit";
  if (end == "thread") {
    std::thread(work).join();
  } else {
    work();
  }
  std::printf("{\"steps\": %d, \"kernels\": %d, \"graph_kernels\": %d, \"copies\": %d, \"fills\": %d, \"ranges\": %d, "
              "\"event_records\": %d, \"waits\": %d}\n",
              kSteps, 2 * kSteps, kGraphKernels * kSteps, 3 * kSteps, kSteps, 3 * kSteps, kSteps, kSteps);
  std::fflush(stdout);
  if (end == "_exit") _exit(5);
  if (end == "abort") std::abort();
  if (end == "segv") raise(SIGSEGV);
  if (end == "wait") {
    for (;;) pause();
  }
  if (end == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : 98;
  }
  return argc > 2 ? std::atoi(argv[2]) : 0;
}
