// Stands in for the header of the CUDA compiler, which the wheels with CUPTI's headers do not bring: for code compiled by a host's
// compiler alone, all that it says is that these words mean nothing. Looked for behind every other folder, so the real one goes first.
#pragma once
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __host__
#define __device__
#define __forceinline__ inline
#define CUDARTAPI
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __specialization_static static
