-- Takes from token buckets and leaky buckets, each by itself: the tuned form of what
-- arrival_time.lua says at length, for intervals of whole microseconds.
--
-- KEYS   the cells, all different: each its theoretical arrival time (TAT) in us, as a
--        string
-- ARGV   for each: cost * T of one request, how many requests, the most that the TAT may lie
--        ahead after a take, the horizon; times in us
-- Reply  for each: how many requests were granted (-2: the key is no string), how far the
--        TAT lies ahead now; then the server's clock in us
--
-- MGET shows a key of another type as none.  A new key is therefore only made, never
-- written over.  As for format, see token_bucket_take.lua.
local call, number, format = redis.call, tonumber, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local keys, words = KEYS, ARGV
local stored = call('MGET', unpack(keys))
local reply = {}
for i = 1, #keys do
  local text = stored[i]
  local ahead = (number(text or 0) or 0) - now
  if not (ahead > 0) then
    ahead = 0
  elseif ahead % 1 > 0 then
    ahead = ahead - ahead % 1 + 1
  end
  local n = 4 * i
  local step, admit = words[n - 3], words[n - 1]
  local granted = words[n - 2] + 0
  local after = ahead + step * granted
  local changed = granted > 0
  if after - admit > 0 then
    granted = (admit - ahead) / step
    granted = granted - granted % 1
    changed = granted > 0
    if changed then
      after = ahead + step * granted
    else
      granted, after = 0, ahead
      if ahead - words[n] > 0 then
        -- No take leaves the TAT so far ahead: the clock stepped back.
        after = words[n] + 0
        changed = true
      end
    end
  end
  if changed then
    local tat, ms = format('%d', now + after), format('%d', after / 1000 + 5001)
    if text then
      call('SET', keys[i], tat, 'PX', ms)
    elseif not call('SET', keys[i], tat, 'PX', ms, 'NX') then
      granted, after = -2, 0
    end
  end
  reply[2 * i - 1] = granted
  reply[2 * i] = after
end
reply[2 * #keys + 1] = now
return reply
