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
  local cell = window_pair()

  -- Whether one more request goes when `current` units are taken, fewer than the limit:
  -- elapsed * current + left * previous < limit * window, as a comparison of two products,
  -- left * (previous - current) < window * (limit - current).
  local function goes(state, current)
    local rise = state.previous - current
    return rise < 0 or less(rise, state.left, state.limit - current, state.window)
  end

  -- Each of several requests is weighed with those before it.
  function cell.fit(state, cost, count)
    local least, most = 0, min(count, floor((state.limit - state.current) / cost))
    while least < most do
      local middle = floor((least + most + 1) / 2)
      if goes(state, state.current + (middle - 1) * cost) then
        least = middle
      else
        most = middle - 1
      end
    end
    return least
  end

  function cell.charge(state, units)
    local added = min(units, state.limit + state.max_debt - state.current)
    if state.limit == 0 or added <= 0 then return false end
    state.current = state.current + added
    return true
  end

  return cell
end
