// Runs a kernel written in CUDA C on a processor: every thread of a block is a fiber, which yields at a barrier.
//
// Blocks run one after the other and the threads of a block in order, so results are the same each time. What a warp
// does together is not modelled. A barrier that only some threads of a block reach is an error, as on a GPU.
// Products in float32 flush what has fewer than 24 bits to zero, as CuPy lets compilers do (-ftz=true).
#pragma once
#include <ucontext.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define DYNAMIC_SHARED(type, name) alignas(16) static type name[1 << 18]

struct float4 {
    float x, y, z, w;
};
struct Index {
    unsigned x, y, z;
};
static Index threadIdx, blockIdx, gridDim;

inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }

inline float flushed(float a) { return std::fabs(a) < FLT_MIN ? 0.0f : a; }
inline float flushing_fmaf(float a, float b, float c) {
    return flushed(std::fma(flushed(a), flushed(b), flushed(c)));
}
#define fmaf flushing_fmaf

template <class Number>
inline Number atomicAdd(Number* place, Number value) {
    const Number before = *place;
    *place += value;
    return before;
}

namespace on_cpu {
struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done;
};
static ucontext_t scheduler;
static Fiber* running;
static std::function<void()> body;

static void run() {
    body();
    running->done = true;
}

// 0; 1 if some threads of a block have ended while others wait.
static int launch(Index grid, unsigned threads) {
    gridDim = grid;
    std::vector<Fiber> fibers(threads);
    for (auto& fiber : fibers) fiber.stack.resize(1 << 16);
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
            for (auto& fiber : fibers) {
                getcontext(&fiber.context);
                fiber.context.uc_stack.ss_sp = fiber.stack.data();
                fiber.context.uc_stack.ss_size = fiber.stack.size();
                fiber.context.uc_link = &scheduler;
                fiber.done = false;
                makecontext(&fiber.context, run, 0);
            }
            for (unsigned ended = 0; ended == 0;) {
                for (unsigned i = 0; i < threads; i++) {
                    running = &fibers[i];
                    threadIdx = {i, 0, 0};
                    swapcontext(&scheduler, &fibers[i].context);
                    ended += fibers[i].done;
                }
                if (ended != 0 && ended != threads) return 1;
            }
        }
    return 0;
}

template <class... A, std::size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(arguments[I])...);
}

// Arguments by address, as a driver takes them.
template <class... A>
static int launch(void (*kernel)(A...), unsigned x, unsigned y, unsigned threads, void** arguments) {
    body = [=] { call(kernel, arguments, std::index_sequence_for<A...>{}); };
    return launch(Index{x, y, 1}, threads);
}
}  // namespace on_cpu

inline void __syncthreads() { swapcontext(&on_cpu::running->context, &on_cpu::scheduler); }
