-- Fixed window.
--
-- State: a whole number as text, which Redis keeps in 16 bytes where others take 32: the
-- window's number, the units taken in it, and in two digits how many digits those have;
-- '2993371203' is 712 in window 29933.  (One of 19 digits or more is kept as a string, and
-- read the same.)  Units that were charged beyond the limit fill the windows that follow:
-- all windows before the one that is named are then full.
local function unpack_window(text)
  if not string.match(text, '^%d+$') then return end
  local digits = tonumber(string.sub(text, -2))
  return tonumber(string.sub(text, 1, -digits - 3)), tonumber(string.sub(text, -digits - 2, -3))
end

local function pack_window(index, count)
  local units = string.format('%.0f', count)
  return string.format('%.0f%s%02d', index, units, #units)
end

function cells.fw()
  local cell = {}

  function cell.read(key, limit, window, max_debt)
    local current = floor(since_monday / window)
    local state = {
      key = key, limit = limit, window = window, max_debt = max_debt,
      current = current, index = current, count = 0,
    }
    local text = call('GET', key)
    local index, count
    if text then index, count = unpack_window(text) end
    if not (index and count) or limit == 0 then return state end
    count = min(count, limit)
    if index < current then return state end
    local debt_windows = ceil(max_debt / limit)
    if index - current > debt_windows and
        index * window - since_monday > debt_windows * window + late_max then
      state.count = limit
      state.stepped = true
    else
      state.index, state.count = index, count
    end
    return state
  end

  -- With debt a window that lies ahead is owed; without, the clock is late.
  local function from(state) return state.max_debt > 0 and state.current or state.index end
  local function used(state)
    return (state.index - from(state)) * state.limit + state.count
  end
  local function set(state, start, units)
    local full = units > 0 and floor((units - 1) / state.limit) or 0
    state.index, state.count = start + full, units - full * state.limit
  end

  function cell.fit(state, cost, count)
    return max(min(count, floor((state.limit - used(state)) / cost)), 0)
  end

  function cell.take(state, units)
    local start = from(state)
    set(state, start, used(state) + units)
    return start
  end

  cell.mark = from

  function cell.give(state, units, mark)
    local start = from(state)
    mark = tonumber(mark)
    if state.count == 0 or mark < start or mark > state.index then return false end
    set(state, start, max(used(state) - units, 0))
    return true
  end

  function cell.charge(state, units)
    local added = state.limit > 0 and min(units, state.limit + state.max_debt - used(state)) or 0
    if added <= 0 then return false end
    set(state, from(state), used(state) + added)
    return true
  end

  function cell.write(state)
    if state.count == 0 then
      call('DEL', state.key)
      return
    end
    keep(state.key, pack_window(state.index, state.count),
         (state.index + 1) * state.window - since_monday)
  end

  function cell.tell(state) return state.index, state.count, 0 end

  return cell
end
