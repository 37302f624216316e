// SPDX-License-Identifier: Apache-2.0
//
// The scripts that decide in Redis, put together from the .lua files beside this one when
// the program is built.  What each takes and answers is said in its file.
//
// They need Redis 6.2 or newer.
#pragma once

#include "quota/redis/commander.h"

namespace flowguard::quota::scripts {

extern const redis::Script kTokenBucketTake;
extern const redis::Script kBucketsTake;
extern const redis::Script kZsetLog;
extern const redis::Script kMulti;

// One cell; by the letters of the algorithm, as keys end with them.
extern const redis::Script kSingleTB;
extern const redis::Script kSingleLB;
extern const redis::Script kSingleSL;
extern const redis::Script kSingleSB;
extern const redis::Script kSingleSW;
extern const redis::Script kSingleFW;
extern const redis::Script kSingleWA;
extern const redis::Script kSingleCO;

// Leases from one cell.  A sliding log, which is exact, and slots are not leased.
extern const redis::Script kLeaseTB;
extern const redis::Script kLeaseLB;
extern const redis::Script kLeaseSB;
extern const redis::Script kLeaseSW;
extern const redis::Script kLeaseFW;
extern const redis::Script kLeaseWA;

}  // namespace flowguard::quota::scripts
