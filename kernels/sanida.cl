// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of Sanida et al. (sanida.h), as luxor.cl puts together its own.

#include "portability.h"
#include "tables.h"
#include "aes.h"
#include "gf128.h"
#include "numbers.h"
#include "sanida.h"
