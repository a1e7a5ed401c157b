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
--           header_filter_by_lua_block { require("steelyard").header() }  # optional
--           log_by_lua_block { require("steelyard").log() }
--       }
--   }
--
-- One function a phase; each stands in a file of its own.

return {
    _VERSION = "0.1.0",
    init_worker = require "steelyard.phase.init_worker",
    shard = require "steelyard.phase.shard",
    balance = require "steelyard.phase.balance",
    header = require "steelyard.phase.header",
    log = require "steelyard.phase.log",
    failure = require "steelyard.phase.failure",
    status = require "steelyard.phase.status",
    metrics = require "steelyard.phase.metrics",
}
