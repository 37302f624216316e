-- A sliding log as a sorted set, for those who share its keys with other programs.
--
-- KEYS[1]  the log: request id -> its instant in ms
-- ARGV     window in ms, most requests in it, the request's unique id
-- Reply    allowed (0 or 1), requests in the window, the server's clock in ms
--
-- Counts before it trims, so that a refusal writes nothing.
local call = redis.call
local key = KEYS[1]
local window = tonumber(ARGV[1])
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local start = string.format('(%.0f', now - window)
local current = call('ZCOUNT', key, start, '+inf')
if current >= tonumber(ARGV[2]) then return {0, current, now} end
call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - window))
call('ZADD', key, string.format('%.0f', now), ARGV[3])
call('PEXPIRE', key, string.format('%.0f', window + 1000))
return {1, current + 1, now}
