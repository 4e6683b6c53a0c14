// Single flips of +-1 weights on +-1 patterns, in integers: the algorithm of kernels/flips_integer.py, chain for chain.
//
// Thread t of a chain's THREADS owns the constraints t, t + THREADS, ...: its slots. What a proposal reads, the field C of
// these slots, lies in registers as PAIRS pairs of int16; a column's bits for 32 slots are one word, slot 4k + b at bit 8b + k, so
// that (word >> k) & 0x01010101 are the four bytes by which dp2a selects. A flip moves the levels (registers, or shared memory
// if LEVELS_SHARED) and reads C anew from the table in shared memory. BATCH proposals are summed at a time, as if those
// before them were refused: while a chain moves rarely, that saves it waiting. Columns come into a ring in shared memory, HOP at
// a time and two hops ahead; where a column is one word to each lane of a warp (DIRECT), into registers AHEAD proposals ahead,
// which takes half the instructions and is soon enough beside many other chains.
//
// Set by the host: PAIRS; UNIT, 2 when twice a level fits 16 bits, so that it is the place in the table, else 1; SOLVE;
// LEVELS_SHARED; DIRECT, with a BATCH of 1 or 2; BATCH (1, 2 or 4); HOP (BATCH to 8, 0 where DIRECT); WINDOW, the levels kept in the table,
// and GUARDED, whether that is not all there are; RESIDENT, the blocks a multiprocessor should hold.

#define WORDS ((2 * PAIRS + 31) / 32)
#define COLUMN (4 * WORDS * THREADS)
constexpr int unrolled = PAIRS > 24 ? 1 : 2; // proposals written out one after another
#define RING (4 * HOP)
#define AHEAD 4
#define EDGE 64

// A flip takes the levels down of those slots whose bit is 1 if the weight is 1, and of the others if it is -1. Bytes 0/1 of the
// four slots of plane k: 1 where the level falls; and where it rises.
__device__ __forceinline__ u32 plane(const u32 *words, int k, int turned) { return ((words[k / 8] >> (k % 8)) ^ turned) & 0x01010101u; }
__device__ __forceinline__ u32 falling(const u32 *words, int k, int here) { return plane(words, k, here >> 31); }
__device__ __forceinline__ u32 rising(const u32 *words, int k, int here) { return plane(words, k, ~(here >> 31)); }

#if !DIRECT
// Asks for the columns of HOP proposals from `first` on, sixteen bytes a lane and request; a warp fetches what its lanes read.
__device__ __forceinline__ void ask(const int2 *proposal, int first, u64 bits, u32 *ring, int lane)
{
#pragma unroll
    for (int k = 0; k < (HOP * WORDS + 3) / 4; ++k) {
        if (HOP * WORDS % 4 && 32 * k + lane >= 8 * HOP * WORDS) break;
        const int chunk = (32 * k + lane) % 8, line = (32 * k + lane) / 8, p = first + line / WORDS, q = line % WORDS;
        const u64 from = bits + (u64)(proposal[p].x & ~SIGN) * COLUMN + q * (4 * THREADS) + 16 * chunk;
        copy_async(ring + ((p % RING) * WORDS + q) * 32 + 4 * chunk, (const void *)from);
    }
    commit_async();
}
#endif

#define FIELD_OF(place) (*(const short *)(table + (UNIT == 2 ? (place) : 2 * (place))))
#define TWICE(x) (0x10001u * (u32)((x) & 0xffff))

extern "C" __global__ void __launch_bounds__(GROUP * THREADS, RESIDENT)
walk(const int *rows, int chains, const int *instance_of, const int *number_of, const u64 *keys, // the chains that walk
     const u32 *columns, int n, int m, int size, int low, int first, int width,                    // the problems
     int sweeps, int first_sweep, const int *stage_of, int stride, int stages, // stage of the first sweep, and how it goes on
     const int *energies, const double *kts, const unsigned char *bath, const int *draw_at,
     const int *orders, int row_length, int n_draws,
     const double *field_of, i8 *weights_of, u16 *levels_of, i8 *draws, int *accepted, long long *energy_of, long long *solved_at,
     unsigned char *stopped, int *outside)
{
    extern __shared__ int4 shared[];
    char *table = (char *)shared;
    int *scratch = (int *)(table + (2 * WINDOW + 15) / 16 * 16);
    const int in_block = chain_in_block(), thread = threadIdx.x % THREADS, lane = threadIdx.x % 32;
    int2 *proposal = (int2 *)scratch + in_block * (TILE + SPARE);
    scratch += GROUP * 2 * (TILE + SPARE);
    u32 *ring = (u32 *)scratch + threadIdx.x / 32 * (RING * WORDS * 32);
    scratch += GROUP * THREADS * RING * WORDS;
    Exchange exchange = {scratch, 0, thread / 32, lane};
#if LEVELS_SHARED
    u32 *level = (u32 *)(scratch + Exchange::size) + thread;
#define LEVEL(p) level[(p) * THREADS]
#else
    u32 level[PAIRS];
#define LEVEL(p) level[p]
#endif
    u32 field[PAIRS];

    // the chains of a block share their table: all are at one stage; a row of -1 is none
    const int given = blockIdx.x * GROUP + in_block < chains ? rows[blockIdx.x * GROUP + in_block] : -1;
    const bool mine = given >= 0;
    const int row = mine ? given : 0, stage = stage_of[rows[blockIdx.x * GROUP]];
    bool alive = mine;
    Chain chain = {number_of[row], instance_of[row], keys[instance_of[row]], weights_of + (size_t)row * n, field_of + (size_t)row * n * FIELD};
    const u64 bits = (u64)columns + (u64)chain.instance * n * COLUMN + 128 * (thread / 32);
    u16 *stored = levels_of + (size_t)row * (2 * PAIRS * THREADS) + thread;
    // the slots of the last pair that are constraints
    const int slots = (m - thread + THREADS - 1) / THREADS;
    const u32 valid = slots >= 2 * PAIRS ? ALL : slots == 2 * PAIRS - 1 ? 0xffffu : 0u;

#pragma unroll
    for (int p = 0; p < PAIRS; ++p)
        LEVEL(p) = UNIT * ((stored[2 * p * THREADS] - low) | (u32)(stored[(2 * p + 1) * THREADS] - low) << 16);

    // whether a level of this thread lies outside low + start .. low + start + range - 1
    auto beyond = [&](int start, u32 range) {
        u32 most = 0, minus = TWICE(-UNIT * start);
#pragma unroll
        for (int p = 0; p < PAIRS - 1; ++p) most = __vmaxu2(most, __vadd2(LEVEL(p), minus));
        most = __vmaxu2(most, __vadd2((LEVEL(PAIRS - 1) & valid) | (TWICE(UNIT * start) & ~valid), minus));
        return max(most & 0xffffu, most >> 16) >= UNIT * range;
    };

    for (int t = 0; t < sweeps; ++t) {
        const int now = stage + stride * t;
        const int *energy_at = energies + (size_t)now * size + low;
        __syncthreads();
        for (int j = threadIdx.x; j < WINDOW; j += GROUP * THREADS) {
            bool inside = j + low > 0 && j + low < size - 1;
            ((short *)table)[j] = inside ? (short)(energy_at[j + 1] - energy_at[j - 1]) : (short)0;
        }
        __syncthreads();
        if (!alive) continue;

        int ups = 0, count = 0;
        long long energy = 0;
#pragma unroll
        for (int p = 0; p < PAIRS; ++p) {
            u32 at = LEVEL(p), found = 0;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (p == PAIRS - 1 && !(valid >> (16 * half) & 1)) continue;
                int place = half ? at >> 16 : at & 0xffffu, j = place / UNIT, here = energy_at[j];
                found |= (u32)(u16)FIELD_OF(place) << (16 * half);
                ups += energy_at[j + 1] - here;
                energy += here;
            }
            field[p] = found;
        }
        bool wrong = beyond(first - low, width);
        exchange.sum(ups, wrong);
        energy = exchange.sum(energy);
        bool stop = SOLVE && !wrong;
        const int *order = orders + ((size_t)chain.instance * sweeps + t) * row_length;

        // sum of the field over the constraints of this thread whose level falls if the weight flips
        auto select = [&](int here, const u32 *words) {
            int sum = 0;
#pragma unroll
            for (int p = 0; p < PAIRS; p += 2) {
                int chosen = falling(words, p / 2, here);
                sum = __dp2a_lo((int)field[p], chosen, sum);
                if (p + 1 < PAIRS) sum = __dp2a_hi((int)field[p + 1], chosen, sum);
            }
            return sum;
        };
        // flips the weight of a proposal that moves `down` down; tells whether that solved the problem
        auto flip = [&](int here, int down, const u32 *words) {
            int back = 0; // what would go down if it flipped back
#pragma unroll
            for (int p = 0; p < PAIRS; ++p) {
                u32 chosen = rising(words, p / 2, here), spread = __byte_perm(chosen, 0, p % 2 ? 0x4342 : 0x4140);
                u32 at = LEVEL(p) - UNIT * 0x10001 + 2 * UNIT * spread;
                LEVEL(p) = at;
                u32 found = __byte_perm((u16)FIELD_OF(at & 0xffffu), (u16)FIELD_OF(at >> 16), 0x5410);
                if (p == PAIRS - 1) found &= valid;
                field[p] = found;
                back = p % 2 ? __dp2a_hi((int)found, (int)chosen, back) : __dp2a_lo((int)found, (int)chosen, back);
            }
            bool wrong = SOLVE && beyond(first - low, width);
            exchange.sum(back, wrong);
            energy += ups - down;
            ups = back + down - ups;
            ++count;
            if (thread == 0) chain.weights[here & ~SIGN] = here < 0 ? 1 : -1;
            if (GUARDED && beyond(EDGE, WINDOW - 2 * EDGE)) *outside = 1;
            return SOLVE && !wrong;
        };

        for (int tile = 0; tile < n && !stop; tile += TILE) {
            lay_tile(chain, order, tile, n, first_sweep + t, kts[now], bath[t], thread, proposal);
            const int proposals = min(TILE, n - tile);
#if DIRECT
            u32 word[AHEAD];
            // this lane's word of a column; the sign of the weight falls out of the product
            auto wanted = [&](int p) { return __ldg((const u32 *)(bits + ((u32)proposal[p].x * COLUMN + 4 * lane))); };
#pragma unroll
            for (int d = 0; d < AHEAD; ++d) word[d] = wanted(d);
#pragma unroll 1
            for (int hop = 0; hop < proposals; hop += AHEAD) {
#pragma unroll
                for (int d = 0; d < AHEAD; d += BATCH) {
                    int2 next[BATCH];
                    int down[BATCH];
#pragma unroll
                    for (int b = 0; b < BATCH; ++b) {
                        next[b] = proposal[hop + d + b];
                        down[b] = select(next[b].x, word + d + b);
                    }
                    exchange.sums(down);
#pragma unroll
                    for (int b = 0; b < BATCH; ++b) {
                        if (ups - down[b] > next[b].y) continue;
                        if (flip(next[b].x, down[b], word + d + b)) {
                            stop = true;
                            goto done;
                        }
#pragma unroll
                        for (int c = b + 1; c < BATCH; ++c) down[c] = exchange.sum(select(next[c].x, word + d + c));
                    }
#pragma unroll
                    for (int b = 0; b < BATCH; ++b) word[d + b] = wanted(hop + AHEAD + d + b);
                }
            }
#else
            ask(proposal, 0, bits, ring, lane);
            ask(proposal, HOP, bits, ring, lane);
#if BATCH == 1
#pragma unroll 1
            for (int hop = 0; hop < proposals; hop += HOP) {
                await_async();
                __syncwarp();
                ask(proposal, hop + 2 * HOP, bits, ring, lane);
                const int2 *at = proposal + hop;
                const u32 *word = ring + hop % RING * (32 * WORDS) + lane;
#pragma unroll unrolled
                for (int d = 0; d < HOP; ++d) {
                    const int2 next = at[d];
                    u32 words[WORDS];
#pragma unroll
                    for (int q = 0; q < WORDS; ++q) words[q] = word[32 * (d * WORDS + q)];
                    const int down = exchange.sum(select(next.x, words));
                    if (ups - down <= next.y && flip(next.x, down, words)) {
                        stop = true;
                        goto done;
                    }
                }
            }
#else
            for (int start = 0, ready = 0; start < proposals;) {
                if (start + BATCH > ready) {
                    await_async();
                    __syncwarp();
                    ready += HOP;
                    ask(proposal, ready + HOP, bits, ring, lane);
                }
                int2 next[BATCH];
                u32 words[BATCH][WORDS];
                int down[BATCH], taken = BATCH;
#pragma unroll
                for (int d = 0; d < BATCH; ++d) {
                    next[d] = proposal[start + d];
#pragma unroll
                    for (int q = 0; q < WORDS; ++q) words[d][q] = ring[((start + d) % RING * WORDS + q) * 32 + lane];
                    down[d] = select(next[d].x, words[d]);
                }
                exchange.sums(down);
                // the first that is accepted; what was computed of those behind it is void
#pragma unroll
                for (int d = BATCH - 1; d >= 0; --d) {
                    if (ups - down[d] <= next[d].y) taken = d;
                }
                start += min(taken + 1, BATCH);
                if (taken == BATCH) continue;
#pragma unroll
                for (int d = 1; d < BATCH; ++d)
                    if (taken == d) {
                        next[0] = next[d];
                        down[0] = down[d];
#pragma unroll
                        for (int q = 0; q < WORDS; ++q) words[0][q] = words[d][q];
                    }
                if (flip(next[0].x, down[0], words[0])) {
                    stop = true;
                    goto done;
                }
            }
#endif
            await_async_all();
#endif
        }
    done:
        await_async_all();
        chain_sync();
        wrong = exchange.any(beyond(first - low, width));
        if (thread == 0) {
            accepted[(size_t)row * sweeps + t] = count;
            energy_of[(size_t)row * sweeps + t] = energy;
            if (!wrong && solved_at[row] < 0) solved_at[row] = first_sweep + t;
            if (stop) stopped[row] = 1;
        }
        if (draw_at[t] >= 0)
            for (int i = thread; i < n; i += THREADS)
                draws[((size_t)row * n_draws + draw_at[t]) * n + i] = chain.weights[i];
        if (stop) alive = false;
    }
    if (!mine) return;
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) {
        u32 at = LEVEL(p);
        stored[2 * p * THREADS] = (at & 0xffffu) / UNIT + low;
        stored[(2 * p + 1) * THREADS] = (at >> 16) / UNIT + low;
    }
}
