// Patterns of +-1 as numbers of bfloat16.

typedef unsigned short u16;

// From bits, eight to a byte with the first in the highest place: 1 stands for +1.
extern "C" __global__ void from_bits(const unsigned char *bits, long long count, u16 *signs)
{
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) signs[at] = bits[at >> 3] >> (7 - (int)(at & 7)) & 1 ? 0x3f80 : 0xbf80;
}

extern "C" __global__ void from_signs(const signed char *given, long long count, u16 *signs)
{
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) signs[at] = given[at] > 0 ? 0x3f80 : 0xbf80;
}
