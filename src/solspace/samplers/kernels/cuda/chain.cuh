// The threads of a chain: how they add up, and how they lay out a tile of proposals. The host sets WARPS, the warps of a chain,
// and GROUP, the chains of a block (one unless WARPS is 1), and FIELD where the weights feel one.

#define THREADS (32 * WARPS)
#define TILE (2 * THREADS)
#define ALL 0xffffffffu
#define SIGN 0x80000000u
#define SPARE 24 // proposals beyond a tile that may be read ahead

typedef unsigned short u16;
typedef signed char i8;

__device__ __forceinline__ int warp_sum(int x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(ALL, x);
#else
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(ALL, x, step);
    return x;
#endif
}

__device__ __forceinline__ void chain_sync()
{
    if (WARPS == 1) __syncwarp(); else __syncthreads();
}

// Which chain of the block a thread belongs to. All threads of a warp have the same, and by way of lane 0 the compiler knows: it
// then need not provide for a warp whose threads part.
__device__ __forceinline__ int chain_in_block() { return WARPS == 1 ? __shfl_sync(ALL, (int)threadIdx.x / THREADS, 0) : 0; }

// Sums over the threads of a chain. Two rows of shared memory take turns, so that one barrier a sum is enough.
struct Exchange {
    int *shared;
    int turn, warp, lane;

    static constexpr int width = 4 * WARPS, size = 2 * width;

    __device__ __forceinline__ int *row()
    {
        turn ^= 1;
        return shared + turn * width;
    }

    // up to four sums at once
    template <int count> __device__ __forceinline__ void sums(int (&x)[count])
    {
#pragma unroll
        for (int d = 0; d < count; ++d) x[d] = warp_sum(x[d]);
        if (WARPS == 1) return;
        int *part = row();
        if (lane == 0)
#pragma unroll
            for (int d = 0; d < count; ++d) part[d * WARPS + warp] = x[d];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < count; ++d) x[d] = warp_sum(lane < WARPS ? part[d * WARPS + lane] : 0);
    }

    __device__ __forceinline__ int sum(int x)
    {
        int one[1] = {x};
        sums(one);
        return one[0];
    }

    // x and y become their sums, any becomes true if it is for some thread.
    __device__ __forceinline__ void sum(int &x, int &y, bool &any)
    {
        x = warp_sum(x);
        y = warp_sum(y);
        any = __any_sync(ALL, any);
        if (WARPS == 1) return;
        int *part = row();
        if (lane == 0) { part[warp] = x; part[WARPS + warp] = y; part[2 * WARPS + warp] = any; }
        __syncthreads();
        x = warp_sum(lane < WARPS ? part[lane] : 0);
        y = warp_sum(lane < WARPS ? part[WARPS + lane] : 0);
        any = __any_sync(ALL, lane < WARPS && part[2 * WARPS + lane]);
    }

    __device__ __forceinline__ void sum(int &x, bool &any)
    {
        int nothing = 0;
        sum(nothing, x, any);
    }

    __device__ __forceinline__ bool any(bool x)
    {
        int nothing = 0;
        sum(nothing, x);
        return x;
    }

    // 64-bit sums of numbers below 2^52 in size: the lower 20 bits and the rest apart.
    __device__ __forceinline__ long long sum(long long x)
    {
        int low = (int)(x & 0xfffff), high = (int)(x >> 20);
        bool none = false;
        sum(low, high, none);
        return ((long long)high << 20) + low;
    }
};

// Copies of 16 bytes from global to shared memory that come in while the thread goes on, in groups; the emulation has its own.
#ifndef EMULATED
__device__ __forceinline__ void copy_async(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from));
#else
    *(int4 *)to = *(const int4 *)from;
#endif
}

__device__ __forceinline__ void commit_async()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Waits for all groups of copies but the last.
__device__ __forceinline__ void await_async()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

__device__ __forceinline__ void await_async_all()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncwarp();
}

// What was read from shared memory before is not read again later, where a copy may have changed it.
__device__ __forceinline__ void forget_loads() { asm volatile("" ::: "memory"); }
#endif

// What a chain is and where it lies.
struct Chain {
    int number, instance;
    u64 key;
    i8 *weights;
    const double *field; // h of the measure p(w) exp(h w), read where FIELD is set
};

// What a weight's field adds to the energy of its flip, taken off the threshold; as the processor does it, in 64 bits.
__device__ __forceinline__ int pulled(int threshold, const Chain &chain, int site, double kt)
{
#if FIELD
    long long pull = (long long)rint(__dmul_rn(__dmul_rn(2.0, kt), chain.field[site]));
    long long left = threshold - (chain.weights[site] > 0 ? pull : -pull);
    return (int)(left > 2147483647ll ? 2147483647ll : left < -2147483647ll ? -2147483647ll : left);
#else
    return threshold;
#endif
}

// The next proposals of a chain: x is the site, its highest bit the sign of the weight, y the threshold; beyond the sweep's end
// nothing passes. In a sweep every site comes once, so that its weight can be read ahead of its turn.
__device__ __forceinline__ void lay_tile(const Chain &chain, const int *order, int first, int n, u32 sweep, double kt, bool bath,
                                         int thread, int2 *proposal)
{
    chain_sync();
    const int k = first + 2 * thread;
    Block drawn = philox(k / 2, sweep, chain.number, ACCEPTANCE, chain.key);
    int2 site = *(const int2 *)(order + k);
    int4 both;
    both.x = site.x | (chain.weights[site.x] & SIGN);
    both.y = k < n ? pulled(threshold(drawn.a, drawn.b, kt, bath), chain, site.x, kt) : NEVER;
    both.z = site.y | (chain.weights[site.y] & SIGN);
    both.w = k + 1 < n ? pulled(threshold(drawn.c, drawn.d, kt, bath), chain, site.y, kt) : NEVER;
    ((int4 *)proposal)[thread] = both;
    if (thread < SPARE) proposal[TILE + thread] = {0, NEVER};
    chain_sync();
}
