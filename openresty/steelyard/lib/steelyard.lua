--- Steelyard for nginx: requests are spread over weights that a controller
-- publishes, with no reload.
--
--   lua_shared_dict steelyard 10m;
--   init_by_lua_block { require "steelyard" }  # before the workers fork: they share what is in flight
--   init_worker_by_lua_block {
--       require("steelyard").init_worker{
--           memcached = {"127.0.0.1:11211"}, lb = "edge-1",
--           upstreams = { web = { bootstrap = {"10.0.0.11:80"} } },
--       }
--   }
--   upstream web {
--       server 0.0.0.1;     # never used; nginx wants one
--       balancer_by_lua_block { require("steelyard").balance("web") }
--       keepalive 64;       # after balancer_by_lua
--   }
--   server {
--       location / {
--           proxy_pass http://web;
--           proxy_http_version 1.1;          # or `keepalive` keeps nothing,
--           proxy_set_header Connection "";  # nor without this
--           header_filter_by_lua_block { require("steelyard").header() }  # optional
--           log_by_lua_block { require("steelyard").log() }
--       }
--   }
--
-- One function a phase. For stream {} there is steelyard.stream.

if ngx.config.subsystem == "stream" then
    error('steelyard is for http {}; in stream {} it is require "steelyard.stream"', 0)
end

local balance = require "steelyard.phase.balance"
local limit = require "steelyard.phase.limit"
local ready_page = require "steelyard.phase.ready_page"
local response = require "steelyard.phase.response"
local status_pages = require "steelyard.phase.status_pages"
local worker = require "steelyard.phase.worker"

return {
    _VERSION = worker.VERSION,
    init_worker = worker.init,
    shard = balance.shard,
    host = balance.host,
    limit = limit.limit,
    after_full = limit.after_full,
    balance = balance.balance,
    header = response.header,
    release = response.release,
    sticky = response.sticky,
    log = response.log,
    failure = response.failure,
    ready = ready_page.ready,
    status = status_pages.status,
    metrics = status_pages.metrics,
}
