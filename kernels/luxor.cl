// SPDX-License-Identifier: MIT OR Apache-2.0
// All kernels, as OpenCL C 1.2, CUDA or C++17. The included files include no others. So a program
// without files, such as the OpenCL backend, gets the same source by joining their texts in this
// order.

#include "portability.h"
#include "tables.h"
#include "aes.h"
#include "gf128.h"
#include "numbers.h"
#include "xts.h"
#include "ctr.h"
#include "kernels.h"
