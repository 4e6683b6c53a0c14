// What chains need before they walk: packed columns, first weights, levels, and the orders in which sites are visited.

typedef signed char i8;
typedef unsigned short u16;

// Packs some columns of patterns (m, columns) into words (columns, words, threads): slot 4k + b of a thread is bit 8b + k.
extern "C" __global__ void pack_columns(const i8 *patterns, int m, int columns, int words, int threads, u32 *packed)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, word = blockIdx.y / threads, thread = blockIdx.y % threads;
    if (column >= columns) return;
    u32 bits = 0;
    for (int slot = 0; slot < 32; ++slot) {
        long long mu = (long long)(32 * word + slot) * threads + thread;
        if (mu < m && patterns[mu * columns + column] > 0) bits |= 1u << (8 * (slot % 4) + slot / 4);
    }
    packed[((size_t)column * words + word) * threads + thread] = bits;
}

// The same for all columns of several problems, of so many bytes each, from random bits, pattern after pattern and eight to a byte
// with the first in the highest place: 1 stands for +1.
extern "C" __global__ void pack_bits(const unsigned char *drawn, int bytes, int m, int columns, int words, int threads, u32 *packed)
{
    const int blocks = (columns + blockDim.x - 1) / blockDim.x, problem = blockIdx.x / blocks;
    const int column = blockIdx.x % blocks * blockDim.x + threadIdx.x, word = blockIdx.y / threads, thread = blockIdx.y % threads;
    if (column >= columns) return;
    drawn += (size_t)problem * bytes;
    u32 bits = 0;
    for (int slot = 0; slot < 32; ++slot) {
        long long mu = (long long)(32 * word + slot) * threads + thread, place = mu * columns + column;
        if (mu < m && drawn[place >> 3] >> (7 - (int)(place & 7)) & 1) bits |= 1u << (8 * (slot % 4) + slot / 4);
    }
    packed[(((size_t)problem * columns + column) * words + word) * threads + thread] = bits;
}

// The same from words (problems, of_words, columns) that hold 30 constraints each, 1 for +1.
extern "C" __global__ void pack_words(const u32 *given, int of_words, int m, int columns, int words, int threads, u32 *packed)
{
    const int blocks = (columns + blockDim.x - 1) / blockDim.x, problem = blockIdx.x / blocks;
    const int column = blockIdx.x % blocks * blockDim.x + threadIdx.x, word = blockIdx.y / threads, thread = blockIdx.y % threads;
    if (column >= columns) return;
    given += (size_t)problem * of_words * columns + column;
    u32 bits = 0;
    for (int slot = 0; slot < 32; ++slot) {
        int mu = (32 * word + slot) * threads + thread;
        if (mu < m && given[(size_t)(mu / 30) * columns] >> mu % 30 & 1) bits |= 1u << (8 * (slot % 4) + slot / 4);
    }
    packed[(((size_t)problem * columns + column) * words + word) * threads + thread] = bits;
}

// First weights of each chain: fair signs from the stream of its number.
extern "C" __global__ void first_weights(const u64 *keys, const int *instance_of, const int *number_of, int n, i8 *weights)
{
    int chain = blockIdx.x, block = blockIdx.y * blockDim.x + threadIdx.x;
    if (128 * block >= n) return;
    Block drawn = philox(block, 0, number_of[chain], START, keys[instance_of[chain]]);
    u32 word[4] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int k = 0; k < 128 && 128 * block + k < n; ++k)
        weights[(size_t)chain * n + 128 * block + k] = word[k / 32] >> (k % 32) & 1 ? 1 : -1;
}

// Levels of one word's 32 slots: the number of columns with x w > 0, less `base` - 1. Padding counts as patterns of -1.
extern "C" __global__ void place(const u32 *packed, const int *instance_of, const i8 *weights, int n, int words, int threads,
                                 int slots, int base, u16 *levels)
{
    int chain = blockIdx.x, at = blockIdx.y * blockDim.x + threadIdx.x, word = at / threads, thread = at % threads;
    if (word >= words) return;
    const u32 *column = packed + ((size_t)instance_of[chain] * n * words + word) * threads + thread;
    const i8 *weight = weights + (size_t)chain * n;
    int count[32] = {0};
    for (int first = 0; first < n; first += 255) {
        u32 bytes[8] = {0};
        int last = min(first + 255, n);
        for (int i = first; i < last; ++i) {
            u32 bits = column[(size_t)i * words * threads];
            if (weight[i] < 0) bits = ~bits;
#pragma unroll
            for (int k = 0; k < 8; ++k) bytes[k] += bits >> k & 0x01010101u;
        }
#pragma unroll
        for (int slot = 0; slot < 32; ++slot) count[slot] += bytes[slot / 4] >> (8 * (slot % 4)) & 255u;
    }
#pragma unroll
    for (int slot = 0; slot < 32; ++slot)
        if (32 * word + slot < slots)
            levels[((size_t)chain * slots + 32 * word + slot) * threads + thread] = count[slot] + 1 - base;
}

// How many of the first m levels of each of some weights, (k, length), are not among the `width` from `first` on.
extern "C" __global__ void unmet(const u16 *levels, int length, int m, int first, int width, int *counts)
{
    const u16 *own = levels + (size_t)blockIdx.x * length;
    int count = 0;
    for (int mu = threadIdx.x; mu < m; mu += blockDim.x) count += own[mu] < first || own[mu] >= first + width;
    atomicAdd(counts + blockIdx.x, count);
}

// Energies of chains from their levels (k, length), each at the stage that it is asked for; a block of 128 to a chain.
extern "C" __global__ void weigh(const u16 *levels, int length, int m, const int *stage_of, const int *energies, int size,
                                 long long *energy_of)
{
    __shared__ long long part[128];
    const int thread = threadIdx.x;
    const u16 *own = levels + (size_t)blockIdx.x * length;
    const int *at = energies + (size_t)stage_of[blockIdx.x] * size;
    long long sum = 0;
    for (int mu = thread; mu < m; mu += 128) sum += at[own[mu]];
    part[thread] = sum;
    for (int half = 64; half; half /= 2) {
        __syncthreads();
        if (thread < half) part[thread] += part[thread + half];
    }
    if (thread == 0) energy_of[blockIdx.x] = part[0];
}

// Exchanges of neighbouring rungs (0, 1), (2, 3), ... or, where `odd`, (1, 2), (3, 4), ... after a sweep, a block to a ladder: what
// `annealing/exchange.py` does on the host, in the same arithmetic. `rows` (rungs, width) has the replica at each rung of each
// ladder; their energies are `own` where they are and `other` at their partner's rung. Luck and records are those of sweep `at`.
extern "C" __global__ void exchange(int rungs, int odd, int at, int sweeps, int width, const double *kt, const double *luck,
                                    const long long *own, const long long *other, const int *flips, int *rows, int *stage,
                                    int *partner, int *swaps, i8 *way, long long *trips, int *accepted, long long *energy)
{
    const int ladder = blockIdx.x, ladders = gridDim.x, last = (rungs - 1) * width + ladder;
    const int before = rows[last];
    luck += ((size_t)at * ladders + ladder) * (rungs - 1);
    __syncthreads();
    for (int rung = odd + 2 * threadIdx.x; rung + 1 < rungs; rung += 2 * blockDim.x) {
        int *upper = rows + rung * width + ladder, *lower = upper + width, a = *upper, b = *lower;
        const double here = kt[rung], there = kt[rung + 1];
        const double rise = __dadd_rn(__ddiv_rn((double)other[a], there), -__ddiv_rn((double)own[a], here));
        const double fall = __dadd_rn(__ddiv_rn((double)other[b], here), -__ddiv_rn((double)own[b], there));
        if (__dadd_rn(rise, fall) <= luck[rung]) {
            *upper = b;
            *lower = a;
            stage[a] = rung + 1;
            stage[b] = rung;
            atomicAdd(swaps + rung, 1);
        }
    }
    __syncthreads();
    for (int rung = threadIdx.x; rung < rungs; rung += blockDim.x) {  // partners of the next sweep
        const int upper = (rung + odd) % 2;
        partner[rows[rung * width + ladder]] = upper ? min(rung + 1, rungs - 1) : max(rung - 1, 0);
    }
    if (threadIdx.x == 0) {
        const int top = rows[ladder], bottom = rows[last], record = ladder * sweeps + at;
        accepted[record] = flips[before];
        energy[record] = bottom == before ? own[bottom] : other[bottom];
        if (way[top] == 1) way[top] = 2;
        trips[ladder] += way[bottom] == 2;
        way[bottom] = 1;
    }
}

// Stabilities, sums of x w, of chains from columns of twice the patterns in fixed point, (problems, n, size), which are even.
extern "C" __global__ void add_columns(const int *columns, const int *instance_of, const i8 *weights, int n, int size, int *states)
{
    int chain = blockIdx.x, mu = blockIdx.y * blockDim.x + threadIdx.x;
    if (mu >= size) return;
    const int *column = columns + (size_t)instance_of[chain] * n * size + mu;
    const i8 *weight = weights + (size_t)chain * n;
    int sum = 0;
#pragma unroll 8
    for (int i = 0; i < n; ++i) {
        int half = column[(size_t)i * size] >> 1;
        sum += weight[i] > 0 ? half : -half;
    }
    states[(size_t)chain * size + mu] = sum;
}

__device__ __forceinline__ u32 warp_or(u32 x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(0xffffffffu, x);
#else
    for (int step = 16; step; step /= 2) x |= __shfl_xor_sync(0xffffffffu, x, step);
    return x;
#endif
}

// A permutation of the sites for each instance (blockIdx.y) and sweep (blockIdx.x): Fisher-Yates, by a warp. Its lanes make the
// next exchanges at once, up to the first that touches a site of one before it. In shared memory if `inside`, else in place.
// Rows are padded with site 0.
extern "C" __global__ void site_orders(const u64 *keys, int n, int first_sweep, int row_length, int inside, int *orders)
{
    extern __shared__ int sites[];
    __shared__ u32 drawn[128];
    int *row = orders + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * row_length, *site = inside ? sites : row;
    const u64 key = keys[blockIdx.y];
    const int lane = threadIdx.x;
    for (int i = lane; i < (inside ? n : row_length); i += 32) site[i] = i < n ? i : 0;
    for (int last = (n - 1) / 128; last >= 0; --last) {
        Block block = philox(32 * last + lane, first_sweep + blockIdx.x, 0, ORDER, key);
        __syncwarp();
        drawn[4 * lane] = block.a;
        drawn[4 * lane + 1] = block.b;
        drawn[4 * lane + 2] = block.c;
        drawn[4 * lane + 3] = block.d;
        __syncwarp();
        const int lowest = max(1, 128 * last);
        for (int high = min(n - 1, 128 * last + 127); high >= lowest;) {
            const int i = high - lane;
            const bool there = i >= lowest;
            const int j = there ? (int)((u64)drawn[i % 128] * (u64)(i + 1) >> 32) : -1 - lane;
            const int meets = high - j; // the lane whose i this j is
            const u32 met = warp_or(there && meets > lane && meets < 32 ? 1u << meets : 0u);
            const u32 before = __match_any_sync(0xffffffffu, j) & ((1u << lane) - 1);
            const u32 waiting = __ballot_sync(0xffffffffu, !there || before || met >> lane & 1u);
            const int count = waiting ? __ffs(waiting) - 1 : 32;
            if (lane < count) {
                const int here = site[i], other = site[j];
                site[i] = other;
                site[j] = here;
            }
            __syncwarp();
            high -= count;
        }
    }
    __syncwarp();
    if (inside)
        for (int i = lane; i < row_length; i += 32) row[i] = i < n ? sites[i] : 0;
}
