-- Weighted average: (elapsed * current + left * previous) / window < limit, and never
-- more than the limit in one window.

-- Whether a * x < b * y, exact although the products may need 90 bits.
-- Requires: all of them whole and not negative, x and y below 2^46, a and b below 2^49.
local function less(a, x, b, y)
  local p, q = a * x, b * y
  if p < 9007199254740992 and q < 9007199254740992 then return p < q end
  local below, weight = 0, 2 ^ 42
  while weight >= 1 do
    below = below * 128 + floor(b / weight) % 128 * y - floor(a / weight) % 128 * x
    -- The digits that follow cannot make good so much.
    if below > 2 ^ 47 then return true end
    if below < -2 ^ 47 then return false end
    weight = weight / 128
  end
  return below > 0
end

function cells.wa()
  local cell = window_pair(function(state)
    if state.limit == 0 then return 0 end
    -- elapsed * current + left * previous < limit * window, as a comparison of two
    -- products: left * (previous - current) < window * (limit - current).
    local current = state.current
    local rise, free = state.previous - current, state.limit - current
    local below
    if rise >= 0 then
      below = free > 0 and less(rise, state.left, free, state.window)
    else
      below = free >= 0 or less(-free, state.window, -rise, state.left)
    end
    return below and free or 0
  end)

  function cell.charge(state, units)
    local added = min(units, state.limit + state.max_debt - state.current)
    if state.limit == 0 or added <= 0 then return false end
    state.current = state.current + added
    return true
  end

  return cell
end
