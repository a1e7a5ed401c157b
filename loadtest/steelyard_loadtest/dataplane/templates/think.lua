-- The same, with users who think between two requests: the load stays moderate,
-- and what stops the proxy for a moment is seen instead of hidden by a queue.
function delay()
    return math.random(0, %think_ms)
end

%figures
