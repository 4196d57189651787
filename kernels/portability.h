// SPDX-License-Identifier: MIT OR Apache-2.0
// Common names for what OpenCL C 1.2, CUDA (NVRTC) and C++17 on a host spell differently.
//
// The layout of the AES tables is chosen at compile time:
//   REPLICAS  copies of each word of a table, 1, 8 or 32. With 32, a lane reads only from the
//             bank with its own number
//   TABLES    T-tables in local memory, 1, 2 or 4 (aes.h)
//   THREADS   threads of a work-group (a CUDA block), a multiple of 32

#if !defined(REPLICAS) || !defined(TABLES) || !defined(THREADS)
#error "REPLICAS, TABLES and THREADS are to be defined"
#endif
#if REPLICAS != 1 && REPLICAS != 8 && REPLICAS != 32
#error "REPLICAS is 1, 8 or 32"
#endif
#if TABLES != 1 && TABLES != 2 && TABLES != 4
#error "TABLES is 1, 2 or 4"
#endif
#if THREADS % 32 != 0
#error "THREADS is a multiple of 32"
#endif

// Words of local memory for a kernel's tables.
#define TABLE_WORDS (256 * TABLES * REPLICAS)

#if defined(__OPENCL_VERSION__)

typedef uchar u8;
typedef uint u32;
typedef ulong u64;

#define INLINE static inline __attribute__((always_inline))
#define GLOBAL __global
#define LOCAL __local
#define CONSTANT __constant
#define CONSTANT_TABLE __constant
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

#define KERNEL __kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
#define KEYS_PARAM __constant const u32 *keys
#define TABLES_PARAM , __local u32 *tables
#define KERNEL_BEGIN

#define THREAD ((u32)get_local_id(0))
#define GROUP ((u32)get_group_id(0))
#define GROUPS ((u32)get_num_groups(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)

#elif defined(__CUDACC__)

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define INLINE static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define CONSTANT
#define CONSTANT_TABLE static __constant__
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1")

// A key is a slot of constant memory, so its words need no registers.
#define KEY_SLOTS 64
extern "C" {
__constant__ u32 luxor_keys[KEY_SLOTS][192];
}
extern __shared__ u32 luxor_tables[];

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, 1)
#define KEYS_PARAM u32 slot
#define TABLES_PARAM
#define KERNEL_BEGIN                      \
    const u32 *keys = luxor_keys[slot];   \
    u32 *tables = luxor_tables;

#define THREAD threadIdx.x
#define GROUP blockIdx.x
#define GROUPS gridDim.x
#define BARRIER __syncthreads()

#else

#include <cstdint>

typedef std::uint8_t u8;
typedef std::uint32_t u32;
typedef std::uint64_t u64;

struct alignas(16) uint4 {
    u32 x, y, z, w;
};

// The position of a host thread in a launch. The test that starts the thread sets it.
struct HostThread {
    u32 thread, group, groups;
    void (*barrier)(void *);
    void *barrier_of;
};
inline thread_local HostThread host_thread;

#define INLINE static inline
#define GLOBAL
#define LOCAL
#define CONSTANT
#define CONSTANT_TABLE static
#define UNROLL
#define NO_UNROLL

#define KERNEL extern "C" void
#define KEYS_PARAM const u32 *keys
#define TABLES_PARAM , u32 *tables
#define KERNEL_BEGIN

#define THREAD host_thread.thread
#define GROUP host_thread.group
#define GROUPS host_thread.groups
#define BARRIER host_thread.barrier(host_thread.barrier_of)

#endif

// The threads that process a stretch together. On an NVIDIA GPU they are a warp of the hardware.
#define WARP 32

// The number of this warp in the launch, and of this thread. Consecutive warps are in different
// groups, so that a launch with little work uses many multiprocessors.
#define WARP_NUMBER (THREAD / WARP * GROUPS + GROUP)
#define THREAD_NUMBER (WARP_NUMBER * WARP + THREAD % WARP)
// How many there are of both.
#define WARPS (GROUPS * (THREADS / WARP))
#define ALL_THREADS (GROUPS * THREADS)

// A block: its 16 bytes as four little-endian words.
typedef uint4 Block;

// The numbers of data units from index `start` up to the next piece's: first + (index - start) *
// stride, modulo 2^128.
typedef struct {
    u32 first[4];
    u64 stride;
    u32 start;
    u32 pad;
} Piece;

INLINE u32 rotate_left(u32 x, u32 bits)
{
    return x << (bits & 31) | x >> (-bits & 31);
}

// Selects four bytes from x (0 to 3) and y (4 to 7). The lowest digit of `selector` selects the
// lowest byte.
INLINE u32 bytes_of(u32 x, u32 y, u32 selector)
{
#if defined(__CUDACC__)
    return __byte_perm(x, y, selector);
#else
    u64 both = (u64)y << 32 | x;
    u32 b0 = (u32)(both >> 8 * (selector & 7)) & 0xff;
    u32 b1 = (u32)(both >> 8 * (selector >> 4 & 7)) & 0xff;
    u32 b2 = (u32)(both >> 8 * (selector >> 8 & 7)) & 0xff;
    u32 b3 = (u32)(both >> 8 * (selector >> 12 & 7)) & 0xff;
    return b0 | b1 << 8 | b2 << 16 | b3 << 24;
#endif
}

INLINE void unpack(u32 *words, Block block)
{
    words[0] = block.x;
    words[1] = block.y;
    words[2] = block.z;
    words[3] = block.w;
}

INLINE Block pack(const u32 *words)
{
    Block block;
    block.x = words[0];
    block.y = words[1];
    block.z = words[2];
    block.w = words[3];
    return block;
}
