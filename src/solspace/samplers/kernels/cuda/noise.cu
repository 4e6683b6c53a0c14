// Normal deviates of stochastic localization, as kernels/normals.py makes them: a thread draws four of one sample.

__device__ __forceinline__ float deviate(u32 word, const float *table)
{
    u32 odd = word | 1u;
    int octave = 31 - __clz(odd);
    u32 mantissa = (odd << (31 - octave)) & 0x7fffffffu;
    const float *row = table + 4 * (CELLS * octave + (mantissa >> 26));
    float t = __fmul_rn((float)(mantissa & 0x3ffffffu), 1.4901161193847656e-8f);
    float z = __fadd_rn(row[2], __fmul_rn(t, row[3]));
    z = __fadd_rn(row[0], __fmul_rn(t, __fadd_rn(row[1], __fmul_rn(t, z))));
    return word & 1u ? z : -z;
}

extern "C" __global__ void normals(const int *lanes, const int *steps, int count, const u64 *keys, int n, int k,
                                   const float *table, float *out)
{
    int place = blockIdx.y * blockDim.x + threadIdx.x, block = blockIdx.x;
    if (place >= count) return;
    int lane = lanes[place], problem = lane / k, sample = lane % k;
    Block drawn = philox(block, steps[place], sample, NOISE, keys[problem]);
    const u32 words[4] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int part = 0; part < 4 && 4 * block + part < n; ++part)
        out[((size_t)problem * n + 4 * block + part) * k + sample] = deviate(words[part], table);
}

// Adds `size` times the deviates of one step to the fields (n, k) of the samples of one problem, and sets what follows it: `next`.
extern "C" __global__ void stir(const u64 *keys, int n, int k, const float *table, int step, float size, float *field, float next,
                                float *share)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x, block = at / k, sample = at % k;
    if (at == 0) *share = next;
    if (4 * block >= n) return;
    Block drawn = philox(block, step, sample, NOISE, keys[0]);
    const u32 words[4] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int part = 0; part < 4 && 4 * block + part < n; ++part) {
        float *own = field + (size_t)(4 * block + part) * k + sample;
        *own = __fadd_rn(*own, __fmul_rn(size, deviate(words[part], table)));
    }
}
