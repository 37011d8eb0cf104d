// Cells of Voronoi partitions from products of rows and centres.
//
// `lowest_scores` finds the lowest score of each partitioning's members, and writes the member's number; where another
// score is closer than rounding can move the two, it notes the pair of row and partitioning instead. `settle_close`
// then chooses by distances in float64 among the close members of such pairs, a block of threads for each.
//
// Compiled with THREADS of a block (a power of two), ROWS, which a block scores together, and SPARSE: 1 if rows and
// centres are lists of entries, 0 if they are dense.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif

struct __align__(4 * ROWS) Scores {
    float of_row[ROWS];
};

// A block has ROWS rows and up to g partitionings; each partitioning's members are shared out to several threads, which
// have the same place in all parts. Scores pass through shared memory, those of `part` centres at a time.
// words: for each group of partitionings and each part, a line for each step, with a word for each thread: the centre's
//   place in the part in the upper half and the member's number in the lower; `part` and 65,535 are none. begins (groups
//   * parts + 1): the lines. products (n, n_centers): -2 <x, u>; norms: |u|^2. lengths, units (n): as for nearest_members.
// Grid: all groups of the first ROWS rows, of the next ROWS, ...
// close: entries row * t + partitioning, with their limits; n_close: how many, 0 before. codes (n, t).
extern "C" __global__ void __launch_bounds__(THREADS)
lowest_scores(int n, int t, int g, int slices, int n_centers, int part, double reach, const int* __restrict__ begins,
              const unsigned* __restrict__ words, const float* __restrict__ products, const float* __restrict__ norms,
              const double* __restrict__ lengths, const double* __restrict__ units, unsigned long long* n_close,
              long long* __restrict__ close, double* __restrict__ limits, int* __restrict__ codes) {
    DYNAMIC_SHARED(float, room);
    Scores* scores = (Scores*)room;
    const int places = g * slices, parts = (n_centers + part - 1) / part;
    const int groups = (t + g - 1) / g, group = blockIdx.x % groups;
    const long long row = (long long)(blockIdx.x / groups) * ROWS;
    const bool works = threadIdx.x < places;

    float low[ROWS], second[ROWS];
    int number[ROWS];
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        low[q] = second[q] = LARGEST;
        number[q] = 0;
    }
    for (int p = 0; p < parts; p++) {
        const int first = p * part, size = n_centers - first < part ? n_centers - first : part;
        __syncthreads();  // all are done with the last part
#pragma unroll
        for (int q = 0; q < ROWS; q++) {
            const float* own = products + (row + q < n ? row + q : n - 1) * n_centers + first;
            for (int k = threadIdx.x; k < size; k += THREADS) scores[k].of_row[q] = own[k] + norms[first + k];
            if (threadIdx.x == 0) scores[part].of_row[q] = LARGEST;
        }
        __syncthreads();
        const int line = group * parts + p;
        const unsigned* own = words + (long long)begins[line] * places + threadIdx.x;
        const int steps = works ? begins[line + 1] - begins[line] : 0;
#pragma unroll 4
        for (int step = 0; step < steps; step++) {
            const unsigned word = own[(long long)step * places];
            const int its = word & 65535;
            const Scores score = scores[word >> 16];
#pragma unroll
            for (int q = 0; q < ROWS; q++) {
                const float s = score.of_row[q];
                if (s < low[q] || (s == low[q] && its < number[q])) number[q] = its;
                second[q] = fminf(second[q], fmaxf(low[q], s));
                low[q] = fminf(low[q], s);
            }
        }
    }

    __syncthreads();
    float *lows = room, *seconds = room + THREADS * ROWS;
    int* numbers = (int*)(room + 2 * THREADS * ROWS);
#pragma unroll
    for (int q = 0; q < ROWS; q++) {
        lows[q * THREADS + threadIdx.x] = low[q];
        seconds[q * THREADS + threadIdx.x] = second[q];
        numbers[q * THREADS + threadIdx.x] = number[q];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < ROWS * g; e += THREADS) {
        const int q = e / g, i = group * g + e % g;
        if (row + q >= n || i >= t) continue;
        int place = q * THREADS + e % g;
        float least = lows[place], next = seconds[place];
        int its = numbers[place];
        for (int slice = 1; slice < slices; slice++) {
            place += g;
            const float other = lows[place];
            if (other < least || (other == least && numbers[place] < its)) its = numbers[place];
            next = fminf(fminf(next, seconds[place]), fmaxf(least, other));
            least = fminf(least, other);
        }
        const double length = lengths[row + q], unit = units[row + q], limit = limit_of(least, length, reach, unit);
        const long long entry = (row + q) * t + i;
        if (is_close(next, limit, length, unit)) {
            const unsigned long long c = atomicAdd(n_close, 1ull);
            close[c] = entry;
            limits[c] = limit;
        } else {
            codes[entry] = its;
        }
    }
}

#if SPARSE
#define ROWS_AND_CENTERS                                                                                             \
    const long long *__restrict__ row_columns, const double *__restrict__ row_values,                                \
        const long long *__restrict__ row_begins, const long long *__restrict__ row_sizes,                           \
        const long long *__restrict__ columns, const double *__restrict__ values, const long long *__restrict__ begins, \
        const long long *__restrict__ sizes
#define DISTANCE(row, center)                                                                             \
    sparse_distance(row_columns + row_begins[row], row_values + row_begins[row], row_sizes[row],           \
                    columns + begins[center], values + begins[center], sizes[center])
// Of columns that neither has nothing is added: 0.
__device__ inline double sparse_distance(const long long* row_columns, const double* row_values, long long n,
                                         const long long* columns, const double* values, long long m) {
    double total = 0.0;
    for (long long i = 0, j = 0; i < n || j < m;) {
        const bool row_has = j >= m || (i < n && row_columns[i] <= columns[j]);
        const bool center_has = i >= n || (j < m && columns[j] <= row_columns[i]);
        const double difference = __dsub_rn(row_has ? row_values[i] : 0.0, center_has ? values[j] : 0.0);
        total = __dadd_rn(total, __dmul_rn(difference, difference));
        i += row_has;
        j += center_has;
    }
    return total;
}
#else
#define ROWS_AND_CENTERS const double *__restrict__ rows, const double *__restrict__ centers, int n_features
#define DISTANCE(row, center) distance_of(rows + (row)*n_features, centers + (center)*n_features, n_features)
#endif

// members (t, psi); grid: any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS)
settle_close(int t, int psi, int n_centers, const unsigned long long* __restrict__ n_close,
             const long long* __restrict__ close, const double* __restrict__ limits, const float* __restrict__ products,
             const float* __restrict__ norms, const int* __restrict__ members, ROWS_AND_CENTERS,
             int* __restrict__ codes) {
    __shared__ double nearest[THREADS];
    __shared__ int numbers[THREADS];
    for (unsigned long long c = blockIdx.x; c < *n_close; c += gridDim.x) {
        const long long row = close[c] / t;
        const int* own = members + close[c] % t * psi;
        const auto near = [&](int k) { return products[row * n_centers + own[k]] + norms[own[k]] <= limits[c]; };
        const auto distance = [&](int k) { return DISTANCE(row, (long long)own[k]); };
        const int number = nearest_of(psi, near, distance, nearest, numbers);
        if (threadIdx.x == 0) codes[close[c]] = number;
        __syncthreads();  // the next one needs the same room
    }
}
