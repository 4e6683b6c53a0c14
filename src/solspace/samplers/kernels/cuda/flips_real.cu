// Single flips of +-1 weights on patterns of any values, in fixed point: the algorithm of kernels/flips_real.py, chain for chain.
//
// Thread t of a chain owns the constraints 4 (q THREADS + t) + k with k = 0 .. 3, for q = 0 .. QUADS - 1; their stabilities are
// integers in its registers, counted from the margin. A proposal reads four entries of a column at a time and evaluates the
// potential at each: the power form (POWER) or the cell form of kernels/energies.py, operation by operation, so that the
// integer energies are the same as on any other processor.
//
// Where no stage has powers (LINEAR: hinges, counted errors) an energy is 0 above the edge and linear below, in half the
// instructions.
//
// Chains of one problem find each other's columns in the cache. Where each chain has a problem of its own (OWN) a column comes
// from memory, and is asked for a whole proposal ahead; every thread copies what it will read, so that nobody waits for others.
//
// Set by the host: QUADS, POWER, LINEAR, SOLVE, OWN, RESIDENT.

#define SIZE (4 * QUADS * THREADS)
#define COLUMN (4 * SIZE)
#define DEGREE 6
#define OCTAVES 31
#define CELLS 128
#define SIDE (OCTAVES * CELLS)
#define JUMPS 4
#if POWER
#define COEFFICIENTS (64 + DEGREE + 3)
#define MARKS 1
#define TABLE 32
#else
#define COEFFICIENTS (4 * SIDE + 3 + JUMPS)
#define MARKS (3 + JUMPS)
#define TABLE (2 * SIDE)
#endif

// A potential: pairs of coefficients in shared memory, and the numbers that every evaluation needs.
struct Potential {
    const float2 *table;
#if POWER
    float h[DEGREE + 1], height, slope;
    int edge;
    u32 one; // the bits of 1.0f, in a register: an instruction takes one constant

    __device__ void set(const float *form, const int *marks)
    {
        for (int k = 0; k <= DEGREE; ++k) h[k] = form[64 + k];
        height = form[64 + DEGREE + 1];
        slope = form[64 + DEGREE + 2];
        edge = marks[0]; // 0 or 1, which the compiler does not know
        one = 0x3f800000u + ((u32)edge >> 31);
    }

    __device__ __forceinline__ int energy(int t) const
    {
        float value = __int2float_rn(t);
#if LINEAR
        return __float2int_rz(t < edge ? __fmaf_rn(value, slope, height) : 0.0f);
#else
        u32 bits = __float_as_uint(value);
        float z = __uint_as_float((bits & 0x7fffffu) | one), power = h[0];
#pragma unroll
        for (int k = 1; k <= DEGREE; ++k) power = __fmaf_rn(power, z, h[k]);
        // entry bits >> 23 & 31 of the table, eight bytes each, in two instructions
        float2 scale = *(const float2 *)((const char *)table + ((bits & 0x0f800000u) >> 20));
        float right = __fmaf_rn(scale.x, power, scale.y), left = __fmaf_rn(value, slope, height);
        return __float2int_rz(t < edge ? left : right);
#endif
    }
#else
    float zero, wall, steep, jump[JUMPS];
    int first, last, half, place[JUMPS];

    __device__ void set(const float *form, const int *marks)
    {
        zero = form[4 * SIDE];
        wall = form[4 * SIDE + 1];
        steep = form[4 * SIDE + 2];
        first = marks[0];
        last = marks[1];
        half = marks[2 + JUMPS];
        for (int k = 0; k < JUMPS; ++k) {
            jump[k] = form[4 * SIDE + 3 + k];
            place[k] = marks[2 + k];
        }
    }

    __device__ __forceinline__ int energy(int t) const
    {
        if (half > 0) t = half - (t < 0 ? -t : t);
        int inside = t < first ? first : t > last ? last : t;
        bool negative = inside < 0;
        u32 bits = __float_as_uint(__int2float_rn(negative ? -inside : inside));
        int cell = max((int)(bits >> 16) - 127 * CELLS, 0) + (negative ? SIDE : 0);
        float2 line = table[cell];
        float energy = __fmaf_rn(__int2float_rn((int)(bits & 0xffffu)), line.y, line.x);
        if (inside == 0) energy = zero;
#pragma unroll
        for (int k = 0; k < JUMPS; ++k) energy = __fadd_rn(energy, inside >= place[k] ? jump[k] : 0.0f);
        int out = t - inside;
        float beyond = __fmaf_rn(__int2float_rn(out < 0 ? -out : out), steep, wall);
        return __float2int_rz(__fadd_rn(energy, out == 0 ? 0.0f : beyond));
    }
#endif
};

// Where this thread's entries of a column begin, and four of them. The address in one instruction, which the compiler would not take.
__device__ __forceinline__ u64 column_at(u64 columns, u32 entry)
{
#ifdef EMULATED
    return columns + (u64)(entry & ~SIGN) * COLUMN;
#else
    u64 column;
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(column) : "r"(entry & ~SIGN), "r"(COLUMN), "l"(columns));
    return column;
#endif
}

__device__ __forceinline__ int4 quad_at(u64 column, int q) { return __ldg((const int4 *)column + q * THREADS); }

__device__ __forceinline__ int part(const int4 &quad, int k) { return k == 0 ? quad.x : k == 1 ? quad.y : k == 2 ? quad.z : quad.w; }

extern "C" __global__ void __launch_bounds__(GROUP * THREADS, RESIDENT)
walk(const int *rows, int chains, const int *instance_of, const int *number_of, const u64 *keys, // the chains that walk
     const int *columns_of, int n, int m, const int *allowed,                                       // the problems
     int sweeps, int first_sweep, const int *stage_of, int stride, int stages, // stage of the first sweep, and how it goes on
     const float *forms, const int *marks, const int *margins, const double *kts, const unsigned char *bath, const int *draw_at,
     const int *orders, int row_length, int n_draws,
     const double *field_of, i8 *weights_of, int *states_of, i8 *draws, int *accepted, long long *energy_of, long long *solved_at,
     unsigned char *stopped)
{
    extern __shared__ int4 shared[];
    const int in_block = chain_in_block(), thread = threadIdx.x % THREADS, lane = threadIdx.x % 32;
    float2 *table = (float2 *)shared + in_block * TABLE;
    int *scratch = (int *)((float2 *)shared + GROUP * TABLE);
    int2 *proposal = (int2 *)scratch + in_block * (TILE + SPARE);
    Exchange exchange = {scratch + GROUP * 2 * (TILE + SPARE), 0, thread / 32, lane};
    // two columns of this chain, this thread's entries of them
    int4 *kept = (int4 *)(exchange.shared + Exchange::size) + in_block * 2 * QUADS * THREADS + thread;

    // chains of a block share nothing here, so that one may end before the others
    if (blockIdx.x * GROUP + in_block >= chains || rows[blockIdx.x * GROUP + in_block] < 0) return;
    const int row = rows[blockIdx.x * GROUP + in_block];
    Chain chain = {number_of[row], instance_of[row], keys[instance_of[row]], weights_of + (size_t)row * n, field_of + (size_t)row * n * FIELD};
    const u64 columns = (u64)columns_of + (u64)chain.instance * n * COLUMN + 16 * thread;
    int4 *stored = (int4 *)(states_of + (size_t)row * SIZE) + thread;
    // constraints among the last four
    const int valid = m - 4 * ((QUADS - 1) * THREADS + thread);
    Potential potential;
    potential.table = table;

    int state[4 * QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        int4 quad = stored[q * THREADS];
#pragma unroll
        for (int k = 0; k < 4; ++k) state[4 * q + k] = part(quad, k);
    }
    int margin = 0;
    const int nothing = stride >> 30; // 0, which the compiler does not know
    const int first = allowed[2 * chain.instance], last = allowed[2 * chain.instance + 1];

    auto beyond = [&]() {
        bool out = false;
#pragma unroll
        for (int s = 0; s < 4 * QUADS; ++s)
            if (s < 4 * (QUADS - 1) || s - 4 * (QUADS - 1) < valid) out |= state[s] < first - margin || state[s] > last - margin;
        return out;
    };

    for (int t = 0; t < sweeps; ++t) {
        const size_t stage = (size_t)chain.instance * stages + stage_of[row] + stride * t;
        const float *form = forms + stage * COEFFICIENTS;
        chain_sync();
        for (int j = thread; j < TABLE; j += THREADS) table[j] = make_float2(form[j], form[TABLE + j]);
        chain_sync();
        potential.set(form, marks + stage * MARKS);
#pragma unroll
        for (int s = 0; s < 4 * QUADS; ++s) state[s] += margin - margins[stage];
        margin = margins[stage];

        // padding, whose patterns are 0, adds the same to every energy: it is taken off what is recorded
        int count = 0;
        long long sum = 0, beside = 0;
#pragma unroll
        for (int s = 0; s < 4 * QUADS; ++s) {
            const int found = potential.energy(state[s]);
            sum += found;
            if (s >= 4 * (QUADS - 1) && s - 4 * (QUADS - 1) >= valid) beside += found;
        }
        long long energy = exchange.sum(sum);
        const long long padding = exchange.sum(beside);
        bool stop = SOLVE && !exchange.any(beyond());
        const int *order = orders + ((size_t)chain.instance * sweeps + t) * row_length;

        for (int tile = 0; tile < n && !stop; tile += TILE) {
            lay_tile(chain, order, tile, n, first_sweep + t, kts[stage], bath[t], thread, proposal);
            const int proposals = min(TILE, n - tile);
            int2 now = proposal[0];
            u64 column = column_at(columns, now.x);
            int4 next = OWN ? int4() : quad_at(column, 0);
            auto ask = [&](int at) {
                forget_loads();
                if (at < proposals)
#pragma unroll
                    for (int q = 0; q < QUADS; ++q)
                        copy_async(kept + ((at & 1) * QUADS + q) * THREADS, (const int4 *)column_at(columns, proposal[at].x) + q * THREADS);
                commit_async();
            };
            if (OWN) ask(0);
            for (int start = 0; start < proposals; ++start) {
                if (OWN) {
                    ask(start + 1);
                    await_async();
                }
                const int2 later = proposal[start + 1];
                // a site has less than 30 bits
                const int here = now.x, bar = now.y, sign = (int)((u32)here >> 30) - 1;
                const u64 own = column;
                auto quad_of = [&](int q) { return OWN ? kept[((start & 1) * QUADS + q) * THREADS] : quad_at(own, q); };
                now = later;
                column = column_at(columns, later.x);
                // Left alone the compiler puts all conversions to integers at the end, where chains wait for each other at the one
                // slow unit: the last four but one must be summed before these begin.
                long long after = 0;
                int partials[QUADS];
#pragma unroll
                for (int q = 0; q < QUADS; ++q) {
                    const int sign_now = q < 2 ? sign : sign + (partials[max(q - 2, 0)] & nothing);
                    int4 quad = OWN ? quad_of(q) : next;
                    if (!OWN) next = q + 1 < QUADS ? quad_of(q + 1) : quad_at(column, 0);
                    int partial = 0;
#pragma unroll
                    for (int k = 0; k < 4; ++k) partial += potential.energy(state[4 * q + k] + sign_now * part(quad, k));
                    partials[q] = partial;
                    after += partial;
                }
                after = exchange.sum(after);
                if (after - energy > bar) continue;

#pragma unroll
                for (int q = 0; q < QUADS; ++q) {
                    int4 quad = quad_of(q);
#pragma unroll
                    for (int k = 0; k < 4; ++k) state[4 * q + k] += sign * part(quad, k);
                }
                energy = after;
                ++count;
                if (thread == 0) chain.weights[here & ~SIGN] = here < 0 ? 1 : -1;
                if (SOLVE && !exchange.any(beyond())) {
                    stop = true;
                    goto done;
                }
            }
        }
    done:
        if (OWN) await_async_all(); // a column asked for by a walk that ended early
        chain_sync();
        bool wrong = exchange.any(beyond());
        if (thread == 0) {
            accepted[(size_t)row * sweeps + t] = count;
            energy_of[(size_t)row * sweeps + t] = energy - padding;
            if (!wrong && solved_at[row] < 0) solved_at[row] = first_sweep + t;
            if (stop) stopped[row] = 1;
        }
        if (draw_at[t] >= 0)
            for (int i = thread; i < n; i += THREADS)
                draws[((size_t)row * n_draws + draw_at[t]) * n + i] = chain.weights[i];
        if (stop) break;
    }
#pragma unroll
    for (int q = 0; q < QUADS; ++q)
        stored[q * THREADS] = make_int4(state[4 * q] + margin, state[4 * q + 1] + margin, state[4 * q + 2] + margin, state[4 * q + 3] + margin);
}

// Energies of chains where they are, at the stage that each is asked for; a block to a chain.
extern "C" __global__ void weigh(const int *instance_of, int m, const int *stage_of, int stages, const float *forms, const int *marks,
                                 const int *margins, const int *states_of, long long *energy_of)
{
    extern __shared__ int4 shared[];
    float2 *table = (float2 *)shared;
    const int row = blockIdx.x, thread = threadIdx.x;
    Exchange exchange = {(int *)(table + TABLE), 0, thread / 32, thread % 32};
    const size_t stage = (size_t)instance_of[row] * stages + stage_of[row];
    const float *form = forms + stage * COEFFICIENTS;
    for (int j = thread; j < TABLE; j += THREADS) table[j] = make_float2(form[j], form[TABLE + j]);
    __syncthreads();
    Potential potential;
    potential.table = table;
    potential.set(form, marks + stage * MARKS);
    long long sum = 0;
    for (int mu = thread; mu < m; mu += THREADS) sum += potential.energy(states_of[(size_t)row * SIZE + mu] - margins[stage]);
    sum = exchange.sum(sum);
    if (thread == 0) energy_of[row] = sum;
}
