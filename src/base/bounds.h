// SPDX-License-Identifier: Apache-2.0
//
// The named maximum of every queue, table, buffer and header count.  "Bounds", not
// "limits": the word limit belongs to the domain.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "flowguard/time.h"

namespace flowguard::base {

// --- algorithms
inline constexpr int64_t kLimitMax = 1'000'000'000'000;      // units in one rate or burst
inline constexpr int64_t kRatePerSecondMax = 1'000'000'000;  // T is at least 1 ns
inline constexpr int64_t kCostMax = int64_t{1} << 40;        // units of one request
inline constexpr int64_t kHorizonNsMax = int64_t{1}
                                         << 61;  // T * burst + wait + debt, about 73 years
inline constexpr Duration kWindowMin = std::chrono::microseconds(1);
inline constexpr Duration kWindowMax = std::chrono::hours(24 * 366);
inline constexpr int64_t kSlidingLogLimitMax = 100'000;  // 8 bytes a unit a key
inline constexpr int kBucketsMax = 1'000;
inline constexpr Duration kWaitMax = std::chrono::hours(1);
inline constexpr Duration kWarmUpMax = std::chrono::hours(24 * 31);
inline constexpr int kColdFactorMax = 100;
inline constexpr Duration kLateStampMax =
    std::chrono::seconds(10);  // a state further ahead of now: the clock stepped back

// --- cells
inline constexpr size_t kCellCapacityMin = 64;
inline constexpr size_t kCellCapacityMax = size_t{1} << 32;
inline constexpr size_t kStateBytesMin = 256 * 1024;  // of all larger states together
inline constexpr size_t kStateBytesMax = size_t{1} << 40;
inline constexpr size_t kStateWordsMax = 256 * 1024;  // of one state: 2 MiB

// --- circuit breakers
inline constexpr Duration kBreakerWindowMin = std::chrono::milliseconds(1);
inline constexpr Duration kBreakerWindowMax =
    std::chrono::milliseconds(INT32_MAX);  // the longest that Sentinel's rules can write
inline constexpr int kBreakerBucketsMax = 100;
inline constexpr Duration kBreakerBucketMin = std::chrono::microseconds(100);
inline constexpr Duration kBreakerSlowMin = std::chrono::milliseconds(1);
inline constexpr Duration kBreakerOpenMin = std::chrono::milliseconds(1);
inline constexpr Duration kBreakerOpenMax =
    std::chrono::seconds(INT32_MAX);  // the longest that Sentinel's rules can write
inline constexpr int64_t kBreakerCallsMax = 8'000'000;  // min_calls, and errors until it opens
inline constexpr int kBreakerProbesMax = 100;
inline constexpr size_t kBreakersPerRuleMax = 1'024;  // keys apart; the others share one
inline constexpr size_t kBreakerEventsMax =
    8;  // that wait for a breaker's observer; the oldest are dropped, and counted
// --- statistics
inline constexpr Duration kStatsBucketMin = std::chrono::milliseconds(1);
inline constexpr size_t kStatsMax = 1'000'000;  // resources and origins with statistics
inline constexpr size_t kStatsShardBytesMax = size_t{1} << 36;  // of all threads' own shards
inline constexpr int kLatencyPartsMax = 60;                     // pieces of a window of latencies
inline constexpr size_t kTopValuesMax = 1'024;                  // of one dimension
inline constexpr size_t kTopValueBytesMax = 64;  // longer values are told by their beginning
inline constexpr size_t kSystemFileBytesMax = 1024 * 1024;  // of one file below /proc or /sys
inline constexpr size_t kCgroupDepthMax = 64;               // groups within each other
inline constexpr size_t kCpusMax = 8'192;                   // of one machine

// --- system rules
inline constexpr double kSystemLoadMax = 1'000'000;  // load average that a rule may name
inline constexpr Duration kSystemRtMax = std::chrono::hours(1);  // mean response time, likewise

// --- rules
inline constexpr size_t kRulesMax = 100'000;
inline constexpr size_t kRuleNamesEverMax = 1'000'000;  // distinct rule texts in a process's life
inline constexpr size_t kRulesPerRequestMax =
    32;  // and keys under them, one for each value of a list
inline constexpr size_t kDimensionsPerKeyMax = 8;
inline constexpr size_t kConditionsMax = 16;  // lists of values of one target
inline constexpr size_t kKeyValueInlineMax =
    128;  // longer dimension values stand in a key as their hash
inline constexpr size_t kClusterValueBytesMax =
    kKeyValueInlineMax -
    5;  // of an override at a token server, where its type and size come on top
inline constexpr size_t kRouteSegmentsMax = 64;
inline constexpr size_t kRouteFrontierMax = 256;  // route prefixes that one path may follow at once
inline constexpr size_t kRouteBytesMax = 4 * 1024;
inline constexpr size_t kResourceBytesMax = 1024;
inline constexpr int kRegexProgramMax = 5'000;          // instructions of one expression
inline constexpr int64_t kRegexBytesMax = 1024 * 1024;  // memory of one, its automata included
inline constexpr size_t kRegexMemoMax = 4'096;  // resources whose expressions are remembered
inline constexpr size_t kMethodsMax = 63;       // distinct methods in one rule set
inline constexpr size_t kRuleNameBytesMax = 128;
inline constexpr size_t kDimensionsMax = 1'000;  // distinct ones in one rule set
inline constexpr size_t kDimensionNameBytesMax = 128;
inline constexpr size_t kAccessValuesMax = 100'000;  // of one rule
inline constexpr size_t kRefuseHeadersMax = 16;
inline constexpr size_t kRefuseBytesMax = 16 * 1024;  // message, body, or one header
inline constexpr size_t kOverridesMax = 100'000;
inline constexpr size_t kRemoteTakesPerRequestMax =
    8;  // shared rules asked for one request; more count as not answered, of lists as refused
inline constexpr size_t kRemoteKeyBytesMax =
    2'048;  // keys of the remote takes of one request; longer ones are digested
inline constexpr Duration kTokenTtlMin =
    std::chrono::milliseconds(1);  // until a token of a concurrency rule is free again
inline constexpr Duration kTokenTtlMax = std::chrono::hours(1);
inline constexpr size_t kTokenServersMax = 16;  // that one client knows
inline constexpr int64_t kTokensMax =
    2'147'483'647;  // that one question to a token server asks for
inline constexpr size_t kSnapshotsMax =
    8;  // rule sets in memory at once, while readers leave the old ones
inline constexpr size_t kStoreCallsMax =
    65'536;  // requests of one Guard that wait for its store; more count as not answered
inline constexpr size_t kAttemptPoolMax = 16;  // entries kept for reuse, a thread
inline constexpr size_t kRuleFileBytesMax = 64u << 20;

// --- executor
inline constexpr int kExecutorThreadsMax = 256;
inline constexpr size_t kExecutorJobsMax = 1'000'000;  // queued in one executor
inline constexpr size_t kJobDimensionsMax = 64;        // that one job names
inline constexpr size_t kJobTextBytesMax = 16 * 1024;  // resource and dimensions of one job

// --- cells in other processes
inline constexpr int kCellRequestsPerCallMax = 1'024;   // takes of one key that share a call
inline constexpr size_t kCellCallsPerTurnMax = 64;      // cells that one Call asks
inline constexpr size_t kCellCallsPendingMax = 65'536;  // Calls without an answer, a loop
inline constexpr size_t kPreparedShapesKept = 256;      // numbers of cells that no call uses now
inline constexpr size_t kCellKeyBytesMax = 256;         // of a key in Redis
inline constexpr size_t kCellOwnerBytesMax = 128;       // name of who holds slots or a lease

inline constexpr size_t kRulesUsual = 10'000;  // more are a sign of a rule for each client
inline constexpr int kShardsMax = 16;          // of one shared cell
inline constexpr Duration kSlotExpiry =
    std::chrono::seconds(30);  // of a shared concurrency slot that its holder does not renew
inline constexpr int kNodesMax = 10'000;  // processes that share a limit

// --- stores of shared limits, one a worker
inline constexpr size_t kStoreAsksMax =
    16'384;  // requests that wait for a store; more count as not answered
inline constexpr size_t kStoreCellsMax =
    16'384;  // cells that a store knows; the one unused for longest is forgotten
inline constexpr size_t kStoreFlightsMax = 8'192;  // calls on their way to a cell server
inline constexpr size_t kStoreDuesMax =
    16'384;  // give-backs and charges that wait to be sent; more are lost, and counted
inline constexpr size_t kCellCallsPerFlightMax = 32;
inline constexpr size_t kDeniedCostsMax = 4;  // refusals remembered of one cell
inline constexpr Duration kDenyMax = std::chrono::seconds(1);
inline constexpr size_t kStoreServersMax =
    1'001;  // whose failures are told apart: a cluster's masters, and one that is not known
inline constexpr size_t kSlotEpochsMax = 4;  // owners of one cell's slots, one after the other
inline constexpr int kReleaseTriesMax = 16;  // until a slot is left to expire

// --- clients of token servers, one a worker
inline constexpr uint32_t kTokenAsksMax = 16'384;  // of one connection without an answer
inline constexpr size_t kTokenCallsMax =
    16'384;  // requests that wait for token servers; more count as not answered
inline constexpr size_t kTokenUnsentBytesMax = size_t{1} << 20;  // questions that wait to be sent
inline constexpr Duration kTokenOverdueMax =
    std::chrono::seconds(10);  // without a word on a connection: it is made anew

// --- text
inline constexpr size_t kTextDepthMax = 64;         // maps and lists within each other
inline constexpr size_t kTextNodesMax = 4'000'000;  // values of one document
inline constexpr size_t kTextFaultsMax = 100;       // faults told of one file

// --- HTTP
inline constexpr size_t kHeadBytesMax = 32 * 1024;  // request line and header lines
inline constexpr size_t kHeaderCountMax = 100;
inline constexpr size_t kTargetBytesMax = 16 * 1024;
inline constexpr size_t kRefusedBodyDrainMax = 64 * 1024;
inline constexpr size_t kPipelineDepthMax = 64;
inline constexpr size_t kLingerBytesMax =
    4 * 1024 * 1024;  // read and thrown away while a client reads its last answer
inline constexpr size_t kTransferRateMin =
    240;  // bytes a second that a client must send of a body, or take of an answer
inline constexpr size_t kChunkLineBytesMax = 4 * 1024;
inline constexpr size_t kChunkExtensionBytesMax = 16 * 1024;  // of all chunks of one message
inline constexpr size_t kTrailerBytesMax = 8 * 1024;
inline constexpr size_t kTrailerCountMax = 32;
inline constexpr size_t kMethodBytesMax = 32;
inline constexpr size_t kConnectionOptionsMax =
    16;  // names that one message's Connection lines may list
inline constexpr size_t kForwardedHopsMax = 32;    // trusted hops that are walked past
inline constexpr size_t kIpBlocksMax = 1'024;      // entries of one list of trusted proxies
inline constexpr size_t kInterimAnswersMax = 16;   // 1xx heads of an upstream to one request
inline constexpr size_t kConnectionsMax = 65'536;  // a worker
inline constexpr size_t kParkedMax = 10'000;       // requests that wait, a worker
inline constexpr size_t kUpstreamIdleMax = 256;  // kept-alive connections to one address, a worker
inline constexpr size_t kUpstreamAddressesMax = 64;

// --- server
inline constexpr int kWorkersMax = 1'024;

// --- decision API
inline constexpr size_t kDecisionBodyBytesMax = 64 * 1024;  // of a question in JSON
inline constexpr size_t kGivenDimensionsMax = 64;           // dimensions that one question names
inline constexpr size_t kGivenValuesMax = 32;               // values of one of them
inline constexpr size_t kOpenEntriesMax =
    16'384;  // entries between /v1/enter and /v1/exit, 4 KiB each
inline constexpr Duration kEntryTtlMax = std::chrono::hours(1);

// --- connections to other servers
inline constexpr Duration kConnectBackoffMin = std::chrono::milliseconds(10);
inline constexpr Duration kConnectBackoffMax = std::chrono::milliseconds(500);

// --- token server
inline constexpr size_t kTokenNamespacesMax = 1'000;       // that have rules, in a process's life
inline constexpr size_t kTokenConnectionsMax = 1'000'000;  // of a process, however it is set
inline constexpr size_t kTokenReadBytes = 16 * 1024;       // of one connection in a turn
inline constexpr size_t kTokenUnsentMax =
    16 * 1024;  // bytes of answers that a client does not take, before it is read no more
inline constexpr size_t kTokenWaitingPerConnectionMax =
    1'024;  // questions that wait for the store, before it is read no more
inline constexpr size_t kTokenWaitingMax = 16'384;  // the same of a worker; the others do not wait

// --- Redis
inline constexpr size_t kRespLineBytesMax = 8 * 1024;          // of a simple string or error
inline constexpr size_t kRespBulkBytesMax = 1024 * 1024;       // of one bulk string
inline constexpr size_t kRespReplyBytesMax = 4 * 1024 * 1024;  // of one whole reply
inline constexpr size_t kRespItemsMax = 65'536;                // values of one reply
inline constexpr size_t kRespDepthMax = 16;                    // aggregates within each other
inline constexpr size_t kRedisConnectionsMax = 64;             // to one server, a loop
inline constexpr size_t kRedisPendingMax = 16'384;  // commands of one connection without a reply
inline constexpr size_t kRedisPendingBytesMax = 4 * 1024 * 1024;  // of the same
inline constexpr size_t kRedisCommandBytesMax = 256 * 1024;       // of one command
inline constexpr Duration kRedisOverdueMax =
    std::chrono::seconds(1);  // a reply this long past its deadline: the connection is given up
inline constexpr size_t kRedisHostsMax = 64;     // named in one URL
inline constexpr size_t kRedisNodesMax = 1'000;  // masters of one cluster
inline constexpr int kRedisRedirectsMax = 5;     // of one command

}  // namespace flowguard::base
