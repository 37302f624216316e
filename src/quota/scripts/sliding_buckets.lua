-- Sliding buckets: the sum over the last N + 1 buckets is at most the limit.
--
-- State: a hash, bucket number -> units taken in it; at most N + 1 fields are written.
function cells.sb()
  local cell = {}

  function cell.read(key, limit, bucket, buckets, max_debt)
    local state = {
      key = key, limit = limit, bucket = bucket, buckets = buckets, max_debt = max_debt,
      current = floor(since_monday / bucket), counts = {}, stale = {}, changed = {},
      sum = 0, newest = -1, filled = -1,
    }
    local fields = call('HGETALL', key)
    for i = 1, #fields, 2 do
      local index = tonumber(fields[i])
      local count = tonumber(fields[i + 1])
      if index and count then
        state.counts[index] = count
        state.newest = max(state.newest, index)
      end
    end
    if state.newest > state.current then
      if state.newest * bucket - since_monday > late_max then
        state.stepped = true
      else
        state.current = state.newest
      end
    end
    local oldest = (state.stepped and state.newest or state.current) - buckets
    for index, count in pairs(state.counts) do
      if index < oldest then
        state.stale[#state.stale + 1] = index
      else
        state.sum = state.sum + count
        if count > 0 then state.filled = max(state.filled, index) end
      end
    end
    if state.stepped then
      state.counts = {[state.current] = state.sum}
      state.filled, state.newest = state.current, state.current
      state.changed[state.current] = true
    end
    return state
  end

  function cell.fit(state, cost, count)
    return max(min(count, floor((state.limit - state.sum) / cost)), 0)
  end

  function cell.take(state, units)
    local current = state.current
    state.counts[current] = (state.counts[current] or 0) + units
    state.sum = state.sum + units
    state.filled, state.newest = current, current
    state.changed[current] = true
    return current
  end

  function cell.mark(state) return state.current end

  function cell.give(state, units, mark)
    mark = tonumber(mark)
    local counted = mark <= state.current and mark >= state.current - state.buckets
    local returned = counted and min(units, state.counts[mark] or 0) or 0
    if returned <= 0 then return false end
    state.counts[mark] = state.counts[mark] - returned
    state.sum = state.sum - returned
    state.changed[mark] = true
    return true
  end

  function cell.charge(state, units)
    local added = state.limit > 0 and min(units, state.limit + state.max_debt - state.sum) or 0
    if added <= 0 then return false end
    cell.take(state, added)
    return true
  end

  -- How long until the units of bucket `index` are no longer counted.
  local function gone_after(state, index)
    return (index + state.buckets + 1) * state.bucket - since_monday
  end

  function cell.write(state)
    local key = state.key
    if state.stepped then call('DEL', key) end
    for index in pairs(state.changed) do
      call('HSET', key, string.format('%.0f', index), string.format('%.0f', state.counts[index]))
    end
    for _, index in ipairs(state.stale) do
      call('HDEL', key, string.format('%.0f', index))
    end
    call('PEXPIRE', key, ceil(gone_after(state, state.newest) / 1000) + slack_ms)
  end

  -- The sum, how long until `cost` fits, and how long until nothing is counted.
  function cell.tell(state, cost)
    local retry = 0
    local wanted = state.sum + cost - state.limit
    if cost > 0 and wanted > 0 and cost <= state.limit then
      local freed, index = 0, max(state.current - state.buckets, 0)
      while index < state.newest do
        freed = freed + (state.counts[index] or 0)
        if freed >= wanted then break end
        index = index + 1
      end
      retry = gone_after(state, index)
    end
    if state.sum == 0 then return 0, retry, 0 end
    -- The newest bucket with units in it; a give-back may have emptied the last one.
    local filled = state.filled
    while (state.counts[filled] or 0) == 0 do filled = filled - 1 end
    return state.sum, retry, gone_after(state, filled)
  end

  return cell
end
