-- One call on one cell.  Result: how many requests passed (units of a lease), its mark,
-- and three numbers on the state that it left.
--
-- A refusal writes nothing, save a state that the clock's step back made impossible.
local function run(cell, key, op, cost, count, mark, a, b, c, d)
  local state = cell.read(key, a, b, c, d, mark)
  local granted, changed, short = 0, state.stepped, 0
  if op == 't' then
    granted = cost > 0 and cell.fit(state, cost, count) or count
    if granted > 0 and cost > 0 then
      mark = cell.take(state, granted * cost)
      changed = true
    end
    if granted < count or count == 0 then short = cost end
  elseif op == 'p' then
    granted = (cost == 0 or (count > 0 and cell.fit(state, cost, 1) > 0)) and 1 or 0
    changed = false
    mark = cell.mark(state)
    short = cost
  else
    if op == 'g' then
      changed = cell.give(state, cost, mark) or changed
    elseif op == 'c' then
      changed = cell.charge(state, cost) or changed
    elseif op == 'n' then
      changed = cell.renew(state, cost) or changed
    end
    mark = 0
  end
  if changed then cell.write(state) end
  return granted, mark, cell.tell(state, short)
end
