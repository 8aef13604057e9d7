/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* All public headers, low layers first. */
#ifndef SINTER_SINTER_H
#define SINTER_SINTER_H

#include "sinter/base.h"
#include "sinter/array.h"
#include "sinter/imports.h"
#include "sinter/program.h"
#include "sinter/device.h"
#include "sinter/files.h"
#include "sinter/build.h"
#include "sinter/ir.h"
#include "sinter/text.h"
#include "sinter/index.h"
#include "sinter/eval.h"
#include "sinter/passes.h"
#include "sinter/target.h"
#include "sinter/cost.h"
#include "sinter/plan.h"
#include "sinter/cache.h"
#include "sinter/compiler.h"
#include "sinter/emit.h"
#include "sinter/kernel.h"
#include "sinter/cpu.h"
#include "sinter/gpu.h"
#include "sinter/gpu_cost.h"
#include "sinter/graph.h"
#include "sinter/transforms.h"
#include "sinter/models.h"
#include "sinter/nn.h"
#include "sinter/data.h"
#include "sinter/random.h"
#include "sinter/checkpoint.h"
#include "sinter/stablehlo.h"
#include "sinter/json.h"
#include "sinter/stablehlo.h"

#endif
