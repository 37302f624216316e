-- What all scripts start with.  Every script has one clock: the server's, in us.
local call = redis.call
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
-- Windows and buckets are aligned to a Monday, 00:00 UTC; the Unix epoch is a Thursday.
local since_monday = now - 345600000000
-- A state that lies further ahead of the clock: the clock stepped back.
local late_max = 10000000
-- Keys outlive what they say, so that nothing hangs on how exactly they expire.
local slack_ms = 5000
local cells = {}

-- Sets a string that says something for `life` us more.
local function keep(key, text, life)
  call('SET', key, text, 'PX', ceil(life / 1000) + slack_ms)
end
