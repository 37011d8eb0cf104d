"""Compiled distances to the centers of spheres, added up in column order."""

import numpy as np

from ikmap.compiled import compiled


@compiled
def between_dense(X, i, Y, j, most):
    """Squared distance of row i of X and row j of Y; something larger than `most` as soon as it is."""
    total = 0.0
    for k in range(X.shape[1]):
        total += (X[i, k] - Y[j, k]) ** 2
        if total > most:
            break
    return total


@compiled
def between_csr(data, indices, indptr, i, data2, indices2, indptr2, j, most):
    """The same of sparse rows, whose entries are in column order: the same bits as of dense ones."""
    total = 0.0
    a, b, end_a, end_b = indptr[i], indptr2[j], indptr[i + 1], indptr2[j + 1]
    while (a < end_a or b < end_b) and total <= most:
        if b == end_b or (a < end_a and indices[a] < indices2[b]):
            total += data[a] ** 2
            a += 1
        elif a == end_a or indices2[b] < indices[a]:
            total += data2[b] ** 2
            b += 1
        else:
            total += (data[a] - data2[b]) ** 2
            a += 1
            b += 1
    return total


@compiled({"inne dense": "f8[:, ::1], i4[:, ::1], f8[:, ::1]"})
def radii_dense(centers, members, squared):
    """squared[i, k] = squared distance of point k of subsample i to the nearest other point of that subsample."""
    t, psi = members.shape
    squared[:] = np.inf
    for i in range(t):
        for k in range(psi):
            for m in range(k):
                found = between_dense(centers, members[i, k], centers, members[i, m], np.inf)
                squared[i, k] = min(squared[i, k], found)
                squared[i, m] = min(squared[i, m], found)


@compiled({"inne sparse": "f8[::1], i4[::1], i8[::1], i4[:, ::1], f8[:, ::1]"})
def radii_csr(data, indices, indptr, members, squared):
    """The same of sparse centers."""
    t, psi = members.shape
    squared[:] = np.inf
    for i in range(t):
        for k in range(psi):
            for m in range(k):
                a, b = members[i, k], members[i, m]
                found = between_csr(data, indices, indptr, a, data, indices, indptr, b, np.inf)
                squared[i, k] = min(squared[i, k], found)
                squared[i, m] = min(squared[i, m], found)


@compiled({"inne dense": "f8[:, ::1], f8[:, ::1], i4[:, ::1], f8[:, ::1], i4[:, ::1]"})
def leave_out_dense(X, centers, members, squared, codes):
    """codes[i, j] = -1 where row i is farther from the center of its cell than the radius there."""
    n, t = codes.shape
    for i in range(n):
        for j in range(t):
            most = squared[j, codes[i, j]]
            if between_dense(X, i, centers, members[j, codes[i, j]], most) > most:
                codes[i, j] = -1


@compiled({"inne sparse": "f8[::1], i4[::1], i8[::1], f8[::1], i4[::1], i8[::1], i4[:, ::1], f8[:, ::1], i4[:, ::1]"})
def leave_out_csr(data, indices, indptr, data2, indices2, indptr2, members, squared, codes):
    """The same of sparse rows and centers."""
    n, t = codes.shape
    for i in range(n):
        for j in range(t):
            most, center = squared[j, codes[i, j]], members[j, codes[i, j]]
            if between_csr(data, indices, indptr, i, data2, indices2, indptr2, center, most) > most:
                codes[i, j] = -1
