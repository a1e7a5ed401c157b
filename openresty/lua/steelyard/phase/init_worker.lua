--- init_worker_by_lua: check the options, seed, start the timers.

local options_of = require "steelyard.core.options"
local worker = require "steelyard.phase.worker"


--- Seed this worker's random numbers. nginx forks its workers, so without it,
-- and with a seed out of the clock, all of them would walk their rings in step.
local function seed()
    local file = io.open("/dev/urandom", "rb")
    local bytes = file and file:read(6)
    if file then
        file:close()
    end
    local value = ngx.worker.pid() * 65536 + ngx.now() * 1000
    for i = 1, bytes and #bytes or 0 do
        value = (value * 256 + string.byte(bytes, i)) % 2 ^ 48
    end
    math.randomseed(value)
end


--- Start Steelyard in this worker. A bad option is one line in the error log
-- that names it and the remedy. nginx goes on whatever init_worker does, so the
-- line is also kept for the requests that then come, and answered to them.
return function(options)
    if not ngx.worker.id() then
        return -- a helper process, which serves nothing
    end
    seed()
    local ok, err = pcall(function()
        worker.start(options_of.check(options))
    end)
    if not ok then
        worker.broken = tostring(err)
        ngx.log(ngx.ERR, worker.broken)
    end
end
