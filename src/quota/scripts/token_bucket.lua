-- Token bucket: a give-back returns what of the take has not drained yet.
function cells.tb() return arrival_time(false) end
