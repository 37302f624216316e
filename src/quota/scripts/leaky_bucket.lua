-- Leaky bucket: a give-back only while nothing is queued behind the take.
function cells.lb() return arrival_time(true) end
