--- A breather like that of io/clock, with a count in place of the clock.
-- @param work called at each breath with their number; may be left out
-- @return the breather, and a function that returns the number of breaths so far
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
