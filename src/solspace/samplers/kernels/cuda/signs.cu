// Products of patterns of +-1, kept as bits, with a few columns of float32: for problems that have few samples each.
//
// Reading the patterns is then much of a product's work, and a bit is a sixteenth of a number of bfloat16. Word w of a row holds
// the signs of its entries 30 w + j at bit j, 1 for +1; the words of neighbouring rows lie side by side, (words, rows) to a
// problem. Rows do not add up entries: for every five of them, a group, the block makes a table of their 32 sums with signs, and
// a row looks one up by its five bits. A table fills the 32 banks of shared memory, one entry to each, so that lookups never
// get in each other's way. A block takes ROWS rows and COLUMNS columns of one problem; its SLICES share the words of a row, RUN
// of them at a time each. Sums are made of a group, of a word, of four words of a slice, of the slice, and of all: their order is
// fixed, whatever runs beside, and an error grows as that of a sum of some forty terms.
//
// Set by the host: COLUMNS (1, 2 or 4), ROWS, SLICES, RUN (a multiple of 4). ROWS and RUN have no say in what comes out.

typedef unsigned int u32;
typedef unsigned char u8;

#define GROUP 5
#define GROUPS 6
#define WORD (GROUP * GROUPS)
#define TABLE 32
#define STAGE (RUN * SLICES)
#define SHARE ((STAGE * WORD * COLUMNS + ROWS * SLICES - 1) / (ROWS * SLICES))

// One word of bits from bits: entry (row, k) is bit row * row_step + k * step of `drawn`, the highest of a byte first.
extern "C" __global__ void from_bits(const u8 *drawn, int rows, int inner, int row_step, int step, int words, u32 *packed)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, word = blockIdx.y;
    if (row >= rows) return;
    u32 bits = 0;
    if (step == 1) { // side by side: five bytes hold them
        const long long start = (long long)row * row_step + WORD * word, last = ((long long)rows * inner - 1) >> 3;
        unsigned long long five = 0;
        for (int b = 0; b < 5; ++b) five = five << 8 | drawn[min((start >> 3) + b, last)];
        bits = __brev((u32)(five << (start & 7) >> 8)) & ~(~0u << min(WORD, inner - WORD * word));
    } else {
        for (int j = 0; j < WORD && WORD * word + j < inner; ++j) {
            const long long at = (long long)row * row_step + (long long)(WORD * word + j) * step;
            bits |= (u32)(drawn[at >> 3] >> (7 - (int)(at & 7)) & 1) << j;
        }
    }
    packed[(size_t)word * rows + row] = bits;
}

// The same from signs.
extern "C" __global__ void from_signs(const signed char *given, int rows, int inner, int row_step, int step, int words, u32 *packed)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, word = blockIdx.y;
    if (row >= rows) return;
    u32 bits = 0;
    for (int j = 0; j < WORD && WORD * word + j < inner; ++j)
        bits |= (u32)(given[(long long)row * row_step + (long long)(WORD * word + j) * step] > 0) << j;
    packed[(size_t)word * rows + row] = bits;
}

// Where shared memory begins that is read by addresses in bytes, and the number at one of them. The compiler would make two
// additions of what is one: tables lie at multiples of their size, and a place in one is put in by its bits.
__device__ __forceinline__ u32 address_of(const float *shared)
{
#ifdef EMULATED
    return 0;
#else
    return (u32)__cvta_generic_to_shared(shared);
#endif
}

__device__ __forceinline__ float held(const float *shared, u32 address)
{
#ifdef EMULATED
    return shared[address / 4];
#else
    float found;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(found) : "r"(address) : "memory");
    return found;
#endif
}

// out (problems, rows, k) = patterns (rows, inner) times given (problems, inner, k); blockIdx.y counts problems and parts of columns.
// Where none of a block's columns has a positive `weight` it does nothing: columns at rest need no products.
extern "C" __global__ void __launch_bounds__(ROWS * SLICES)
multiply(const u32 *packed, const float *given, int rows, int inner, int words, int k, const float *weight, float *out)
{
    // of every word of a stage, group and column: its table, and the five entries that it is made of, padded
    __shared__ __align__(128) float tables[STAGE * GROUPS * COLUMNS * TABLE];
    __shared__ __align__(16) float entries[STAGE * GROUPS * COLUMNS * 8];
    const int parts = (k + COLUMNS - 1) / COLUMNS, problem = blockIdx.y / parts, first = blockIdx.y % parts * COLUMNS;
    bool moving = false;
    for (int c = first; c < min(first + COLUMNS, k); ++c) moving |= weight[problem * k + c] > 0;
    if (!moving) return;
    const int local = threadIdx.x, slice = threadIdx.y, row = blockIdx.x * ROWS + local, thread = slice * ROWS + local;
    const u32 *bits = packed + ((size_t)problem * words + slice) * rows + min(row, rows - 1);
    given += (size_t)problem * inner * k + first;
    out += (size_t)problem * rows * k + first;
    // the sums that a thread makes: those with the signs of its lane's bits, and their opposites
    const int lane = thread % TABLE;
    const u32 own = address_of(tables) + slice * (4 * GROUPS * COLUMNS * TABLE);
    float sign[GROUP], total[COLUMNS];
#pragma unroll
    for (int j = 0; j < GROUP; ++j) sign[j] = lane >> j & 1 ? 1.0f : -1.0f;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) total[c] = 0;

    // words and entries of the next stage are on their way while those of this one are added
    const size_t step = (size_t)SLICES * rows;
    const int mine = (words - slice + SLICES - 1) / SLICES;
    u32 word[RUN];
#pragma unroll
    for (int r = 0; r < RUN; ++r) {
        word[r] = r < mine ? *bits : 0;
        bits += step;
    }
    float ahead[SHARE];
    int from = 0;
    auto fetch = [&]() {
#pragma unroll
        for (int s = 0; s < SHARE; ++s) {
            const int place = s * (ROWS * SLICES) + thread, entry = from + place / COLUMNS, c = place % COLUMNS;
            ahead[s] = entry < inner && first + c < k ? given[(size_t)entry * k + c] : 0.0f;
        }
        from += STAGE * WORD;
    };
    auto add = [&](bool whole, int left) {
        float four[COLUMNS];
#pragma unroll
        for (int r = 0; r < RUN; ++r) {
            if (!whole && r >= left) break;
            float part[COLUMNS];
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                const u32 chosen = (g ? word[r] >> (GROUP * g - 2) : word[r] << 2) & 4 * (TABLE - 1);
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) {
                    const float found = held(tables, (chosen | own) + ((r * SLICES * GROUPS + g) * COLUMNS + c) * (4 * TABLE));
                    part[c] = g ? part[c] + found : found;
                }
            }
            if (whole || r + RUN < left) word[r] = bits[r * step];
            const bool last = r % 4 == 3 || (!whole && r + 1 >= left);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                four[c] = r % 4 ? four[c] + part[c] : part[c];
                if (last) total[c] += four[c];
            }
        }
        bits += RUN * step;
    };
    fetch();
    for (int stage = 0; stage < words; stage += STAGE) {
        const int here = min(STAGE, words - stage), left = mine - stage / SLICES;
#pragma unroll
        for (int s = 0; s < SHARE; ++s) {
            const int place = s * (ROWS * SLICES) + thread, entry = place / COLUMNS, c = place % COLUMNS;
            if (place < STAGE * WORD * COLUMNS) entries[(entry / GROUP * COLUMNS + c) * 8 + entry % GROUP] = ahead[s];
        }
        __syncthreads();
        // half a warp makes a table; the halves write to the two halves of the banks
#pragma unroll 1
        for (int table = thread / 16; table < here * GROUPS * COLUMNS; table += ROWS * SLICES / 16) {
            const float4 four = *(const float4 *)(entries + table * 8);
            const float sum = sign[0] * four.x + sign[1] * four.y + sign[2] * four.z + sign[3] * four.w + sign[4] * entries[table * 8 + 4];
            tables[table * TABLE + lane] = sum;
            tables[table * TABLE + (TABLE - 1 - lane)] = -sum;
        }
        __syncthreads();
        fetch();
        // whole stages before another whole one need not ask what is there
        if (left >= 2 * RUN)
            add(true, left);
        else
            add(false, left);
    }
    // the slices' sums, each in the place of the tables
    __syncthreads();
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) tables[(c * SLICES + slice) * ROWS + local] = total[c];
    __syncthreads();
    for (int place = thread; place < ROWS * COLUMNS; place += ROWS * SLICES) {
        const int at = blockIdx.x * ROWS + place / COLUMNS, c = place % COLUMNS;
        if (at >= rows || first + c >= k) continue;
        float sum = 0;
        for (int s = 0; s < SLICES; ++s) sum += tables[(c * SLICES + s) * ROWS + place / COLUMNS];
        out[(size_t)at * k + c] = sum;
    }
}
