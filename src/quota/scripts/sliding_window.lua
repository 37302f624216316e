-- Sliding window: used = current + ceil(previous * left / window).

-- ceil(count * left / window), exact although the product may need 90 bits.
-- Requires: 0 <= left <= window < 2^46.
local function share(count, left, window)
  local product = count * left
  if product < 9007199254740992 then return ceil(product / window) end
  local quotient, rest, weight = 0, 0, 2 ^ 42
  while weight >= 1 do
    local digit = floor(count / weight) % 128
    local part = rest * 128 + digit * left
    quotient = quotient * 128 + floor(part / window)
    rest = part % window
    weight = weight / 128
  end
  return rest > 0 and quotient + 1 or quotient
end

function cells.sw()
  local function room(state)
    return state.limit - state.current - share(state.previous, state.left, state.window)
  end
  local cell = window_pair()

  function cell.fit(state, cost, count)
    return max(min(count, floor(room(state) / cost)), 0)
  end

  function cell.charge(state, units)
    local added = state.limit > 0 and min(units, room(state) + state.max_debt) or 0
    if added <= 0 then return false end
    state.current = state.current + added
    return true
  end

  return cell
end
