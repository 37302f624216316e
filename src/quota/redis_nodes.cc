// SPDX-License-Identifier: Apache-2.0
#include "quota/redis_nodes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bounds.h"

namespace flowguard::quota {
namespace {

// KEYS[1]: owner -> the time in ms until which it counts.  ARGV: an owner, its time to live
// in ms (0: it leaves).  Returns how many count now.
constexpr std::string_view kSource =
    R"lua(local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local ttl_ms = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_ms))
if ttl_ms > 0 then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now_ms + ttl_ms), ARGV[1])
  if redis.call('PTTL', KEYS[1]) < ttl_ms then
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl_ms))
  end
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return redis.call('ZCARD', KEYS[1])
)lua";

constexpr redis::Script kNodes{"nodes", kSource, "a29bbe900bd5cabe0157655071217ce4449d9462"};

}  // namespace

RedisNodes::RedisNodes(redis::Commander& commander, std::string_view group)
    : commander_(commander), key_("rl:{nodes}:" + std::string(group)) {}

void RedisNodes::Beat(std::string_view owner, Duration ttl, Instant deadline, uint64_t ticket,
                      NodeSink* sink) noexcept {
  // One beat is out at a time for each store that beats here.
  const auto free = std::find_if(asked_.begin(), asked_.end(),
                                 [](const Asked& asked) { return asked.sink == nullptr; });
  const auto index = static_cast<size_t>(free - asked_.begin());
  if (free == asked_.end()) asked_.emplace_back();
  asked_[index] = {ticket, sink};

  using wire::resp::WordBytes;
  std::array<char, WordBytes(base::kCellOwnerBytesMax) + WordBytes(wire::resp::kNumberBytesMax)>
      room;
  wire::resp::WordWriter args(room);
  args.Add(owner.substr(0, base::kCellOwnerBytesMax));
  args.Add(int64_t{std::chrono::ceil<std::chrono::milliseconds>(ttl).count()});
  const std::string_view keys[] = {key_};
  commander_.Run(kNodes, keys, args.words(), deadline, index, this);
}

void RedisNodes::OnReply(uint64_t index, const redis::CommandReply& reply) noexcept {
  const Asked asked = std::exchange(asked_[index], {});
  int nodes = 0;
  if (reply.failure == redis::Failure::kNone && reply.value != nullptr &&
      reply.value->type == wire::resp::Value::Type::kInteger) {
    nodes = static_cast<int>(std::clamp<int64_t>(reply.value->integer, 0, base::kNodesMax));
  }
  asked.sink->OnNodes(asked.ticket, nodes);
}

}  // namespace flowguard::quota
