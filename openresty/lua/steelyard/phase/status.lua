--- GET /steelyard/status: what this load balancer serves, and why, as JSON.

local allow = require "steelyard.core.allow"
local json = require "steelyard.core.json"
local platform = require "steelyard.io.platform"
local problem = require "steelyard.core.problem"
local worker = require "steelyard.phase.worker"


local function peers_of(live, in_flight)
    local rows, eligible, total = {}, {}, 0
    for _, peer in ipairs(live.eligible) do
        eligible[peer.id] = peer.weight
        total = total + peer.weight
    end
    for i, peer in ipairs(live.table and live.table.peers or {}) do
        local counts = worker.totals:of(peer.address)
        rows[i] = {
            id = peer.id, address = peer.address, state = peer.state,
            weight = peer.weight, baseline = peer.baseline,
            eligible = eligible[peer.id] ~= nil,
            share = (eligible[peer.id] or 0) / math.max(1, total),
            picks = counts.picks, completed = counts.completed, failed = counts.failed,
            latency_ms = counts.completed > 0 and counts.latency_ms / counts.completed or json.null,
            in_flight = in_flight[peer.address] or 0,
        }
    end
    return json.array(rows)
end


local function upstream_of(live, in_flight, now)
    local served, seen = live.table, worker.store:seen(live.name)
    local refused, last_refusal, outcome = worker.store:refusals(live.name)
    return {
        rung = live.rung, drift = live.drift,
        term = served and served.term or json.null,
        generation = served and served.generation or json.null,
        issued_at_ms = served and served.issued_at_ms or json.null,
        law = served and served.law or json.null,
        picker = live.picker_name or json.null,
        -- Differs from `picker` when this version does not have the one asked for.
        picker_asked = served and served.picker or json.null,
        age_s = seen and now - seen or json.null,
        last_fetch = outcome or "none yet",
        refused = refused, last_refused = last_refusal or json.null,
        peers = peers_of(live, in_flight),
    }
end


local function document()
    local workers, in_flight = worker.totals:workers()
    local fetch_errors, fetch_error = worker.store:fetch_errors()
    local upstreams, now = {}, ngx.now()
    for name, live in pairs(worker.upstreams) do
        upstreams[name] = upstream_of(live, in_flight, now)
    end
    return {
        lb = worker.options.lb, platform = platform.name, ngx_lua_version = platform.ngx_lua_version,
        fetch_errors = fetch_errors, last_fetch_error = fetch_error or json.null,
        report_errors = worker.dict:get("report_errors") or 0,
        upstreams = upstreams, workers = json.array(workers),
    }
end


local function refuse(status, detail)
    ngx.status = status
    ngx.header["Content-Type"] = problem.CONTENT_TYPE
    ngx.say(problem.encode(status, detail))
end


--- Answer with the status document; 403 to whom `allow` does not name.
return function()
    if worker.broken then
        return refuse(503, worker.broken)
    end
    local client = ngx.var.remote_addr
    if not allow.allows(client, worker.options.allow) then
        return refuse(403, client .. " is neither loopback nor in the option `allow` of init_worker")
    end
    ngx.header["Content-Type"] = "application/json"
    ngx.header["Cache-Control"] = "no-store"
    ngx.say(assert(json.encode(document())))
end
