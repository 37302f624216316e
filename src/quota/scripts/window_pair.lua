-- What sliding_window and weighted_average share.
--
-- State: a string, 'window current previous': the window's number and the units taken
-- in it and in the one before.  Gone after max(2 windows, 5 minutes) without a take.
local idle_ms = 300000

local function window_pair()
  local cell = {}

  function cell.read(key, limit, window, max_debt)
    local state = {
      key = key, limit = limit, window = window, max_debt = max_debt,
      index = floor(since_monday / window), current = 0, previous = 0,
    }
    local text = call('GET', key)
    local stored, current, previous
    if text then stored, current, previous = string.match(text, '^(%d+) (%d+) (%d+)$') end
    if stored then
      stored, current, previous = tonumber(stored), tonumber(current), tonumber(previous)
      if stored > state.index and stored * window - since_monday > late_max then
        state.current = min(current + previous, limit + max_debt)
        state.stepped = true
      elseif stored >= state.index then
        state.index, state.current, state.previous = stored, current, previous
      elseif stored == state.index - 1 then
        state.previous = current
      end
    end
    state.left = min(window - (since_monday - state.index * window), window)
    return state
  end

  function cell.take(state, units)
    state.current = state.current + units
    return state.index
  end

  function cell.mark(state) return state.index end

  function cell.give(state, units, mark)
    local age = state.index - mark
    if age == 0 and state.current > 0 then
      state.current = max(state.current - units, 0)
    elseif age == 1 and state.previous > 0 then
      state.previous = max(state.previous - units, 0)
    else
      return false
    end
    return true
  end

  function cell.write(state)
    local text = string.format('%.0f %.0f %.0f', state.index, state.current, state.previous)
    call('SET', state.key, text, 'PX', max(ceil(2 * state.window / 1000), idle_ms))
  end

  function cell.tell(state) return state.index, state.current, state.previous end

  return cell
end
