// Standard normal deviates from the streams of NumPy, bit for bit (in the tail beyond 3.65, one in 3000, to the last bit but
// one): PCG64DXSM, and the ziggurat of 256 layers in single precision. A thread for each stream; state (5, streams): the
// state's halves, the increment's halves, and the 32 bits left over from the last draw with a mark at bit 32.

typedef unsigned int u32;
typedef unsigned long long u64;

#define MULTIPLIER 0xda942042e4dd58b5ull
#define EDGE 3.6541528853610088f
#define INVERSE_EDGE 0.27366123732975828f

struct Stream {
    u64 high, low, add_high, add_low, spare;

    __device__ __forceinline__ u32 next()
    {
        if (spare >> 32) {
            u32 kept = (u32)spare;
            spare = 0;
            return kept;
        }
        u64 mixed = high, odd = low | 1;
        mixed ^= mixed >> 32;
        mixed *= MULTIPLIER;
        mixed ^= mixed >> 48;
        mixed *= odd;
        u64 product = low * MULTIPLIER, sum = product + add_low;
        high = high * MULTIPLIER + __umul64hi(low, MULTIPLIER) + add_high + (sum < product);
        low = sum;
        spare = mixed >> 32 | 1ull << 32;
        return (u32)mixed;
    }

    __device__ __forceinline__ float uniform() { return __fmul_rn((float)(next() >> 8), 1.0f / 16777216.0f); }
};

// log(1 - u), rounded once
__device__ __forceinline__ float log_rest(float u) { return (float)log1p(-(double)u); }

// Rows 0 .. n - 1 of `out` (n, k) for the problem of each stream; column of a stream as in messages.cu.
extern "C" __global__ void deviates(const int *chosen, int count, int streams, int n, int k, const float *tables, u64 *state, float *out)
{
    __shared__ float width[256], height[256];
    __shared__ u32 inside[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        width[i] = tables[i];
        height[i] = tables[256 + i];
        inside[i] = (u32)tables[512 + i];
    }
    __syncthreads();
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const int column = chosen[at];
    u64 *own = state + column;
    Stream stream = {own[0], own[streams], own[2 * streams], own[3 * streams], own[4 * streams]};
    out += (size_t)(column / k) * n * k + column % k;
    // one loop without another inside: threads of a warp go on at their own pace, each draw a row or a rejection
    u32 place = 0;
    bool in_tail = false;
    for (int row = 0; row < n;) {
        float x = 0;
        bool taken = false;
        if (!in_tail) {
            const u32 drawn = stream.next(), layer = drawn & 255;
            place = drawn >> 9 & 0x7fffff;
            x = __fmul_rn((float)place, width[layer]);
            if (drawn >> 8 & 1) x = -x;
            taken = place < inside[layer];
            in_tail = !taken && layer == 0;
            if (!taken && layer > 0) {
                const float step = __fadd_rn(height[layer - 1], -height[layer]);
                taken = __fadd_rn(__fmul_rn(step, stream.uniform()), height[layer]) < exp(-0.5 * x * x);
            }
        }
        if (in_tail) {
            const float beyond = __fmul_rn(-INVERSE_EDGE, log_rest(stream.uniform())), other = -log_rest(stream.uniform());
            taken = __fadd_rn(other, other) > __fmul_rn(beyond, beyond);
            x = place >> 8 & 1 ? -__fadd_rn(EDGE, beyond) : __fadd_rn(EDGE, beyond);
            in_tail = !taken;
        }
        if (taken) out[(size_t)row++ * k] = x;
    }
    own[0] = stream.high;
    own[streams] = stream.low;
    own[4 * streams] = stream.spare;
}
