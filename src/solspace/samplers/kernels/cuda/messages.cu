// The two halves of an AMP iteration for problems of one shape, and the control of its columns.
//
// Columns are samples, k to a problem: column c belongs to problem c / k, whose arrays (rows, k) lie one behind the other, so
// that neighbouring threads are neighbouring columns. A block takes WIDE columns and ROWS rows, LINES of them at a time: where
// columns are few, those of one problem, so that its threads read what lies side by side. Sums over rows leave it as one
// partial sum for each column, added up in a fixed order afterwards, so that nothing depends on the order of blocks. What
// goes into a matrix product is split into PARTS numbers of bfloat16 side by side (three keep all of float32; patterns of +-1
// are exact), or left as float32 if PARTS is 1; what comes out is the sum of as many float32.
//
// FORM is the weight of a constraint: 0 for s^beta, 1 for (s e^{as - bs^2})^beta, 2 for e^{-beta} on s < 0, 3 for e^{beta s}
// there, 4 for a band of half width `first` about the margin, 5 for (-s)^beta; `first` and `second` are its numbers. The sizes WIDE,
// ROWS, LINES (at most 256), MIDDLE, SIDE_CELLS and EDGE_* and the names of outcomes
// are constants of the compilation, set by marginals/gpu.py.


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

// Where the column begins in an array whose rows hold `parts` numbers for each of the k columns.
__device__ __forceinline__ size_t start_of(int column, int k, int rows, int parts)
{
    return (size_t)(column / k) * rows * parts * k + column % k;
}

__device__ __forceinline__ void put(Operand *to, size_t row, int k, float x)
{
#if PARTS == 3
#pragma unroll
    for (int part = 0; part < 3; ++part) {
        float piece = bfloat(x);
        to[(row * 3 + part) * k] = (u16)(__float_as_uint(piece) >> 16);
        x -= piece;
    }
#else
    to[row * k] = x;
#endif
}

__device__ __forceinline__ float get(const float *from, size_t row, int k)
{
    float sum = 0;
#pragma unroll
    for (int part = PARTS - 1; part >= 0; --part) sum += from[(row * PARTS + part) * k];
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

// Of the weight s^beta at x = omega/sqrt(V): the response rho, its slope, and the posterior mean rho + x.
struct Response { float rho, slope, mean; };

// From tables of the middle, of the far left in -1/x, of the far right in 1/x.
__device__ __forceinline__ Response response(const float2 *table, float x)
{
    if (x < EDGE_LEFT) {
        float y = -1 / x;
        float2 found = at(table + MIDDLE + 3, y * (-EDGE_LEFT * SIDE_CELLS), SIDE_CELLS);
        return {-x + y * found.x, found.y, y * found.x};
    }
    if (x > EDGE_RIGHT) {
        float y = 1 / x;
        float2 found = at(table + MIDDLE + SIDE_CELLS + 6, y * (EDGE_RIGHT * SIDE_CELLS), SIDE_CELLS);
        return {y * found.x, y * y * found.y, x + y * found.x};
    }
    float2 found = at(table, (x - EDGE_LEFT) * (MIDDLE / (EDGE_RIGHT - EDGE_LEFT)), MIDDLE);
    return {found.x, found.y, found.x + x};
}

// Weights of the cubic through four neighbours, at f = 0 .. 1 between the middle ones.
__device__ __forceinline__ float4 cubic(float f)
{
    return make_float4(-f * (f - 1) * (f - 2) / 6, (f + 1) * (f - 1) * (f - 2) / 2, -(f + 1) * f * (f - 2) / 2, (f + 1) * f * (f - 1) / 6);
}

// Of a band: from its plane over log V and asinh of the distance xi inside the nearer wall.
__device__ __forceinline__ float2 inside_band(const float2 *plane, float xi, float sigma)
{
    const float size = fabsf(xi), hypotenuse = sqrtf(1 + xi * xi);
    const float ramp = xi > 0 ? 0.5f / (hypotenuse + size) : 0.5f * (hypotenuse + size);
    const float row = fminf(fmaxf((2 * logf(sigma) - LEAST) / ROW_STEP, 0.0f), (float)PLANE_ROWS);
    const float place = fminf(fmaxf((copysignf(logf(size + hypotenuse), xi) - OUTERMOST) / FIELD_STEP, 0.0f), (float)PLANE_FIELDS);
    const int i = min((int)row, PLANE_ROWS - 1), j = min((int)place, PLANE_FIELDS - 1);
    const float4 across = cubic(place - j), along = cubic(row - i);
    float gamma = 0, slope = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 *line = plane + (size_t)(i + k) * (PLANE_FIELDS + 3) + j;
        const float2 a = __ldg(line), b = __ldg(line + 1), c = __ldg(line + 2), d = __ldg(line + 3);
        const float weight = k == 0 ? along.x : k == 1 ? along.y : k == 2 ? along.z : along.w;
        gamma += weight * (across.x * a.x + across.y * b.x + across.z * c.x + across.w * d.x);
        slope += weight * (across.x * a.y + across.y * b.y + across.z * c.y + across.w * d.y);
    }
    return make_float2(gamma + ramp, slope);
}

// g sqrt(V) and dg V of a constraint at omega, measured from the margin: the closed forms of measure/channels.py.
__device__ __forceinline__ float2 channel(const float2 *table, float omega, float sigma, float inverse, float first, float second)
{
    const float x = omega * inverse;
#if FORM == 0
    Response found = response(table, x);
    return make_float2(found.rho, found.slope);
#elif FORM == 1
    const float widening = 1 + 2 * second * sigma * sigma, root = 1 / sqrtf(widening), at = (x + first * sigma) * root;
    Response found = response(table, at);
    const float near = found.rho * root + sigma * (first - 2 * second * omega) / widening, far = found.mean * root - x;
    return make_float2(at < 0 ? far : near, (found.slope - 2 * second * sigma * sigma) / widening);
#elif FORM == 2
    // first = beta, second = 1 - exp(-beta); the constant is log sqrt(2 pi)
    Response found = response(table, x);
    const float mixing = found.rho * expf(0.5f * x * x + 0.91893853f - first) / second;
    const float gamma = found.rho > 0 ? found.rho / (1 + mixing) : 0.0f;
    const float below = mixing > 3.4e38f ? -x : found.rho / (1 / mixing + 1);
    return make_float2(gamma, -gamma * (x < 0 ? found.mean - below : gamma + x));
#elif FORM == 4
    float2 found = inside_band(table, (first - fabsf(omega)) * inverse, sigma);
    return make_float2(omega > 0 ? -found.x : found.x, found.y);
#elif FORM == 5
    Response found = response(table, -x);
    return make_float2(-found.rho, found.slope);
#else
    const float tilt = first * sigma;
    Response right = response(table, x), wrong = response(table, -x - tilt);
    const float total = right.rho + wrong.rho, p = right.rho / total, q = wrong.rho / total;
    return make_float2(tilt * p, -tilt * p * q * (right.mean + wrong.mean));
#endif
}

// Adds numbers up over the rows of a block and writes the sums of each column.
template <int COUNT> __device__ __forceinline__ void add_up(const float (&x)[COUNT], float *const (&partial)[COUNT], int width, int column)
{
    __shared__ float held[COUNT][LINES][WIDE];
    const int line = threadIdx.y, own = threadIdx.x;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) held[i][line][own] = x[i];
#pragma unroll
    for (int half = 128; half; half /= 2) {
        if (half >= LINES) continue;
        __syncthreads();
        if (line < half && line + half < LINES)
#pragma unroll
            for (int i = 0; i < COUNT; ++i) held[i][line][own] += held[i][line + half][own];
    }
    if (line == 0 && column < width)
#pragma unroll
        for (int i = 0; i < COUNT; ++i) partial[i][(size_t)blockIdx.y * width + column] = held[i][0][own];
}

#define FIRST_ROW (blockIdx.y * ROWS + threadIdx.y)
#define LAST_ROW min(rows, (int)(blockIdx.y + 1) * ROWS)

// Splits means into what the first product takes.
extern "C" __global__ void split(const float *mean, int rows, int k, int width, Operand *operand)
{
    int column = blockIdx.x * WIDE + threadIdx.x;
    if (column >= width) return;
    mean += start_of(column, k, rows, 1);
    operand += start_of(column, k, rows, PARTS);
    for (int row = FIRST_ROW; row < LAST_ROW; row += LINES) put(operand, row, k, mean[(size_t)row * k]);
}

// Copies columns of an array (rows, from_k) to one of (rows, to_k): column c comes from column chosen[c], or is filled where
// that is negative; back again if `back`.
extern "C" __global__ void move(float *from, int from_k, float *to, int to_k, int width, const int *chosen, int rows, float fill,
                                int back)
{
    int column = blockIdx.x * WIDE + threadIdx.x;
    if (column >= width) return;
    const int other = chosen[column];
    if (other < 0 && back) return;
    to += start_of(column, to_k, rows, 1);
    if (other >= 0) from += start_of(other, from_k, rows, 1);
    for (int row = FIRST_ROW; row < LAST_ROW; row += LINES) {
        if (back)
            from[(size_t)row * from_k] = to[(size_t)row * to_k];
        else
            to[(size_t)row * to_k] = other >= 0 ? from[(size_t)row * from_k] : fill;
    }
}

// Products X m to the constraints' response; g moves by `weight` towards the new one, which goes to `operand`. A column at
// rest, of weight 0, is left out, here and below: nobody looks at its products and sums.
extern "C" __global__ void respond(const float *product, float scale, float margin, float first, float second,
                                   const float *variance, const float *weight, const float2 *table, int rows, int k, int width,
                                   float *g, Operand *operand, float *slopes, float *squares)
{
    int column = blockIdx.x * WIDE + threadIdx.x;
    float slope = 0, square = 0;
    if (column < width && weight[column] > 0) {
        const float v = variance[column], step = weight[column], sigma = sqrtf(v), inverse = 1 / sigma;
        g += start_of(column, k, rows, 1);
        product += start_of(column, k, rows, PARTS);
        operand += start_of(column, k, rows, PARTS);
        for (int row = FIRST_ROW; row < LAST_ROW; row += LINES) {
            float old = g[(size_t)row * k], omega = get(product, row, k) * scale - v * old - margin;
            float2 found = channel(table, omega, sigma, inverse, first, second);
            float fresh = found.x * inverse, curvature = found.y * inverse * inverse;
            slope += curvature;
            square += curvature * curvature;
            put(operand, row, k, fresh);
            g[(size_t)row * k] = old + step * (fresh - old);
        }
    }
    add_up<2>({slope, square}, {slopes, squares}, width, column);
}

// The precision A of each column from the partial sums of g'; `moment` is the mean of x^2 in its problem.
extern "C" __global__ void precisions(const float *slopes, const float *squares, int strips, float alpha, const float *moment,
                                      int rows, int width, float *precision, float *roughness)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    double slope = 0, square = 0;
    for (int strip = 0; strip < strips; ++strip) {
        slope += slopes[(size_t)strip * width + column];
        square += squares[(size_t)strip * width + column];
    }
    precision[column] = (float)(-alpha * moment[column] * slope / rows);
    roughness[column] = (float)(square / rows);
}

// Products X^T g to new means of +-1 weights, m = tanh(B + h); they move by `weight`, and go to `operand`. Where `share` is
// not negative, so much of B + h is the field of a moving column afterwards.
extern "C" __global__ void estimate(const float *product, float scale, float *field, const float *share,
                                    const float *precision, const float *weight, int rows, int k, int width, float *mean, Operand *operand,
                                    float *changes, float *sizes, float *squares)
{
    int column = blockIdx.x * WIDE + threadIdx.x;
    float change = 0, size = 0, square = 0;
    if (column < width && weight[column] > 0) {
        const float a = precision[column], step = weight[column], fed = share[0];
        const size_t start = start_of(column, k, rows, 1);
        product += start_of(column, k, rows, PARTS);
        operand += start_of(column, k, rows, PARTS);
        for (int row = FIRST_ROW; row < LAST_ROW; row += LINES) {
            size_t here = start + (size_t)row * k;
            float old = mean[here], b = get(product, row, k) * scale + a * old + field[here];
            if (fed >= 0) field[here] = fed * b;
            float decay = expf(-2 * fabsf(b)), inverse = 1 / (1 + decay);
            float fresh = copysignf((1 - decay) * inverse, b), spread = 4 * decay * inverse * inverse;
            change += (fresh - old) * (fresh - old);
            size += spread;
            square += spread * spread;
            mean[here] = old = old + step * (fresh - old);
            put(operand, row, k, old);
        }
    }
    add_up<3>({change, size, square}, {changes, sizes, squares}, width, column);
}

// On the sphere, first: B + h in the place of the first part of the products, and partial sums of its square.
extern "C" __global__ void tilt(float *product, float scale, const float *field, const float *precision, int rows, int k,
                                int width, const float *mean, float *squares)
{
    int column = blockIdx.x * WIDE + threadIdx.x;
    float square = 0;
    if (column < width) {
        const float a = precision[column];
        const size_t start = start_of(column, k, rows, 1);
        product += start_of(column, k, rows, PARTS);
        for (int row = FIRST_ROW; row < LAST_ROW; row += LINES) {
            size_t here = start + (size_t)row * k;
            float b = get(product, row, k) * scale + a * mean[here] + field[here];
            product[(size_t)row * PARTS * k] = b;
            square += b * b;
        }
    }
    add_up<1>({square}, {squares}, width, column);
}

// Then: 1/Lambda = 2/(1 + sqrt(1 + 4 b)) with b the mean square of B + h.
extern "C" __global__ void norms(const float *squares, int strips, int rows, int width, float *factor)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    double square = 0;
    for (int strip = 0; strip < strips; ++strip) square += squares[(size_t)strip * width + column];
    factor[column] = (float)(2 / (1 + sqrt(1 + 4 * square / rows)));
}

// Last: means (B + h)/Lambda and variances 1/Lambda.
extern "C" __global__ void shrink(const float *product, const float *factor, const float *weight, int rows, int k, int width,
                                  float *mean, Operand *operand, float *changes, float *sizes, float *squares)
{
    int column = blockIdx.x * WIDE + threadIdx.x;
    float change = 0, size = 0, square = 0;
    if (column < width) {
        const float spread = factor[column], step = weight[column];
        const size_t start = start_of(column, k, rows, 1);
        product += start_of(column, k, rows, PARTS);
        operand += start_of(column, k, rows, PARTS);
        for (int row = FIRST_ROW; row < LAST_ROW; row += LINES) {
            size_t here = start + (size_t)row * k;
            float old = mean[here], fresh = product[(size_t)row * PARTS * k] * spread;
            change += (fresh - old) * (fresh - old);
            size += spread;
            square += spread * spread;
            if (step > 0) mean[here] = old = old + step * (fresh - old);
            put(operand, row, k, old);
        }
    }
    add_up<3>({change, size, square}, {changes, sizes, squares}, width, column);
}

// After an iteration: V, lambda, and which columns go on. The decisions are those of relaxation.judge. A column
// that missed its tolerance in the last call is not `patient`: it may stop at its limit wherever it is.
extern "C" __global__ void control(const float *changes, const float *sizes, const float *squares, int strips, int rows, int width,
                                   const float *moment, float alpha, float floor_, float tossing, const float *roughness,
                                   const float *tolerance, const float *cap, const float *patient, float *variance,
                                   float *instability, float *spread, float *weight, float *best, float *residual, int *count,
                                   int *outcome, int *moving)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width || outcome[column] != MOVING) return;
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
    variance[column] += weight[column] * (fmaxf((float)(moment[column] * size), floor_) - variance[column]);
    instability[column] = (float)(alpha * moment[column] * moment[column] * roughness[column] * square);
    spread[column] = (float)size;
    float now = (float)(change / size), lowest = best[column];
    int made = ++count[column];
    bool done = now < tolerance[column], late = !done && made >= cap[column];
    bool worse = now > 1 && now > 10 * lowest && change > tossing;
    bool lost = !(fabsf(now) <= 3.4e38f) || worse || (late && change > tossing && patient[column] > 0);
    best[column] = fminf(lowest, now);
    residual[column] = now;
    if (lost || done || late) {
        outcome[column] = lost ? BLOWN : done ? CONVERGED : SLOW;
        weight[column] = 0;
        atomicSub(moving, 1);
    }
}
