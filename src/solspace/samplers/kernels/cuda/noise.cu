// Normal deviates of stochastic localization, as kernels/normals.py makes them: a thread draws four of one sample.

extern "C" __global__ void normals(const int *lanes, const int *steps, int count, const u64 *keys, int n, int k,
                                   const float *table, float *out)
{
    int place = blockIdx.y * blockDim.x + threadIdx.x, block = blockIdx.x;
    if (place >= count) return;
    int lane = lanes[place], problem = lane / k, sample = lane % k;
    Block drawn = philox(block, steps[place], sample, NOISE, keys[problem]);
    const u32 words[4] = {drawn.a, drawn.b, drawn.c, drawn.d};
    for (int part = 0; part < 4; ++part) {
        int site = 4 * block + part;
        if (site >= n) return;
        u32 odd = words[part] | 1u;
        int octave = 31 - __clz(odd);
        u32 mantissa = (odd << (31 - octave)) & 0x7fffffffu;
        const float *row = table + 4 * (CELLS * octave + (mantissa >> 26));
        float t = __fmul_rn((float)(mantissa & 0x3ffffffu), 1.4901161193847656e-8f);
        float z = __fadd_rn(row[2], __fmul_rn(t, row[3]));
        z = __fadd_rn(row[0], __fmul_rn(t, __fadd_rn(row[1], __fmul_rn(t, z))));
        out[((size_t)problem * n + site) * k + sample] = words[part] & 1u ? z : -z;
    }
}
