// What the kernels for Voronoi partitions share; it stands before the source of each of them.
//
// Distances are added up in column order without contraction: the same bits as on a processor. Ties go to the lowest
// number.

#define LARGEST 3.402823466e+38f

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

// The score beyond which no member can be the nearest. A negative length says that nothing is known of a row's scores.
__device__ inline double limit_of(float low, double length, double reach, double unit) {
    return length < 0.0 ? LARGEST : low + margin_of(low, length, reach, unit);
}

// Whether float64 has to decide between the two lowest scores.
__device__ inline bool is_close(float second, double limit, double length, double unit) {
    return second <= limit && (length < 0.0 || unit > 0.0);
}

__device__ inline double distance_of(const double* row, const double* center, int n_features) {
    double total = 0.0;
    for (int j = 0; j < n_features; j++) {
        double difference = __dsub_rn(row[j], center[j]);
        total = __dadd_rn(total, __dmul_rn(difference, difference));
    }
    return total;
}

// The number, for thread 0, of the nearest of those members 0 .. psi - 1 that are near. The threads of the block share
// them out; `nearest` and `numbers` are shared memory for a value of each.
template <class Near, class Distance>
__device__ inline int nearest_of(int psi, Near near, Distance distance, double* nearest, int* numbers) {
    double least = 0.0;
    int number = psi;  // none
    for (int k = threadIdx.x; k < psi; k += THREADS) {
        if (!near(k)) continue;
        const double apart = distance(k);
        if (number == psi || apart < least) {  // the first one counts even if it overflows
            least = apart;
            number = k;
        }
    }
    nearest[threadIdx.x] = least;
    numbers[threadIdx.x] = number;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half) continue;
        const double other = nearest[threadIdx.x + half], mine = nearest[threadIdx.x];
        const int its = numbers[threadIdx.x + half], own = numbers[threadIdx.x];
        // None is the largest number; where distances are no numbers, all are none, and the lowest number counts.
        if (its < psi && (own == psi || other < mine || (!(mine < other) && its < own))) {
            nearest[threadIdx.x] = other;
            numbers[threadIdx.x] = its;
        }
    }
    return numbers[0];
}
