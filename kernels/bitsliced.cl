// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of luxor.cl without tables, in constant time, as OpenCL C 1.2 or C++17. Defined at
// compile time: LANES (bitsliced_aes.h), THREADS, and REPLICAS and TABLES as 1, for keys whose words
// are not rotated.

#include "portability.h"
#include "bitsliced_aes.h"
#include "gf128.h"
#include "numbers.h"
#include "bitsliced_modes.h"
#include "kernels.h"
