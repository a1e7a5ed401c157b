--- Steelyard for nginx's stream {}: spreads TCP connections over weights from a controller, without a reload. Needs
-- ngx_stream_lua, which is part of OpenResty.
--
-- There is one function per phase; openresty/examples/stream.conf uses them. `init_by_lua_block { require
-- "steelyard.stream" }` makes the workers' shared state before they fork.

if ngx.config.subsystem ~= "stream" then
    error('steelyard.stream is for stream {}; in http {} it is require "steelyard"', 0)
end

local pages = require "steelyard.phase.stream_pages"
local session = require "steelyard.phase.stream_session"
local worker = require "steelyard.phase.worker"

return {
    _VERSION = worker.VERSION,
    init_worker = session.init_worker, -- init_worker_by_lua
    balance = session.balance, -- balancer_by_lua
    log = session.log, -- log_by_lua
    pages = pages.pages, -- content_by_lua of a server
}
