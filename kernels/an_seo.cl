// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernels of An and Seo (an_seo.h), assembled like luxor.cl.

#include "portability.h"
#include "tables.h"
#include "aes.h"
#include "gf128.h"
#include "an_seo.h"
