// Cells of short dense rows in Voronoi partitions: distances, the nearest member and the exact recheck in one pass.
//
// Each thread has ROWS rows and one partitioning. It scores all members in float32, |u|^2 - 2 <x, u>, and keeps the two
// lowest scores. Where they are closer than rounding can move them, the threads of the block share the members out, and
// float64 distances decide, added up in column order without contraction: the same bits as on a processor. Ties go to
// the lowest number.
//
// Compiled with FEATURES, the number of columns, THREADS of a block (a power of two) and ROWS defined: a member read
// from shared memory serves so many rows, which have to fit into registers. Numbers too small for float32 may be
// flushed to zero: the margin allows for it.

#define WIDTH ((FEATURES + 3) / 4)
#define TILE 32

struct Nearest {
    float low, second;
    int number;
};

__device__ inline float score_of(const float4* x, const float4* line, float norm) {
    float score = norm;
#pragma unroll
    for (int w = 0; w < WIDTH; w++) {
        score = fmaf(x[w].x, line[w].x, score);
        score = fmaf(x[w].y, line[w].y, score);
        score = fmaf(x[w].z, line[w].z, score);
        score = fmaf(x[w].w, line[w].w, score);
    }
    return score;
}

// left (n, WIDTH): minus twice the rows, shifted and scaled, filled up with zeros; rows (n, FEATURES): as they are.
// lines (n_centers, WIDTH), norms: centres likewise and their squared lengths; centers: as they are.
// lengths, units (n): of the rows; a negative length says that nothing is known of a row's scores.
// members (t, psi); codes (n, t). Grid: blocks of THREADS * ROWS rows, partitionings.
extern "C" __global__ void __launch_bounds__(THREADS)
nearest_members(int n, int t, int psi, double reach, const float4* __restrict__ left,
                const double* __restrict__ lengths, const double* __restrict__ units,
                const float4* __restrict__ lines, const float* __restrict__ norms, const int* __restrict__ members,
                const double* __restrict__ rows, const double* __restrict__ centers, int* __restrict__ codes) {
    __shared__ float4 tile[TILE * WIDTH];
    __shared__ float tile_norms[TILE];
    __shared__ int n_doubtful, doubtful[THREADS * ROWS];
    __shared__ double limits[THREADS * ROWS];
    __shared__ double nearest[THREADS];
    __shared__ int numbers[THREADS];
    const int* own = members + (long long)blockIdx.y * psi;
    const long long begin_of_block = (long long)blockIdx.x * (THREADS * ROWS);

    float4 x[ROWS][WIDTH];
    Nearest found[ROWS];
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        const long long wanted = begin_of_block + q * THREADS + threadIdx.x, row = wanted < n ? wanted : n - 1;
#pragma unroll
        for (int w = 0; w < WIDTH; w++) x[q][w] = left[row * WIDTH + w];
        found[q].low = found[q].second = LARGEST;
        found[q].number = 0;
    }
    if (threadIdx.x == 0) n_doubtful = 0;

    for (int begin = 0; begin < psi; begin += TILE) {
        const int size = psi - begin < TILE ? psi - begin : TILE;
        __syncthreads();  // all are done with the last tile
        for (int e = threadIdx.x; e < size * WIDTH; e += THREADS)
            tile[e] = lines[(long long)own[begin + e / WIDTH] * WIDTH + e % WIDTH];
        for (int k = threadIdx.x; k < size; k += THREADS) tile_norms[k] = norms[own[begin + k]];
        __syncthreads();
        for (int k = 0; k < size; k++) {
#pragma unroll
            for (int q = 0; q < ROWS; q++) {
                const float score = score_of(x[q], tile + k * WIDTH, tile_norms[k]);
                if (score < found[q].low) {
                    found[q].second = found[q].low;
                    found[q].low = score;
                    found[q].number = begin + k;
                } else if (score < found[q].second) {
                    found[q].second = score;
                }
            }
        }
    }

#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        const int place = q * THREADS + threadIdx.x;
        const long long row = begin_of_block + place;
        if (row >= n) continue;
        const double limit = limit_of(found[q].low, lengths[row], reach, units[row]);
        if (is_close(found[q].second, limit, lengths[row], units[row])) {
            const int e = atomicAdd(&n_doubtful, 1);
            doubtful[e] = place;
            limits[e] = limit;
        } else {
            codes[row * t + blockIdx.y] = found[q].number;
        }
    }
    __syncthreads();

    for (int e = 0; e < n_doubtful; e++) {
        const long long row = begin_of_block + doubtful[e];
        // Of a row of which nothing is known `left` is 0, and no score beyond the limit.
        const auto near = [&](int k) {
            const long long center = own[k];
            return score_of(left + row * WIDTH, lines + center * WIDTH, norms[center]) <= limits[e];
        };
        const auto distance = [&](int k) {
            return distance_of(rows + row * FEATURES, centers + (long long)own[k] * FEATURES, FEATURES);
        };
        const int number = nearest_of(psi, near, distance, nearest, numbers);
        if (threadIdx.x == 0) codes[row * t + blockIdx.y] = number;
        __syncthreads();  // the next one needs the same room
    }
}
