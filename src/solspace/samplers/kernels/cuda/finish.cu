// The end of a localization: weights drawn from means, as kernels/philox.py draws them, and how far replicas have come.

typedef signed char i8;

// The first weights (2 k, n) and the fields (2 k, n) of two replicas of each of k samples, from columns (problems, n, each): a
// thread makes four of one sample's.
extern "C" __global__ void begin(const REAL *field, const REAL *mean, const u64 *keys, int n, int each, int k, i8 *weights, double *fields)
{
    const int lane = blockIdx.y * blockDim.x + threadIdx.x, block = blockIdx.x;
    if (lane >= k) return;
    const int problem = lane / each, sample = lane % each;
    for (int replica = 0; replica < 2; ++replica) {
        const Block drawn = philox(block, 0, 2 * sample + replica, TILTED, keys[problem]);
        const u32 words[4] = {drawn.a, drawn.b, drawn.c, drawn.d};
        for (int part = 0; part < 4 && 4 * block + part < n; ++part) {
            const int site = 4 * block + part;
            const size_t from = ((size_t)problem * n + site) * each + sample, to = (2 * (size_t)lane + replica) * n + site;
            const double chance = __dmul_rn(0.5, __dadd_rn(1.0, (double)mean[from]));
            weights[to] = ((double)words[part] + 0.5) * (1.0 / 4294967296.0) < chance ? 1 : -1;
            fields[to] = field[from];
        }
    }
}

// Of two replicas' two draws each, (k, replicas, draws, n): how much a replica's own draws, and the replicas', have in common.
extern "C" __global__ void overlaps(const i8 *draws, int n, int *own, int *cross)
{
    const i8 *first = draws + 4 * (size_t)blockIdx.x * n, *second = first + 2 * (size_t)n;
    int alike = 0, across = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        alike += first[i] * first[n + i] + second[i] * second[n + i];
        across += first[i] * second[i] + first[n + i] * second[n + i];
    }
    atomicAdd(own + blockIdx.x, alike);
    atomicAdd(cross + blockIdx.x, across);
}
