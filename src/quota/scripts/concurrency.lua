-- Concurrency: at most `limit` slots are held at once.
--
-- State: a hash, owner -> 'slots expiry'.  An owner that no longer renews is gone with
-- its expiry, and its slots are free again.
function cells.co()
  local cell = {}

  function cell.read(key, limit, expiry, _, _, owner)
    local state = {key = key, limit = limit, expiry = expiry, owner = owner}
    state.mine, state.used, state.gone, state.soonest = 0, 0, {}, 0
    local fields = call('HGETALL', key)
    for i = 1, #fields, 2 do
      local slots, until_us = string.match(fields[i + 1], '^(%d+) (%d+)$')
      slots, until_us = tonumber(slots), tonumber(until_us)
      if not slots or until_us <= now then
        state.gone[#state.gone + 1] = fields[i]
      else
        -- The clock stepped back: a dead owner goes with one expiry from now.
        if until_us > now + expiry + late_max then
          until_us = now + expiry
          state.stepped = state.stepped or {}
          state.stepped[fields[i]] = string.format('%.0f %.0f', slots, until_us)
        end
        state.used = state.used + slots
        if fields[i] == owner then state.mine = slots end
        if state.soonest == 0 or until_us < state.soonest then state.soonest = until_us end
      end
    end
    return state
  end

  function cell.fit(state, cost, count)
    return max(min(count, floor((state.limit - state.used) / cost)), 0)
  end

  local function hold(state, slots)
    state.used = state.used + slots - state.mine
    state.mine = slots
    state.changed = true
  end

  function cell.take(state, units)
    hold(state, state.mine + units)
    return 0
  end

  function cell.mark() return 0 end

  function cell.give(state, units)
    if state.mine == 0 then return false end
    hold(state, max(state.mine - units, 0))
    return true
  end

  function cell.charge() return false end

  -- The owner's expiry begins anew, and slots that were forgotten (the expiry had passed, or
  -- the key was lost) are held again, if need be beyond the limit: their calls go on.
  function cell.renew(state, slots)
    hold(state, max(state.mine, slots))
    state.changed = state.mine > 0
    return state.changed
  end

  function cell.write(state)
    local key = state.key
    if state.stepped then
      for owner, text in pairs(state.stepped) do call('HSET', key, owner, text) end
    end
    for _, owner in ipairs(state.gone) do call('HDEL', key, owner) end
    if state.changed then
      if state.mine == 0 then
        call('HDEL', key, state.owner)
      else
        call('HSET', key, state.owner, string.format('%.0f %.0f', state.mine, now + state.expiry))
      end
    end
    call('PEXPIRE', key, ceil(state.expiry / 1000) + slack_ms)
  end

  -- The slots held, and how long until the first owner would be gone.
  function cell.tell(state)
    return state.used, state.soonest > 0 and state.soonest - now or 0, state.mine
  end

  return cell
end
