// SPDX-License-Identifier: Apache-2.0
#include "quota/cell_shape.h"

#include <algorithm>
#include <array>

#include "limit/spec.h"
#include "limit/validate.h"
#include "limit/wide.h"
#include "quota/scripts/scripts.h"

namespace flowguard::quota {
namespace {

constexpr int64_t kExactMax = int64_t{1} << 52;  // ticks; half of what a double counts
constexpr int64_t kCoarseIntervalNs = 1'000'000;
// From the Unix epoch, a Thursday, to the Monday that windows are aligned to.
constexpr int64_t kMondayUs = int64_t{4} * 24 * 3600 * 1'000'000;

int64_t MicrosUp(int64_t ns) noexcept {
  return ns / 1000 + (ns % 1000 != 0 ? 1 : 0);
}

// Redis decides by whole us: a wait that ends within one is not over before its end.
Duration WaitInMicros(Duration wait) noexcept {
  return wait == kNever ? wait : Duration(MicrosUp(wait.count()) * 1000);
}

int64_t Product(int64_t a, int64_t b) noexcept {
  return limit::Saturate(static_cast<limit::Int128>(a) * b);
}

int64_t BurstOf(const limit::Config& config) noexcept {
  return config.burst == 0 ? config.rate.limit : config.burst;
}

// A bucket in ticks.
struct Bucket {
  int64_t interval = 0;  // 0: limit is 0
  int64_t capacity = 0;  // what can be had without a wait; leaky_bucket: with it
  int64_t admit = 0;
  int64_t horizon = 0;
  int64_t scale = 1;
  int64_t largest = 0;
};

Bucket BucketOf(const CellShape& shape, int64_t interval, int64_t scale) noexcept {
  const limit::Config& config = shape.config;
  Bucket bucket{.interval = interval, .scale = scale};
  const int64_t wait = scale == 1 ? config.wait.count() / 1000 : config.wait.count();
  if (shape.algorithm == Algorithm::kTokenBucket) {
    bucket.largest = BurstOf(config);
    bucket.capacity = std::min(Product(interval, bucket.largest), kExactMax);
    bucket.admit = bucket.capacity + wait;
  } else {
    bucket.capacity = wait + interval;
    bucket.admit = bucket.capacity;
    bucket.largest = bucket.capacity / interval;
  }
  const int64_t debt = std::min(Product(interval, config.max_debt), kExactMax);
  bucket.horizon = bucket.admit + debt;
  return bucket;
}

Bucket BucketOf(const CellShape& shape) noexcept {
  if (shape.config.rate.limit == 0) return {};
  const int64_t interval_ns = limit::IntervalNs(shape.config.rate);
  if (interval_ns % 1000 != 0 && interval_ns < kCoarseIntervalNs) {
    const Bucket fine = BucketOf(shape, interval_ns, 1000);
    if (fine.horizon < kExactMax) return fine;
  }
  return BucketOf(shape, MicrosUp(interval_ns), 1);
}

bool IsBucket(const CellShape& shape) noexcept {
  return !shape.concurrency &&
         (shape.algorithm == Algorithm::kTokenBucket || shape.algorithm == Algorithm::kLeakyBucket);
}

// The config with windows of whole us.
limit::Config InMicros(const limit::Config& config) noexcept {
  limit::Config micros = config;
  micros.rate.window = Duration(MicrosUp(config.rate.window.count()) * 1000);
  micros.burst = 0;
  micros.wait = {};
  return micros;
}

int64_t BucketUs(const limit::Config& config) noexcept {
  const int64_t buckets =
      config.buckets == 0 ? limit::SlidingBuckets::kDefaultBuckets : config.buckets;
  return (MicrosUp(config.rate.window.count()) - 1) / buckets + 1;
}

limit::Numbers BucketNumbers(Algorithm algorithm, const ScriptShape& bucket, const CellState& state,
                             int64_t cost, bool allowed, int64_t booked) noexcept {
  const int64_t interval = bucket.numbers[0];
  const int64_t admit = bucket.numbers[1];
  const auto span = [&](int64_t ticks) {
    return Duration(bucket.scale == 1 ? ticks * 1000 : ticks);
  };
  limit::Numbers numbers{.allowed = allowed, .limit = bucket.largest};
  if (interval == 0) {
    if (!allowed) numbers.retry_after = kNever;
    return numbers;
  }
  const int64_t ahead = state.told[0] + booked * interval;
  numbers.remaining = std::max<int64_t>(bucket.capacity - ahead, 0) / interval;
  numbers.reset_after = span(ahead);
  if (!allowed) {
    numbers.retry_after = cost > bucket.largest
                              ? kNever
                              : span(std::max<int64_t>(ahead + cost * interval - admit, 0));
  } else if (cost > 0 && algorithm == Algorithm::kTokenBucket) {
    numbers.wait = span(std::max<int64_t>(ahead - bucket.capacity, 0));
  } else if (cost > 0) {
    numbers.wait = span(ahead - interval);
  }
  return numbers;
}

// For the windows, whose state the scripts tell whole: what the algorithm itself answers.
limit::Numbers WindowNumbers(const CellShape& shape, const CellState& state,
                             int64_t cost) noexcept {
  const limit::Config config = InMicros(shape.config);
  const auto spec = limit::AnySpec::Make(shape.algorithm, config);
  if (!spec.ok()) return {.limit = config.rate.limit, .retry_after = kNever};
  const int64_t window_ns = config.rate.window.count();
  const Instant now(Duration((state.now_us - kMondayUs) * 1000));
  if (shape.algorithm == Algorithm::kFixedWindow) {
    const int64_t word = state.told[1] == 0 ? 0 : (state.told[0] + 1) * window_ns + state.told[1];
    return spec->Look(word, now, cost);
  }
  const std::array<uint64_t, 3> words{static_cast<uint64_t>(state.told[0] + 1),
                                      static_cast<uint64_t>(state.told[1]),
                                      static_cast<uint64_t>(state.told[2])};
  return spec->Look(words, now, cost);
}

// For sliding_buckets, sliding_log and slots, whose scripts tell the numbers.
limit::Numbers ToldNumbers(const CellShape& shape, const CellState& state, int64_t cost,
                           bool allowed, int64_t booked) noexcept {
  const int64_t limit = shape.config.rate.limit;
  limit::Numbers numbers{.allowed = allowed, .limit = limit};
  const bool log = !shape.concurrency && shape.algorithm == Algorithm::kSlidingLog;
  int64_t left = log ? state.told[0] : limit - state.told[0];
  int64_t reset_us = shape.concurrency ? 0 : state.told[2];
  if (booked > 0) {
    left -= booked;
    const int64_t own_us =
        log ? MicrosUp(shape.config.rate.window.count())
            : (state.mark +
               (shape.config.buckets == 0 ? limit::SlidingBuckets::kDefaultBuckets
                                          : shape.config.buckets) +
               1) * BucketUs(shape.config) -
                  (state.now_us - kMondayUs);
    if (!shape.concurrency) reset_us = std::max(reset_us, own_us);
  }
  numbers.remaining = std::max<int64_t>(left, 0);
  numbers.reset_after = Duration(reset_us * 1000);
  if (!allowed) {
    // Slots become free when they are released; the first expiry is the latest news of it.
    numbers.retry_after = cost > limit ? kNever : Duration(state.told[1] * 1000);
  }
  return numbers;
}

}  // namespace

std::string_view LettersOf(const CellShape& shape) noexcept {
  return ScriptShapeOf(shape).letters;
}

ScriptShape ScriptShapeOf(const CellShape& shape) noexcept {
  const limit::Config& config = shape.config;
  const int64_t limit = config.rate.limit;
  const int64_t window_us = MicrosUp(config.rate.window.count());
  ScriptShape script;
  script.numbers[0] = limit;
  script.numbers[1] = window_us;
  script.numbers[2] = config.max_debt;
  script.largest = limit;
  script.most_units = limit + config.max_debt;
  const auto is = [&](std::string_view letters, const redis::Script& single,
                      const redis::Script* lease) {
    script.letters = letters;
    script.single = &single;
    script.lease = lease;
  };
  if (shape.concurrency) {
    is("co", scripts::kSingleCO, nullptr);
    return script;
  }
  switch (shape.algorithm) {
    case Algorithm::kTokenBucket:
      is("tb", scripts::kSingleTB, &scripts::kLeaseTB);
      break;
    case Algorithm::kLeakyBucket:
      is("lb", scripts::kSingleLB, &scripts::kLeaseLB);
      break;
    case Algorithm::kSlidingLog:
      is("sl", scripts::kSingleSL, nullptr);
      break;
    case Algorithm::kSlidingBuckets:
      is("sb", scripts::kSingleSB, &scripts::kLeaseSB);
      script.numbers[1] = BucketUs(config);
      script.numbers[2] =
          config.buckets == 0 ? limit::SlidingBuckets::kDefaultBuckets : config.buckets;
      script.numbers[3] = config.max_debt;
      break;
    case Algorithm::kSlidingWindow:
      is("sw", scripts::kSingleSW, &scripts::kLeaseSW);
      break;
    case Algorithm::kFixedWindow:
      is("fw", scripts::kSingleFW, &scripts::kLeaseFW);
      break;
    case Algorithm::kWeightedAverage:
      is("wa", scripts::kSingleWA, &scripts::kLeaseWA);
      break;
    case Algorithm::kSmoothBursty:
    case Algorithm::kWarmUp:
    case Algorithm::kWarmUpWindow:
    case Algorithm::kLeapArray:
    case Algorithm::kStepBucket:
      break;  // local only, as rules::CheckRule says: no store is asked for them
  }
  if (IsBucket(shape)) {
    const Bucket bucket = BucketOf(shape);
    script.numbers[0] = bucket.interval;
    script.numbers[1] = bucket.admit;
    script.numbers[2] = bucket.horizon;
    script.numbers[3] = bucket.scale;
    script.largest = bucket.largest;
    script.most_units = bucket.interval == 0 ? 0 : bucket.horizon / bucket.interval + 1;
    script.scale = bucket.scale;
    script.capacity = bucket.capacity;
    script.bucket = true;
  }
  return script;
}

CellReply ReplyOf(const CellShape& shape, const ScriptShape& script, const CellQuestion& call,
                  const CellState& state) noexcept {
  const bool take = call.op == CellOp::kTake;
  const bool peek = call.op == CellOp::kPeek;
  const bool short_of = (take && state.granted < call.count) ||
                        ((peek || call.op == CellOp::kLease) && state.granted <= 0);
  // Where nothing more is asked than is told, the state speaks.
  const bool allowed = !short_of || state.granted < 0;
  const int64_t cost = call.op == CellOp::kLease ? 1 : call.cost;
  const int64_t booked = peek && allowed ? cost : 0;
  CellReply reply;
  reply.status = CellReply::Status::kDone;
  reply.granted = static_cast<int32_t>(std::max<int64_t>(state.granted, 0));
  reply.mark = state.mark;
  reply.now_us = state.now_us;
  const bool asks = take || peek || call.op == CellOp::kLease;
  if (script.bucket) {
    const bool waits = (take || peek) && state.granted > 0;
    reply.numbers = BucketNumbers(shape.algorithm, script, state, allowed && !waits ? 0 : cost,
                                  allowed, booked);
    if (take && reply.granted > 0) {
      reply.mark = state.now_us * 1000 + state.told[0] * (1000 / script.scale);
    }
  } else if (!shape.concurrency && shape.algorithm != Algorithm::kSlidingLog &&
             shape.algorithm != Algorithm::kSlidingBuckets) {
    reply.numbers = WindowNumbers(shape, state, asks && (!allowed || peek) ? cost : 0);
  } else {
    reply.numbers = ToldNumbers(shape, state, cost, allowed, booked);
  }
  reply.numbers.retry_after = WaitInMicros(reply.numbers.retry_after);
  return reply;
}

}  // namespace flowguard::quota
