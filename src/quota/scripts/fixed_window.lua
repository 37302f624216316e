-- Fixed window.
--
-- State: a string, 'window count'.  Units that were charged beyond the limit fill the
-- windows that follow: all windows before the one that is named are then full.
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
    if text then index, count = string.match(text, '^(%d+) (%d+)$') end
    if not index or limit == 0 then return state end
    index, count = tonumber(index), min(tonumber(count), limit)
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
    keep(state.key, string.format('%.0f %.0f', state.index, state.count),
         (state.index + 1) * state.window - since_monday)
  end

  function cell.tell(state) return state.index, state.count, 0 end

  return cell
end
