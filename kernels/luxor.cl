// SPDX-License-Identifier: MIT OR Apache-2.0
// All the kernels, as OpenCL C 1.2, CUDA or C++17. No file that is named here includes another:
// a program without files, such as an OpenCL backend, has the same by putting their texts one
// behind the other in this order.

#include "portability.h"
#include "tables.h"
#include "aes.h"
#include "gf128.h"
#include "numbers.h"
#include "xts.h"
#include "ctr.h"
#include "kernels.h"
