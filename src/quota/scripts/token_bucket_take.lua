-- Takes one request from a token bucket or a leaky bucket: the tuned form of what
-- arrival_time.lua says at length, for intervals of whole microseconds.
--
-- KEYS[1]  the cell: the theoretical arrival time (TAT) in us, as a string
-- ARGV     cost * T, the most that the TAT may lie ahead after a take, the horizon; in us
-- Reply    granted (0 or 1), how far the TAT lies ahead now, the server's clock; in us
--
-- Strings become numbers by arithmetic alone, and whole numbers below 2^53 are passed on
-- as they are: Redis writes those without an exponent.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ahead = (call('GET', KEYS[1]) or 0) - now
if ahead < 0 then ahead = 0 end
local after = ahead + ARGV[1]
if after - ARGV[2] > 0 then
  if ahead - ARGV[3] > 0 then
    -- No take leaves the TAT so far ahead: the clock stepped back.
    ahead = ARGV[3] + 0
    call('SET', KEYS[1], now + ahead, 'PX', math.ceil(ahead / 1000) + 5000)
  end
  return {0, ahead, now}
end
local ms = after / 1000
call('SET', KEYS[1], now + after, 'PX', ms - ms % 1 + 5001)
return {1, after, now}
