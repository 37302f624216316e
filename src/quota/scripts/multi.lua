-- Several cells in one step.
--
-- KEYS     the cells; together: all different
-- ARGV     'together' or 'each', then nine for each key: the algorithm's letters and what
--          single.lua takes
-- Reply    for each key: granted, mark, three numbers; then the server's clock in us
--
-- each      in order, as if alone.  granted is -2 for a key that holds something else; when
--           no key could be read, the first one's error is the reply.
-- together  takes of one request each: all are granted or none is, and then nothing is
--           written; granted is 0 for the key that refuses, -1 for one that would have not.
local made, reply = {}, {}
local function cell_of(letters)
  made[letters] = made[letters] or cells[letters]()
  return made[letters]
end
local function argument(i, n) return ARGV[1 + (i - 1) * 9 + n] end
local function numbers(i)
  return tonumber(argument(i, 6)), tonumber(argument(i, 7)),
         tonumber(argument(i, 8)), tonumber(argument(i, 9))
end

local function tell(granted, mark, x, y, z)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = granted, tonumber(mark) or 0, x
  reply[n + 4], reply[n + 5] = y, z
end

if ARGV[1] == 'each' then
  local problem, broken = nil, 0
  local function tell_of(done, granted, ...)
    if done then return tell(granted, ...) end
    problem, broken = problem or granted, broken + 1
    tell(-2, 0, 0, 0, 0)
  end
  for i = 1, #KEYS do
    tell_of(pcall(run, cell_of(argument(i, 1)), KEYS[i], argument(i, 2), tonumber(argument(i, 3)),
                  tonumber(argument(i, 4)), argument(i, 5), numbers(i)))
  end
  if broken == #KEYS then error(problem, 0) end
else
  local states, all, fits = {}, true, {}
  for i = 1, #KEYS do
    local cell = cell_of(argument(i, 1))
    local cost, count = tonumber(argument(i, 3)), tonumber(argument(i, 4))
    local a, b, c, d = numbers(i)
    states[i] = cell.read(KEYS[i], a, b, c, d, argument(i, 5))
    fits[i] = cost == 0 or (count > 0 and cell.fit(states[i], cost, 1) > 0)
    all = all and fits[i]
  end
  for i = 1, #KEYS do
    local cell, state, cost = cell_of(argument(i, 1)), states[i], tonumber(argument(i, 3))
    local mark = 0
    if all and cost > 0 then mark = cell.take(state, cost) end
    if (all and cost > 0) or state.stepped then cell.write(state) end
    tell(all and 1 or fits[i] and -1 or 0, mark, cell.tell(state, fits[i] and 0 or cost))
  end
end
reply[#reply + 1] = now
return reply
