--- Which cell of the board a server's address has: the same one in every worker.
--
--   cells             how many were given out since nginx started
--   cell/<address>    the cell of an address; it outlives a reload
--
-- Cells are given out in turn and, when all are used up, again from the first:
-- the server that had it has long left every table and has nothing in flight.
-- Should it still be served, two servers share a cell and each looks as busy as
-- both: a worse choice, and no error.

local _M = {}

-- More than one upstream of 10,000 servers, and as many again that came and went.
_M.COUNT = 32768


--- The cell of an address, given out if need be.
function _M.of(dict, address)
    local key = "cell/" .. address
    local cell = dict:get(key)
    if cell then
        return cell
    end
    local number = dict:incr("cells", 1, 0)
    if not number then
        return 0 -- a dict without room for a number; its writers say so
    end
    dict:add(key, (number - 1) % _M.COUNT)
    return dict:get(key) or 0 -- another worker may have been faster
end


--- Forget an address that nobody serves any more; returns the cell it had.
function _M.forget(dict, address)
    local cell = dict:get("cell/" .. address)
    dict:delete("cell/" .. address)
    return cell
end


return _M
