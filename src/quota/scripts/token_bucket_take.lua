-- Takes one request from a token bucket or a leaky bucket: the tuned form of what
-- arrival_time.lua says at length, for intervals of whole microseconds.
--
-- KEYS[1]  the cell: the theoretical arrival time (TAT) in us, as a string
-- ARGV     cost * T, the most that the TAT may lie ahead after a take, the horizon; in us
-- Reply    granted (0 or 1), how far the TAT lies ahead now, the server's clock; in us
--
-- Numbers are handed to Redis as text: it would write each with 17 digits, which takes
-- longer than format does.
local call, number, format = redis.call, tonumber, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ahead = (number(call('GET', KEYS[1]) or 0) or 0) - now
if not (ahead > 0) then
  ahead = 0
elseif ahead % 1 > 0 then
  ahead = ahead - ahead % 1 + 1
end
local after = ahead + ARGV[1]
if after - ARGV[2] > 0 then
  if ahead - ARGV[3] > 0 then
    -- No take leaves the TAT so far ahead: the clock stepped back.
    ahead = ARGV[3] + 0
    call('SET', KEYS[1], format('%d', now + ahead), 'PX', format('%d', ahead / 1000 + 5001))
  end
  return {0, ahead, now}
end
call('SET', KEYS[1], format('%d', now + after), 'PX', format('%d', after / 1000 + 5001))
return {1, after, now}
