-- Sliding log: the instants of the last `limit` units.
--
-- State: a list of at most `limit` instants in us, the newest first.  A unit that was
-- charged beyond the limit stands there with the instant at which it takes the place of
-- the oldest one: those instants lie ahead of the clock.
function cells.sl()
  local cell = {}
  local chunk = 1000  -- arguments of one command

  function cell.read(key, limit, window, max_debt)
    local state = {key = key, limit = limit, window = window, max_debt = max_debt}
    state.newest = tonumber(call('LINDEX', key, 0) or 0)
    local debt_windows = limit > 0 and ceil(max_debt / limit) or 0
    state.stepped = state.newest - now > debt_windows * window + late_max
    if state.stepped then state.newest = now end
    return state
  end

  -- When the n-th oldest of the `limit` places was taken; 0: never.
  local function place(state, n)
    local at = call('LINDEX', state.key, state.limit - n)
    if not at then return 0 end
    return state.stepped and min(tonumber(at), now) or tonumber(at)
  end
  local function is_free(state, n) return place(state, n) <= now - state.window end

  -- The most that `n` may be, from `least` (known to be free) to `most`, in steps.
  local function free_up_to(state, least, most, step)
    while least < most do
      local middle = floor((least + most + 1) / 2)
      if is_free(state, middle * step) then least = middle else most = middle - 1 end
    end
    return least
  end
  local function remaining(state)
    if state.limit == 0 or not is_free(state, 1) then return 0 end
    if is_free(state, state.limit) then return state.limit end
    return free_up_to(state, 1, state.limit - 1, 1)
  end

  -- After a step back no place stays taken for longer than a window from now.
  local function repair(state)
    if not state.stepped then return end
    local ahead = 0
    while tonumber(call('LINDEX', state.key, ahead) or 0) > now do ahead = ahead + 1 end
    for i = 0, ahead - 1 do call('LSET', state.key, i, now) end
    state.stepped = false
    state.repaired = true
  end

  local function push(state, instants)
    call('LPUSH', state.key, unpack(instants))
    state.newest = tonumber(instants[#instants])
    call('LTRIM', state.key, 0, state.limit - 1)
  end

  function cell.fit(state, cost, count)
    if cost > state.limit then return 0 end
    count = min(count, floor(state.limit / cost))
    if is_free(state, count * cost) then return count end
    return free_up_to(state, 0, count - 1, cost)
  end

  function cell.take(state, units)
    repair(state)
    local instant = string.format('%.0f', max(now, state.newest))
    while units > 0 do
      local instants = {}
      for i = 1, min(units, chunk) do instants[i] = instant end
      push(state, instants)
      units = units - #instants
    end
    return instant
  end

  function cell.mark(state) return string.format('%.0f', state.newest) end

  -- Units that were charged and have not found their place yet, and how many units that
  -- were taken at `mark` have the places that those will take.
  local function debt_of(state, mark)
    local debt, behind, i = 0, 0, 0
    while i < state.limit do
      local at = tonumber(call('LINDEX', state.key, i) or 0)
      if at <= now then break end
      local rounds = ceil((at - now) / state.window)
      debt = debt + rounds
      if at - rounds * state.window == mark then behind = behind + 1 end
      i = i + 1
    end
    return debt, behind
  end

  function cell.give(state, units, mark)
    if state.limit == 0 or mark + state.window <= now then return false end
    repair(state)
    local debt, behind = 0, 0
    if state.max_debt > 0 then debt, behind = debt_of(state, tonumber(mark)) end
    if debt > 0 then
      -- They pay debt first: the last one of it leaves, and the one whose place it took
      -- is there again.
      units = min(units, #call('LPOS', state.key, mark, 'COUNT', units) + behind)
      local paid = min(units, debt)
      for _ = 1, paid do
        local at = call('LPOP', state.key)
        call('RPUSH', state.key, string.format('%.0f', at - state.window))
      end
      units = units - paid
      if units == 0 then return paid > 0 end
    end
    return call('LREM', state.key, units, mark) > 0 or debt > 0
  end

  function cell.charge(state, units)
    if state.limit == 0 then return false end
    repair(state)
    local free = min(remaining(state), units)
    if free > 0 then cell.take(state, free) end
    local owed = min(units - free, state.max_debt - debt_of(state))
    local left = owed
    while left > 0 do
      -- The oldest ones, whose places the debt takes as they become free.
      local size = min(left, chunk, state.limit)
      local oldest = call('LRANGE', state.key, state.limit - size, state.limit - 1)
      local instants = {}
      local newest = state.newest
      for i = #oldest, 1, -1 do
        newest = max(newest, oldest[i] + state.window)
        instants[#instants + 1] = string.format('%.0f', newest)
      end
      push(state, instants)
      left = left - size
    end
    return free > 0 or owed > 0
  end

  function cell.write(state)
    repair(state)
    state.newest = tonumber(call('LINDEX', state.key, 0) or 0)
    if state.newest == 0 then return end
    local life = max(state.newest - now, 0) + state.window
    call('PEXPIRE', state.key, ceil(life / 1000) + slack_ms)
  end

  -- What is free, how long until `cost` is, and how long until all is.
  function cell.tell(state, cost)
    if state.limit == 0 then return 0, 0, 0 end
    local retry = 0
    if cost > 0 and cost <= state.limit then
      retry = max(place(state, cost) + state.window - now, 0)
    end
    return remaining(state), retry, max(place(state, state.limit) + state.window - now, 0)
  end

  return cell
end
