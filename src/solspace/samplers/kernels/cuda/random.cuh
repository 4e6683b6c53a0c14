// Random numbers, word for word those of kernels/philox.py: Philox4x32-10 of the counter
// (block, sweep, chain, stream), and thresholds floor(-log(u) kt) (Metropolis) or floor(log((1 - u)/u) kt) (heat bath) by
// fdlibm's logarithm. The float64 operations are written as intrinsics that the compiler must not fuse, so that every
// processor finds the same integers.

typedef unsigned int u32;
typedef unsigned long long u64;

#define ACCEPTANCE 0u
#define ORDER 1u
#define START 2u
#define NOISE 3u
#define TILTED 5u
#define NEVER (-2147483647 - 1)

struct Block { u32 a, b, c, d; };

__device__ __forceinline__ Block philox(u32 block, u32 sweep, u32 chain, u32 stream, u64 key)
{
    u32 a = block, b = sweep, c = chain, d = stream, k = (u32)key, l = (u32)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u64 p = (u64)0xD2511F53u * a, q = (u64)0xCD9E8D57u * c;
        a = (u32)(q >> 32) ^ b ^ k;
        b = (u32)q;
        c = (u32)(p >> 32) ^ d ^ l;
        d = (u32)p;
        k += 0x9E3779B9u;
        l += 0xBB67AE85u;
    }
    return {a, b, c, d};
}

__device__ __forceinline__ double minus_log(double u)
{
    const long long one = 0x3FF0000000000000ll, root_half = 0x3FE6A09E667F3BCDll;
    long long shifted = __double_as_longlong(u) + (one - root_half);
    double e = (double)((int)(shifted >> 52) - 1023);
    double f = __dadd_rn(__longlong_as_double((shifted & 0x000FFFFFFFFFFFFFll) + root_half), -1.0);
    double s = __ddiv_rn(f, __dadd_rn(2.0, f)), z = __dmul_rn(s, s), w = __dmul_rn(z, z);
    double odd = __dadd_rn(2.222219843214978396e-01, __dmul_rn(w, 1.531383769920937332e-01));
    odd = __dmul_rn(w, __dadd_rn(3.999999999940941908e-01, __dmul_rn(w, odd)));
    double even = __dadd_rn(1.818357216161805012e-01, __dmul_rn(w, 1.479819860511658591e-01));
    even = __dadd_rn(2.857142874366239149e-01, __dmul_rn(w, even));
    even = __dmul_rn(z, __dadd_rn(6.666666666666735130e-01, __dmul_rn(w, even)));
    double h = __dmul_rn(__dmul_rn(0.5, f), f);
    double tail = __dmul_rn(s, __dadd_rn(h, __dadd_rn(even, odd)));
    double log = __dadd_rn(h, -__dadd_rn(tail, __dmul_rn(e, 1.90821492927058770002e-10)));
    return __dadd_rn(__dadd_rn(log, -f), -__dmul_rn(e, 6.93147180369123816490e-01));
}

__device__ __forceinline__ int threshold(u32 low, u32 high, double kt, bool bath)
{
    u64 raw = ((u64)high << 32) | low;
    double u = __dadd_rn(__longlong_as_double((long long)(raw >> 12) | 0x3FF0000000000000ll), -1.0);
    u = __dadd_rn(u, 1.1102230246251565e-16);
    if (!bath)
        return __double2int_rz(__dmul_rn(minus_log(u), kt));
    // so small a kt stands for zero: it only lets the sign of the logarithm through
    double least = kt > 1e-300 ? kt : 1e-300;
    double odds = __dadd_rn(minus_log(u), -minus_log(__dadd_rn(1.0, -u)));
    return __double2int_rd(__dmul_rn(odds, least));
}
