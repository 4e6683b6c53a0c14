// The two halves of an AMP iteration for +-1 weights and the weights s^beta of the constraints, and the control of its columns.
//
// Samples are columns, neighbouring threads. A block takes 32 columns and ROWS rows; sums over rows leave it as one partial
// sum for each column, added up in a fixed order afterwards, so that nothing depends on the order of blocks. What goes into a
// matrix product is split into PARTS numbers of bfloat16 side by side (three keep all of float32; patterns of +-1 are
// exact), or left as float32 if PARTS is 1; what comes out is the sum of as many float32.

#define ROWS 64
#define STRIPS 8
#define MIDDLE 1024
#define SIDE_CELLS 64
#define EDGE_LEFT (-4.0f)
#define EDGE_RIGHT 12.0f

typedef unsigned short u16;
typedef unsigned int u32;
#if PARTS == 3
typedef u16 Operand;
#else
typedef float Operand;
#endif

__device__ __forceinline__ float bfloat(float x)
{
    u32 bits = __float_as_uint(x);
    return __uint_as_float((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

__device__ __forceinline__ void put(Operand *to, size_t row, int width, int column, float x)
{
#if PARTS == 3
#pragma unroll
    for (int part = 0; part < 3; ++part) {
        float piece = bfloat(x);
        to[(row * 3 + part) * width + column] = (u16)(__float_as_uint(piece) >> 16);
        x -= piece;
    }
#else
    to[row * width + column] = x;
#endif
}

__device__ __forceinline__ float get(const float *from, size_t row, int width, int column)
{
    float sum = 0;
#pragma unroll
    for (int part = PARTS - 1; part >= 0; --part) sum += from[(row * PARTS + part) * width + column];
    return sum;
}

// Value of a table of pairs at the place t = 0 .. cells, by the cubic through four neighbours; the first entry is at t = -1.
__device__ __forceinline__ float2 at(const float2 *table, float t, int cells)
{
    int cell = min(max((int)t, 0), cells - 1);
    float f = t - cell;
    const float2 a = __ldg(table + cell), b = __ldg(table + cell + 1), c = __ldg(table + cell + 2), d = __ldg(table + cell + 3);
    float wa = -f * (f - 1) * (f - 2) / 6, wb = (f + 1) * (f - 1) * (f - 2) / 2, wc = -(f + 1) * f * (f - 2) / 2;
    float wd = (f + 1) * f * (f - 1) / 6;
    return make_float2(wa * a.x + wb * b.x + wc * c.x + wd * d.x, wa * a.y + wb * b.y + wc * c.y + wd * d.y);
}

// rho and its slope at x: tables of the middle, of the far left in -1/x, of the far right in 1/x.
__device__ __forceinline__ float2 response(const float2 *table, float x)
{
    if (x < EDGE_LEFT) {
        float y = -1 / x;
        float2 found = at(table + MIDDLE + 3, y * (-EDGE_LEFT * SIDE_CELLS), SIDE_CELLS);
        return make_float2(-x + y * found.x, found.y);
    }
    if (x > EDGE_RIGHT) {
        float y = 1 / x;
        float2 found = at(table + MIDDLE + SIDE_CELLS + 6, y * (EDGE_RIGHT * SIDE_CELLS), SIDE_CELLS);
        return make_float2(y * found.x, y * y * found.y);
    }
    return at(table, (x - EDGE_LEFT) * (MIDDLE / (EDGE_RIGHT - EDGE_LEFT)), MIDDLE);
}

// Adds x over the rows of a block and writes the sum of each column.
__device__ __forceinline__ void add_up(float x, float *partial, int width, int column)
{
    __shared__ float held[STRIPS][32];
    __syncthreads();
    held[threadIdx.y][threadIdx.x] = x;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int strip = 1; strip < STRIPS; ++strip) x += held[strip][threadIdx.x];
        partial[(size_t)blockIdx.y * width + column] = x;
    }
}

// Splits means into what the first product takes.
extern "C" __global__ void split(const float *mean, int rows, int width, Operand *operand)
{
    int column = blockIdx.x * 32 + threadIdx.x;
    if (column >= width) return;
    for (int row = blockIdx.y * ROWS + threadIdx.y; row < min(rows, (int)(blockIdx.y + 1) * ROWS); row += STRIPS)
        put(operand, row, width, column, mean[(size_t)row * width + column]);
}

// Products X m to the constraints' response; g moves by `weight` towards the new one, which goes to `operand`.
extern "C" __global__ void respond(const float *product, float scale, float margin, const float *variance, const float *weight,
                                   const float2 *table, int rows, int width, float *g, Operand *operand, float *slopes,
                                   float *squares)
{
    int column = blockIdx.x * 32 + threadIdx.x;
    float slope = 0, square = 0;
    if (column < width) {
        const float v = variance[column], move = weight[column], sigma = sqrtf(v), inverse = 1 / sigma;
        for (int row = blockIdx.y * ROWS + threadIdx.y; row < min(rows, (int)(blockIdx.y + 1) * ROWS); row += STRIPS) {
            size_t place = (size_t)row * width + column;
            float old = g[place], omega = get(product, row, width, column) * scale - v * old - margin;
            float2 found = response(table, omega * inverse);
            float fresh = found.x * inverse, curvature = found.y * inverse * inverse;
            slope += curvature;
            square += curvature * curvature;
            put(operand, row, width, column, fresh);
            if (move > 0) g[place] = old + move * (fresh - old);
        }
    }
    add_up(slope, slopes, width, column);
    add_up(square, squares, width, column);
}

// The precision A of each column from the partial sums of g'.
extern "C" __global__ void precisions(const float *slopes, const float *squares, int strips, float alpha_moment, int rows, int width,
                                      float *precision, float *roughness)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    double slope = 0, square = 0;
    for (int strip = 0; strip < strips; ++strip) {
        slope += slopes[(size_t)strip * width + column];
        square += squares[(size_t)strip * width + column];
    }
    precision[column] = (float)(-alpha_moment * slope / rows);
    roughness[column] = (float)(square / rows);
}

// Products X^T g to new means: m = tanh(B + h); they move by `weight`, and go to `operand`.
extern "C" __global__ void estimate(const float *product, float scale, const float *field, const float *precision,
                                    const float *weight, int rows, int width, float *mean, Operand *operand, float *changes,
                                    float *sizes, float *squares)
{
    int column = blockIdx.x * 32 + threadIdx.x;
    float change = 0, size = 0, square = 0;
    if (column < width) {
        const float a = precision[column], move = weight[column];
        for (int row = blockIdx.y * ROWS + threadIdx.y; row < min(rows, (int)(blockIdx.y + 1) * ROWS); row += STRIPS) {
            size_t place = (size_t)row * width + column;
            float old = mean[place], b = get(product, row, width, column) * scale + a * old + field[place];
            float decay = expf(-2 * fabsf(b)), inverse = 1 / (1 + decay);
            float fresh = copysignf((1 - decay) * inverse, b), spread = 4 * decay * inverse * inverse;
            change += (fresh - old) * (fresh - old);
            size += spread;
            square += spread * spread;
            if (move > 0) mean[place] = old = old + move * (fresh - old);
            put(operand, row, width, column, old);
        }
    }
    add_up(change, changes, width, column);
    add_up(size, sizes, width, column);
    add_up(square, squares, width, column);
}

// After an iteration: V, lambda, and which columns go on. outcome: 0 moving, 1 converged, 2 at the limit, 3 blown up.
extern "C" __global__ void control(const float *changes, const float *sizes, const float *squares, int strips, int rows, int width,
                                   float moment, float alpha_moment2, float floor_, float tossing, const float *roughness,
                                   const float *damping, const float *tolerance, const float *cap, float *variance,
                                   float *instability, float *spread, float *weight, float *best, float *residual, int *count,
                                   int *outcome, int *moving)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width || outcome[column] != 0) return;
    double change = 0, size = 0, square = 0;
    for (int strip = 0; strip < strips; ++strip) {
        size_t place = (size_t)strip * width + column;
        change += changes[place];
        size += sizes[place];
        square += squares[place];
    }
    change /= rows;
    size /= rows;
    square /= rows;
    variance[column] += weight[column] * (fmaxf((float)(moment * size), floor_) - variance[column]);
    instability[column] = (float)(alpha_moment2 * roughness[column] * square);
    spread[column] = (float)size;
    float now = (float)(change / size), lowest = best[column];
    int made = ++count[column];
    bool done = now < tolerance[column], late = !done && made >= cap[column];
    bool worse = now > 1 && now > 10 * lowest && change > tossing;
    bool lost = !(fabsf(now) <= 3.4e38f) || worse || (late && change > tossing && now > 0.1f);
    best[column] = fminf(lowest, now);
    residual[column] = now;
    if (lost || done || late) {
        outcome[column] = lost ? 3 : done ? 1 : 2;
        weight[column] = 0;
        atomicSub(moving, 1);
    }
}
