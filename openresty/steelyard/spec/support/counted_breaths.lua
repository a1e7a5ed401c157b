--- A breather as io/clock's, with a count in the place of the clock.
-- @param work called at each breath with their number; may be left out
-- @return the breather, and a function that tells how often it was time for a breath
return function(work)
    local breaths = 0
    return function(row, rows)
        if row and row % rows > 0 then
            return
        end
        breaths = breaths + 1
        if work then
            work(breaths)
        end
    end, function() return breaths end
end
