-- Leases: units taken ahead by an owner.
--
-- KEYS[1]  the cell;  KEYS[2]  its leases: a hash, 'owner/lease' -> 'units expiry mark',
--          where the mark is the cell's, of the take
-- ARGV     as single.lua (op l: up to `cost` units, at least one; r: `cost` units of lease
--          `mark` come back and the lease ends), then owner, overshoot, lifetime in us
-- Reply    as single.lua: granted units, the lease's mark
--
-- A lease that ends by its expiry counts as spent: its units stay taken.
local function field_of(owner, lease) return string.format('%s/%.0f', owner, lease) end

local op, cost, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local owner, overshoot, lifetime = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
local state = cell.read(KEYS[1], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]),
                        tonumber(ARGV[8]))
local granted, lease = 0, 0
if op == 'l' then
  local held, gone = 0, {}
  local fields = call('HGETALL', KEYS[2])
  for i = 1, #fields, 2 do
    local units, expiry = string.match(fields[i + 1], '^(%d+) (%d+) ')
    -- A lease that outlives a lifetime from now: the clock stepped back.
    if units and tonumber(expiry) > now and tonumber(expiry) <= now + lifetime + late_max then
      held = held + units
    else
      gone[#gone + 1] = fields[i]
    end
  end
  local most = min(cost, overshoot - held)
  if most >= 1 and count > 0 then granted = cell.fit(state, 1, most) end
  if granted > 0 then
    local mark = cell.take(state, granted)
    if mark == 0 then mark = cell.mark(state) end
    if type(mark) == 'number' then mark = string.format('%.0f', mark) end
    cell.write(state)
    lease = now
    while call('HEXISTS', KEYS[2], field_of(owner, lease)) == 1 do lease = lease + 1 end
    call('HSET', KEYS[2], field_of(owner, lease),
         string.format('%.0f %.0f %s', granted, now + lifetime, mark))
    for _, field in ipairs(gone) do call('HDEL', KEYS[2], field) end
    call('PEXPIRE', KEYS[2], ceil(lifetime / 1000) + slack_ms)
  end
else
  local field = field_of(owner, tonumber(ARGV[4]))
  local text = call('HGET', KEYS[2], field)
  local units, expiry, mark
  if text then units, expiry, mark = string.match(text, '^(%d+) (%d+) (.+)$') end
  if units then
    if tonumber(expiry) > now and cell.give(state, min(cost, tonumber(units)), mark) then
      cell.write(state)
    end
    call('HDEL', KEYS[2], field)
  end
end
local x, y, z = cell.tell(state, granted == 0 and op == 'l' and 1 or 0)
return {granted, lease, x, y, z, now}
