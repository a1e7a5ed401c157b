--- Steelyard for nginx's stream {}: TCP connections are spread over weights that a controller
-- publishes, with no reload. Needs ngx_stream_lua, which OpenResty has.
--
-- One function a phase, in use in openresty/examples/stream.conf. `init_by_lua_block { require "steelyard.stream" }`
-- makes what the workers share, before they fork.

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
