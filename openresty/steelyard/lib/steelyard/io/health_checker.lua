--- Run the active health checks: ask each peer, and take out peers that fail.
--
--   check/<upstream>/<id>/<about>   a peer's state (core/check_verdict), for as long as it is checked
--   checked/<upstream>              the time up to which due checks were begun, and the id of their settings
--
-- The settings are the weight table's if it has some, else nginx.conf's. They may change at any time. Then every peer
-- is due, and an earlier state or mark counts only if the new settings ask the same (`about`, core/check_settings).
--
-- A run checks the peers that fell due since the last one. It is called ten times an interval, or each second
-- (poll_interval_s), so the checks are spread over the interval. At most AT_ONCE checks wait for an answer at a time.
-- If many silent peers make a run longer than the interval, the next run begins when it is over: checks become rarer.
-- A check costs the worker about 0.1 ms, over TLS 0.8 ms.

local check_settings = require "steelyard.core.check_settings"
local check_verdict = require "steelyard.core.check_verdict"
local grpc_health = require "steelyard.core.grpc_health"
local http_client = require "steelyard.io.http_client"
local http_message = require "steelyard.core.http_message"
local number = require "steelyard.core.number"
local peer_health = require "steelyard.io.peer_health"

-- Each lane pauses after a check, and few lanes begin at a time. Together that is at most 10 checks a millisecond, so a
-- request waits for about one millisecond.
local AT_ONCE, TOGETHER = 50, 10
local BEGIN_PAUSE_S, PAUSE_S = 0.001, 0.005

-- Over TLS a check costs eight times as much: at most one a millisecond.
local TLS_TOGETHER, TLS_PAUSE_S = 1, 0.05

-- States and marks live for this many intervals without a check, and for the time of a whole cycle with 1500 silent
-- peers and a timeout of a second.
local KEEP_INTERVALS, KEEP_S = 5, 30

local _M = {}
local mt = { __index = _M }


--- How often to call `run`. New settings do not wait for an interval of the old ones.
function _M.poll_interval_s(settings)
    return math.min(1, math.max(0.1, settings.interval_s / 10))
end


--- Make the checker of a worker.
-- @param parts dict, store (io/table_store), health (io/peer_health), lb: this load balancer's name, and
--   upstreams: function() that returns the upstreams of now, by name
function _M.new(parts)
    return setmetatable({
        dict = parts.dict, store = parts.store, health = parts.health, lb = parts.lb, upstreams = parts.upstreams,
    }, mt)
end


--- Return the peers whose checks are due; from now on they are due an interval later.
local function due_peers(self, live, settings, now)
    local dict, key, interval_s = self.dict, "checked/" .. live.name, settings.interval_s
    local text, id = string.match(dict:get(key) or "", "^(%S+) (.*)$")
    local from = id == settings.id and number.trusted(text) or 0
    if from > now or from < now - interval_s then
        from = now - interval_s -- the first run with these settings, or the last run was long ago: all are due
    end
    dict:set(key, string.format("%.3f %s", now, settings.id))
    local own, due = ngx.crc32_short(self.lb) / 2 ^ 32, {}
    for _, peer in ipairs(live.table and live.table.peers or {}) do
        local phase = (own + ngx.crc32_short(peer.id) / 2 ^ 32) % 1
        if peer.state ~= "down" and check_verdict.due(phase, from, now, interval_s) then
            due[#due + 1] = peer
        end
    end
    return due
end


local function log(name, peer, change)
    ngx.log(ngx.NOTICE, "steelyard: upstream ", name, ": ", peer.id, " (", peer.address, ") ", change)
end


--- Whether an upstream is still checked with these settings.
local function in_force(self, name, settings)
    local live = self.upstreams()[name]
    local current = live and live.check
    return current ~= nil and current.id == settings.id
end


--- Ask a peer. Return its status, or nil and the reason.
local function ask(peer, settings)
    local target = {
        host = peer.ip, port = peer.port, path = settings.path, timeout_ms = settings.timeout_s * 1000,
        headers = { Host = settings.host or peer.address, ["User-Agent"] = "steelyard-check" },
        tls = settings.tls and { server_name = settings.server_name, verify = settings.tls_verify },
    }
    if settings.tcp then
        return http_client.ask(target, "", function() return check_settings.CONNECTED end)
    elseif settings.grpc_service then
        return http_client.ask(target, grpc_health.request(settings.grpc_service, target.headers.Host),
                               grpc_health.judge)
    end
    return http_client.ask(target, http_message.request(target, "1.1"), http_message.status)
end


--- Log what a person has to mend, mostly in nginx.conf: once for all peers.
local function log_remedy(self, name, settings, why)
    local remedy = check_verdict.remedy(why)
    if remedy and self.store:outcome_changed("!check/" .. name .. "/" .. why, settings.id) then
        ngx.log(ngx.ERR, "steelyard: upstream ", name, ": checks fail (", why, "): ", remedy)
    end
end


local function check_one(self, name, peer, settings)
    local status, err = ask(peer, settings)
    if not in_force(self, name, settings) then
        return -- the answer came too late
    end
    local ok, why = check_verdict.judge(status, err, settings)
    if not ok then
        log_remedy(self, name, settings, why)
    end
    local kind, keep_s = peer_health.check_kind(settings), KEEP_INTERVALS * settings.interval_s + KEEP_S
    local key = "check/" .. name .. "/" .. peer.id .. "/" .. settings.about
    local state, changed = check_verdict.step(check_verdict.read(self.dict:get(key), peer.address), ok, settings)
    self.dict:set(key, check_verdict.write(state, peer.address), keep_s)
    if state.up then
        self.health:clear(name, peer, kind)
        if changed then
            log(name, peer, "rises: its checks succeed")
        end
    elseif self.health:mark(name, peer, kind, why or "its checks failed", keep_s) then
        log(name, peer, "falls: " .. (why or "its checks failed"))
    else
        self.health:renew(name, peer, kind, why, keep_s)
    end
end


--- Check the peers whose checks are due, if there is a check; returns when each has answered or timed out.
-- @param live the upstream (core/upstream)
-- @param now  by the monotonic clock
function _M:run(live, now)
    local name, settings = live.name, live.check
    if not settings then
        return -- the check was removed since the timer was set
    end
    local due, at = due_peers(self, live, settings, now), 0
    local together, pause_s = settings.tls and TLS_TOGETHER or TOGETHER, settings.tls and TLS_PAUSE_S or PAUSE_S
    local function lane()
        while at < #due and in_force(self, name, settings) and not ngx.worker.exiting() do
            at = at + 1
            check_one(self, name, due[at], settings)
            ngx.sleep(pause_s)
        end
    end
    local lanes = {}
    for i = 1, math.min(AT_ONCE, #due) do
        lanes[i] = ngx.thread.spawn(lane)
        if i % together == 0 then
            ngx.sleep(BEGIN_PAUSE_S)
        end
    end
    for i = 1, #lanes do
        local ok, err = ngx.thread.wait(lanes[i])
        if not ok then
            ngx.log(ngx.ERR, "steelyard: upstream ", name, ": a check failed: ", err)
        end
    end
end


return _M
