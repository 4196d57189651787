// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of Sanida et al. (sanida.h), assembled like luxor.cl.

#include "portability.h"
#include "tables.h"
#include "aes.h"
#include "gf128.h"
#include "numbers.h"
#include "sanida.h"
