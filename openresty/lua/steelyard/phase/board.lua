--- This worker's board: shared with the other workers when nginx.conf loads
-- Steelyard in init_by_lua, its own otherwise.

local board = require "steelyard.core.board"
local cells = require "steelyard.io.cells"
local shared_memory = require "steelyard.io.shared_memory"

local memory, workers, problem

-- Runs when the module is loaded: in init_by_lua that is before the workers fork.
if ngx.get_phase() == "init" then
    workers = math.max(1, ngx.worker.count())
    memory, problem = shared_memory.map(board.bytes(workers, cells.COUNT))
else
    problem = 'nginx.conf has no init_by_lua_block { require "steelyard" }'
end


--- Open the board; also returns why it is not shared, or nil.
return function(worker_id)
    if memory then
        return board.new(memory, workers, cells.COUNT, worker_id)
    end
    return board.new(board.local_memory(cells.COUNT), 1, cells.COUNT, 0), problem
end
