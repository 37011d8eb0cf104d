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
#define LARGEST 3.402823466e+38f

struct Nearest {
    float low, second;
    int number;
};

// As `margin_of` of the compiled loops, for one partitioning.
__device__ inline double margin_of(double low, double length, double reach, double unit) {
    double far = reach;
    double squared = low + length * length;
    if (!(squared > 0.0)) squared = 0.0;
    double radius = 2.0 * sqrt(squared);
    double wide = 2.0 * length + radius;
    if (squared + 6.0 * unit * wide * wide < radius * radius && length + radius < far) far = length + radius;
    return 2.0 * unit * (length + far) * (length + far) + 0x1p-100;
}

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

__device__ inline double distance_of(const double* row, const double* center) {
    double total = 0.0;
    for (int j = 0; j < FEATURES; j++) {
        double difference = __dsub_rn(row[j], center[j]);
        total = __dadd_rn(total, __dmul_rn(difference, difference));
    }
    return total;
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
        const bool known = lengths[row] >= 0.0;
        const double margin = known ? margin_of(found[q].low, lengths[row], reach, units[row]) : LARGEST;
        const double limit = known ? found[q].low + margin : LARGEST;
        if (found[q].second <= limit && !(known && units[row] == 0.0)) {
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
        double least = 0.0;
        int number = psi;  // none
        for (int k = threadIdx.x; k < psi; k += THREADS) {
            const long long center = own[k];
            // Of a row of which nothing is known `left` is 0, and no score beyond the limit.
            if (score_of(left + row * WIDTH, lines + center * WIDTH, norms[center]) > limits[e]) continue;
            const double distance = distance_of(rows + row * FEATURES, centers + center * FEATURES);
            if (number == psi || distance < least) {  // the first one counts even if it overflows
                least = distance;
                number = k;
            }
        }
        nearest[threadIdx.x] = least;
        numbers[threadIdx.x] = number;
        for (int half = THREADS / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x >= half) continue;
            const double other = nearest[threadIdx.x + half], mine = nearest[threadIdx.x];
            const int its = numbers[threadIdx.x + half], own_number = numbers[threadIdx.x];
            // None is the largest number; where distances are no numbers, all are none, and the lowest number counts.
            if (its < psi && (own_number == psi || other < mine || (!(mine < other) && its < own_number))) {
                nearest[threadIdx.x] = other;
                numbers[threadIdx.x] = its;
            }
        }
        if (threadIdx.x == 0) codes[row * t + blockIdx.y] = numbers[0];
        __syncthreads();  // the next one needs the same room
    }
}
