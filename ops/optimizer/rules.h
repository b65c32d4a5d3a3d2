// The rules of optimizers.def. Each header contains one optimizer and its variants.
#pragma once

#include "ops/optimizer/adafactor.h"
#include "ops/optimizer/adagrad.h"
#include "ops/optimizer/adam.h"
#include "ops/optimizer/averages.h"
#include "ops/optimizer/ftrl.h"
#include "ops/optimizer/lamb.h"
#include "ops/optimizer/lars.h"
#include "ops/optimizer/lion.h"
#include "ops/optimizer/muon.h"
#include "ops/optimizer/nadam.h"
#include "ops/optimizer/radam.h"
#include "ops/optimizer/rmsprop.h"
#include "ops/optimizer/sgd.h"
