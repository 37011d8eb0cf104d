// Cells of rows in trees: each thread has one row, and goes down one tree after the other.
//
// The threads of a warp have consecutive rows and the same tree, so that they read the same nodes near its root. Only
// comparisons: exact by construction. Compiled with THREADS of a block, a multiple of 32, and TREES of a block.

#define WARP 32

// A row goes left, to the next node, if its value is below; else right, counted from the root. A leaf has a negative
// feature, and the number of its cell on the right.
struct __align__(16) Node {
    double threshold;
    int feature, right;
};

// rows (n, width); roots (t); codes (n, t). Grid: blocks of WARP rows, blocks of TREES trees.
extern "C" __global__ void __launch_bounds__(THREADS)
walk_trees(int n, int t, int width, const double* __restrict__ rows, const Node* __restrict__ nodes,
           const long long* __restrict__ roots, int* __restrict__ codes) {
    const long long row = (long long)blockIdx.x * WARP + threadIdx.x % WARP;
    if (row >= n) return;
    const double* values = rows + row * width;
    const int begin = blockIdx.y * TREES, end = t - begin < TREES ? t : begin + TREES;
    for (int tree = begin + threadIdx.x / WARP; tree < end; tree += THREADS / WARP) {
        const Node* root = nodes + roots[tree];
        Node node = root[0];
        for (int at = 0; node.feature >= 0; node = root[at]) at = values[node.feature] < node.threshold ? at + 1 : node.right;
        codes[row * t + tree] = node.right;
    }
}
