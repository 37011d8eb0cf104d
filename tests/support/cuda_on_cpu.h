// Runs a kernel written in CUDA C on a processor: every thread of a block is a fiber, which yields at a barrier.
//
// Blocks run one after the other and the threads of a block in order, so results are the same each time. What a warp
// does together is not modelled. A barrier that only some threads of a block reach is an error, as on a GPU.
// Products in float32 flush what has fewer than 24 bits to zero, as CuPy lets compilers do (-ftz=true).
#pragma once
// It includes little: <cmath>, <functional> and <memory> take several times as long to compile as a kernel.
#include <float.h>
#include <setjmp.h>
#include <stdlib.h>
#include <ucontext.h>

#include <utility>

extern "C" double sqrt(double);
extern "C" float fminf(float, float);
extern "C" float fmaxf(float, float);

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

inline float flushed(float a) { return __builtin_fabsf(a) < FLT_MIN ? 0.0f : a; }
inline float flushing_fmaf(float a, float b, float c) {
    return flushed(__builtin_fmaf(flushed(a), flushed(b), flushed(c)));
}
#define fmaf flushing_fmaf

template <class Number>
inline Number atomicAdd(Number* place, Number value) {
    const Number before = *place;
    *place += value;
    return before;
}

namespace on_cpu {
constexpr size_t STACK = 1 << 16;

// A context is what a fiber begins with; from then on it is a place to jump to, which takes no call of the system.
struct Fiber {
    ucontext_t context;
    char* stack;
    jmp_buf place;
    bool begun, done;
};
static jmp_buf scheduler;
static Fiber* running;
static void (*body)(const void*);
static const void* told;  // what the body is called with

static void run() {
    body(told);
    running->done = true;
    _longjmp(scheduler, 1);
}

// Until it ends or comes to a barrier.
static void go_on(Fiber& fiber) {
    running = &fiber;
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}

// 0; 1 if some threads of a block have ended while others wait.
static int all_blocks(Index grid, unsigned threads, Fiber* fibers) {
    gridDim = grid;
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
            for (unsigned i = 0; i < threads; i++) {
                Fiber& fiber = fibers[i];
                getcontext(&fiber.context);
                fiber.context.uc_stack.ss_sp = fiber.stack;
                fiber.context.uc_stack.ss_size = STACK;
                fiber.context.uc_link = nullptr;
                fiber.begun = fiber.done = false;
                makecontext(&fiber.context, run, 0);
            }
            for (unsigned ended = 0; ended == 0;) {
                for (unsigned i = 0; i < threads; i++) {
                    threadIdx = {i, 0, 0};
                    go_on(fibers[i]);
                    ended += fibers[i].done;
                }
                if (ended != 0 && ended != threads) return 1;
            }
        }
    return 0;
}

static int launch(Index grid, unsigned threads) {
    Fiber* fibers = (Fiber*)malloc(threads * sizeof(Fiber));
    for (unsigned i = 0; i < threads; i++) fibers[i].stack = (char*)malloc(STACK);
    const int failed = all_blocks(grid, threads, fibers);
    for (unsigned i = 0; i < threads; i++) free(fibers[i].stack);
    free(fibers);
    return failed;
}

template <class... A, size_t... I>
static void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A*>(arguments[I])...);
}

// Arguments by address, as a driver takes them.
template <class... A>
static int launch(void (*kernel)(A...), unsigned x, unsigned y, unsigned threads, void** arguments) {
    const auto called = [=] { call(kernel, arguments, std::index_sequence_for<A...>{}); };
    body = [](const void* own) { (*static_cast<decltype(called)*>(own))(); };
    told = &called;
    return launch(Index{x, y, 1}, threads);
}
}  // namespace on_cpu

inline void __syncthreads() {
    if (!_setjmp(on_cpu::running->place)) _longjmp(on_cpu::scheduler, 1);
}
