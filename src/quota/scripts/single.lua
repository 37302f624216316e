-- KEYS[1]  the cell
-- ARGV     op, cost, count, mark (concurrency: owner), and the shape in four numbers
-- Reply    granted, mark, three numbers on the state, the server's clock in us
local granted, mark, x, y, z = run(
    cell, KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4],
    tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]))
return {granted, tonumber(mark) or 0, x, y, z, now}
