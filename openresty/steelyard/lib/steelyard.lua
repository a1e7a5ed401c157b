--- Steelyard for nginx: spreads requests over weights from a controller, without a reload.
--
-- There is one function per phase; openresty/examples uses them. `init_by_lua_block { require "steelyard" }` makes the
-- workers' shared state before they fork. For stream {} there is steelyard.stream.

if ngx.config.subsystem == "stream" then
    error('steelyard is for http {}; in stream {} it is require "steelyard.stream"', 0)
end

local balance = require "steelyard.phase.balance"
local limit = require "steelyard.phase.limit"
local request_log = require "steelyard.phase.request_log"
local response = require "steelyard.phase.response"
local servers = require "steelyard.phase.servers"
local status_pages = require "steelyard.phase.status_pages"
local worker = require "steelyard.phase.worker"

return {
    _VERSION = worker.VERSION,
    init_worker = worker.init, -- init_worker_by_lua
    shard = balance.shard, -- set_by_lua
    host = balance.host, -- set_by_lua
    limit = limit.limit, -- access_by_lua
    after_full = limit.after_full, -- access_by_lua of an error_page's location
    balance = balance.balance, -- balancer_by_lua
    header = response.header, -- header_filter_by_lua
    release = response.release, -- header_filter_by_lua, body_filter_by_lua
    sticky = response.sticky, -- header_filter_by_lua
    log = request_log.log, -- log_by_lua
    failure = response.failure, -- content_by_lua of an error_page's location
    servers = servers.servers, -- any phase in which a request may wait
    mark = servers.mark, -- any phase of a worker
    ready = status_pages.ready, -- content_by_lua
    status = status_pages.status, -- content_by_lua
    metrics = status_pages.metrics, -- content_by_lua
}
