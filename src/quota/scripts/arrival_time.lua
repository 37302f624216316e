-- What token_bucket and leaky_bucket share.
--
-- State: a string, the theoretical arrival time (TAT) in us, with a fraction of three
-- digits where the interval has one: '1796000000000000' or '1796000000000000.334'.
-- Ticks are us, or ns with scale 1000; a time is kept as how far it lies ahead of the
-- clock, since ns of the clock do not fit 53 bits.
local function ticks_ahead(text, scale)
  local us, ns = string.match(text, '^(%d+)%.?(%d*)$')
  if not us then return 0 end
  local ahead = (us - now) * scale
  if ns ~= '' then ahead = ahead + (scale == 1 and 1 or tonumber(ns)) end
  return max(ahead, 0)
end

local function arrival_time(is_queue)
  local cell = {}

  function cell.read(key, interval, admit, horizon, scale)
    local text = call('GET', key)
    local state = {
      key = key, interval = interval, admit = admit, horizon = horizon, scale = scale,
      ahead = text and ticks_ahead(text, scale) or 0,
    }
    if state.ahead > horizon then
      state.ahead = horizon
      state.stepped = true
    end
    return state
  end

  function cell.fit(state, cost, count)
    if state.interval == 0 then return 0 end
    return max(min(count, floor((state.admit - state.ahead) / (cost * state.interval))), 0)
  end

  function cell.take(state, units)
    state.ahead = state.ahead + units * state.interval
    return 0
  end

  function cell.give(state, units, mark)
    local marked = ticks_ahead(mark, state.scale)
    -- Those behind in a queue were told their waits already.
    if is_queue and marked ~= state.ahead then return false end
    local undrained = min(units * state.interval, marked, state.ahead)
    state.ahead = state.ahead - undrained
    return undrained > 0
  end

  function cell.charge(state, units)
    local added = min(units * state.interval, state.horizon - state.ahead)
    if added <= 0 then return false end
    state.ahead = state.ahead + added
    return true
  end

  function cell.write(state)
    if state.ahead <= 0 then
      call('DEL', state.key)
      return
    end
    keep(state.key, cell.mark(state), state.ahead / state.scale)
  end

  -- The TAT as text, in which form leases keep it too.
  function cell.mark(state)
    local ns = state.ahead % state.scale
    local us = string.format('%.0f', now + (state.ahead - ns) / state.scale)
    return ns > 0 and us .. string.format('.%03d', ns) or us
  end

  function cell.tell(state)
    return state.ahead, 0, 0
  end

  return cell
end
