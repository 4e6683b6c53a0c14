// Enough of CUDA on a processor to run the package's kernels, thread by thread, for tests where there is no device.
// A block's threads are fibres that take turns; a barrier hands the turn on until all have come.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __CUDA_ARCH__ 900
#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct Place { int x, y; };
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
using std::max;
using std::min;

static Place threadIdx, blockIdx, blockDim, gridDim;
static char shared_memory[1 << 18] __attribute__((aligned(16)));

struct Fibre { ucontext_t context; std::vector<char> stack; bool done; };
static std::vector<Fibre> fibres;
static ucontext_t home;
static int current;
static const std::function<void()> *body;

static void enter() { (*body)(); fibres[current].done = true; swapcontext(&fibres[current].context, &home); }
static void yield() { swapcontext(&fibres[current].context, &home); }

struct Barrier { int arrived = 0; unsigned generation = 0; };
static Barrier of_block, of_warp[32];
static long long given[1024], results[32];

static int alive(int first, int count)
{
    int n = 0;
    for (int k = first; k < first + count; ++k) n += !fibres[k].done;
    return n;
}

static void wait(Barrier &barrier, int first, int count)
{
    unsigned now = barrier.generation;
    ++barrier.arrived;
    while (barrier.generation == now) {
        if (barrier.arrived >= alive(first, count)) { barrier.arrived = 0; ++barrier.generation; break; }
        yield();
    }
}

inline void __syncthreads() { wait(of_block, 0, blockDim.x * blockDim.y); }
inline void __syncwarp() { int warp = current / 32; wait(of_warp[warp], 32 * warp, 32); }

template <class Combine> static long long across_warp(long long x, Combine combine)
{
    int warp = current / 32;
    given[current] = x;
    __syncwarp();
    long long result = given[32 * warp];
    for (int k = 1; k < 32; ++k) result = combine(result, given[32 * warp + k]);
    __syncwarp();
    return result;
}
inline int __reduce_add_sync(unsigned, int x) { return (int)across_warp(x, [](long long a, long long b) { return a + b; }); }
inline int __any_sync(unsigned, bool x) { return (int)across_warp(x, [](long long a, long long b) { return a | b; }); }
inline unsigned __reduce_or_sync(unsigned, unsigned x)
{
    return (unsigned)across_warp(x, [](long long a, long long b) { return a | b; });
}
inline unsigned __ballot_sync(unsigned all, bool x) { return __reduce_or_sync(all, x ? 1u << current % 32 : 0u); }
inline unsigned __match_any_sync(unsigned, int x)
{
    const int warp = current / 32;
    unsigned found = 0;
    given[current] = x;
    __syncwarp();
    for (int k = 0; k < 32; ++k) found |= (given[32 * warp + k] == x ? 1u : 0u) << k;
    __syncwarp();
    return found;
}
inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
inline int __shfl_sync(unsigned, int x, int lane)
{
    given[current] = x;
    __syncwarp();
    int result = (int)given[current / 32 * 32 + lane];
    __syncwarp();
    return result;
}

// Copies of 16 bytes that are made as late as the thread that requested them allows.
struct Copy { void *to; const void *from; };
static std::vector<std::vector<Copy>> groups[1024];
inline void open_group() { if (groups[current].empty()) groups[current].emplace_back(); }
inline void copy_async(void *to, const void *from) { open_group(); groups[current].back().push_back({to, from}); }
inline void commit_async() { open_group(); groups[current].emplace_back(); }
inline void await_groups(size_t but)
{
    auto &own = groups[current];
    for (; own.size() > but + 1; own.erase(own.begin()))
        for (const Copy &copy : own.front()) std::memcpy(copy.to, copy.from, 16);
}
inline void await_async() { await_groups(1); }
inline void await_async_all() { commit_async(); await_groups(0); __syncwarp(); }
inline void forget_loads() {}

template <class T> T __ldg(const T *p) { return *p; }
inline int half_of(int x, int k) { return (int16_t)((uint32_t)x >> (16 * k)); }
inline int byte_of(int x, int k) { return (int8_t)((uint32_t)x >> (8 * k)); }
inline int __dp2a_lo(int a, int b, int c) { return c + half_of(a, 0) * byte_of(b, 0) + half_of(a, 1) * byte_of(b, 1); }
inline int __dp2a_hi(int a, int b, int c) { return c + half_of(a, 0) * byte_of(b, 2) + half_of(a, 1) * byte_of(b, 3); }
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t s)
{
    uint64_t both = (uint64_t)y << 32 | x;
    uint32_t r = 0;
    for (int k = 0; k < 4; ++k) r |= (uint32_t)(both >> (8 * (s >> (4 * k) & 7)) & 255) << (8 * k);
    return r;
}
inline uint32_t __vadd2(uint32_t a, uint32_t b) { return ((a + b) & 0xffffu) | ((a & 0xffff0000u) + (b & 0xffff0000u)); }
inline uint32_t __vmaxu2(uint32_t a, uint32_t b)
{
    return max(a & 0xffffu, b & 0xffffu) | max(a & 0xffff0000u, b & 0xffff0000u);
}
inline int atomicAdd(int *p, int x) { int old = *p; *p += x; return old; }
inline int atomicSub(int *p, int x) { int old = *p; *p -= x; return old; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline unsigned __brev(unsigned x)
{
    unsigned y = 0;
    for (int j = 0; j < 32; ++j) y |= (x >> j & 1u) << (31 - j);
    return y;
}
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline int __double2int_rz(double x) { return (int)x; }
inline int __double2int_rd(double x) { return (int)floor(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline float __int2float_rn(int x) { return (float)x; }
template <class To, class From> To bits_as(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
inline float __uint_as_float(uint32_t x) { return bits_as<float>(x); }
inline uint32_t __float_as_uint(float x) { return bits_as<uint32_t>(x); }

static void run(int grid_x, int grid_y, int block_x, int block_y, const std::function<void()> &kernel)
{
    const int block = block_x * block_y;
    body = &kernel;
    blockDim = {block_x, block_y};
    gridDim = {grid_x, grid_y};
    for (int y = 0; y < grid_y; ++y)
        for (int x = 0; x < grid_x; ++x) {
            blockIdx = {x, y};
            fibres.resize(block);
            for (auto &own : groups) own.clear();
            for (Fibre &fibre : fibres) {
                fibre.done = false;
                fibre.stack.resize(1 << 16);
                getcontext(&fibre.context);
                fibre.context.uc_stack.ss_sp = fibre.stack.data();
                fibre.context.uc_stack.ss_size = fibre.stack.size();
                fibre.context.uc_link = nullptr;
                makecontext(&fibre.context, enter, 0);
            }
            for (int left = block; left;)
                for (int k = left = 0; k < block; ++k)
                    if (!fibres[k].done) {
                        current = k;
                        threadIdx = {k % block_x, k / block_x};
                        swapcontext(&home, &fibres[k].context);
                        left += !fibres[k].done;
                    }
        }
}
