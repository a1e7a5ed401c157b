--- Steelyard for nginx's stream {}: TCP connections are spread over weights that a controller
-- publishes, with no reload. Needs ngx_stream_lua, which OpenResty has.
--
--   lua_shared_dict steelyard_stream 10m;               # http {} may have one called `steelyard`
--   init_by_lua_block { require "steelyard.stream" }    # before the workers fork
--   init_worker_by_lua_block {
--       require("steelyard.stream").init_worker{
--           memcached = {"127.0.0.1:11211"}, lb = "edge-1-tcp",   -- not the `lb` of http {}
--           upstreams = { db = { bootstrap = {"10.0.0.11:5432"} } },
--       }
--   }
--   log_by_lua_block { require("steelyard.stream").log() }
--   upstream db {
--       server 0.0.0.1:1;     # never used; nginx wants one
--       balancer_by_lua_block { require("steelyard.stream").balance("db") }
--   }
--   server { listen 5432; proxy_pass db; proxy_connect_timeout 1s; }
--
-- One function a phase.

if ngx.config.subsystem ~= "stream" then
    error('steelyard.stream is for stream {}; in http {} it is require "steelyard"', 0)
end

local pages = require "steelyard.phase.stream_pages"
local session = require "steelyard.phase.stream_session"
local worker = require "steelyard.phase.worker"

return {
    _VERSION = worker.VERSION,
    init_worker = session.init_worker,
    balance = session.balance,
    log = session.log,
    pages = pages.pages,
}
