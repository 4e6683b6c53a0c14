// Products of patterns of +-1, kept as bits, with a few columns of float32: for problems that have few samples each.
//
// Reading the patterns is then most of a product's work, and a bit is a sixteenth of a number of bfloat16. Word w of a row holds
// the signs of its entries 32 w + j at bit j, 1 for +1; the words of neighbouring rows lie side by side, (words, rows) to a
// problem. A block takes ROWS rows and COLUMNS columns of one problem; its SLICES share the words of a row, and `given` comes
// through shared memory, RUN words for each of them at a time. Sums are made word by word, then of those of a slice, then of
// the slices: their order is fixed, and an error grows as that of a sum of some forty terms.
//
// Set by the host: COLUMNS (1, 2, 4 or 8), ROWS, SLICES, RUN.

typedef unsigned int u32;
typedef unsigned char u8;

#define STAGE (32 * RUN * SLICES)

// One word of bits from bits: entry (row, k) is bit row * row_step + k * step of `drawn`, the highest of a byte first.
extern "C" __global__ void from_bits(const u8 *drawn, int rows, int inner, int row_step, int step, int words, u32 *packed)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, word = blockIdx.y;
    if (row >= rows) return;
    u32 bits = 0;
    for (int j = 0; j < 32 && 32 * word + j < inner; ++j) {
        const long long at = (long long)row * row_step + (long long)(32 * word + j) * step;
        bits |= (u32)(drawn[at >> 3] >> (7 - (int)(at & 7)) & 1) << j;
    }
    packed[(size_t)word * rows + row] = bits;
}

// The same from signs.
extern "C" __global__ void from_signs(const signed char *given, int rows, int inner, int row_step, int step, int words, u32 *packed)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, word = blockIdx.y;
    if (row >= rows) return;
    u32 bits = 0;
    for (int j = 0; j < 32 && 32 * word + j < inner; ++j)
        bits |= (u32)(given[(long long)row * row_step + (long long)(32 * word + j) * step] > 0) << j;
    packed[(size_t)word * rows + row] = bits;
}

// out (problems, rows, k) = patterns (rows, inner) times given (problems, inner, k); blockIdx.y counts problems and parts of columns.
// Where none of a block's columns has a positive `weight` it does nothing: columns at rest need no products.
extern "C" __global__ void __launch_bounds__(ROWS * SLICES)
multiply(const u32 *packed, const float *given, int rows, int inner, int words, int k, const float *weight, float *out)
{
    __shared__ __align__(16) float held[STAGE * COLUMNS];
    const int parts = (k + COLUMNS - 1) / COLUMNS, problem = blockIdx.y / parts, first = blockIdx.y % parts * COLUMNS;
    bool moving = false;
    for (int c = first; c < min(first + COLUMNS, k); ++c) moving |= weight[problem * k + c] > 0;
    if (!moving) return;
    const int local = threadIdx.x, slice = threadIdx.y, row = blockIdx.x * ROWS + local, thread = slice * ROWS + local;
    const u32 *bits = packed + (size_t)problem * words * rows + min(row, rows - 1);
    given += (size_t)problem * inner * k + first;
    out += (size_t)problem * rows * k + first;
    float total[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) total[c] = 0;

    for (int stage = 0; stage < words; stage += RUN * SLICES) {
        u32 word[RUN];
#pragma unroll
        for (int r = 0; r < RUN; ++r) {
            const int at = stage + slice * RUN + r;
            word[r] = at < words ? ~bits[(size_t)at * rows] : 0;
        }
        __syncthreads();
        for (int place = thread; place < STAGE * COLUMNS; place += ROWS * SLICES) {
            const int entry = 32 * stage + place / COLUMNS, c = place % COLUMNS;
            held[place] = entry < inner && first + c < k ? given[(size_t)entry * k + c] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < RUN; ++r) {
            const float *own = held + (slice * RUN + r) * (32 * COLUMNS);
            float part[COLUMNS];
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) part[c] = 0;
#pragma unroll
            for (int j = 0; j < 32; ++j) {
                const u32 sign = word[r] << (31 - j) & 0x80000000u;
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c)
                    part[c] += __uint_as_float(__float_as_uint(own[j * COLUMNS + c]) ^ sign);
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) total[c] += part[c];
        }
    }
    // the slices' sums, each in the place of the entries
    __syncthreads();
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) held[(c * SLICES + slice) * ROWS + local] = total[c];
    __syncthreads();
    for (int place = thread; place < ROWS * COLUMNS; place += ROWS * SLICES) {
        const int at = blockIdx.x * ROWS + place / COLUMNS, c = place % COLUMNS;
        if (at >= rows || first + c >= k) continue;
        float sum = 0;
        for (int s = 0; s < SLICES; ++s) sum += held[(c * SLICES + s) * ROWS + place / COLUMNS];
        out[(size_t)at * k + c] = sum;
    }
}
