--- What this load balancer serves, and why: one plain table that the status page
-- and the metrics page both show.
--
-- Upstreams' `peers` are rows in id order. They are gathered in slices: a table
-- that is taken meanwhile shows in the next document, counters may be some
-- milliseconds apart.

local clock = require "steelyard.io.clock"
local json = require "steelyard.core.json"
local platform = require "steelyard.io.platform"
local worker = require "steelyard.phase.worker"

local null = json.null

-- About 0.2 ms.
local ROWS = 50

local WELL = { kind = "ok" }


local function or_null(value)
    if value == nil then
        return null
    end
    return value
end


local function row_of(peer, weight, total, sick)
    local counts = worker.totals:of(peer.address)
    return {
        id = peer.id, address = peer.address, state = peer.state,
        weight = peer.weight, baseline = peer.baseline,
        eligible = weight ~= nil, share = (weight or 0) / math.max(1, total),
        -- ok, or which check took it out: fails, ejected, check.
        health = sick.kind, health_reason = or_null(sick.reason),
        out_for_s = sick.until_s and math.max(0, sick.until_s - clock.monotonic()) or null,
        picks = counts.picks, completed = counts.completed, failed = counts.failed,
        latency_ms = counts.completed > 0 and counts.latency_ms / counts.completed or null,
        latency_total_ms = counts.latency_ms,
        in_flight = worker.board:in_flight(peer.cell),
    }
end


local function rows_of(live, breathe)
    local peers, unhealthy = live.table and live.table.peers or {}, live.unhealthy
    local weights, total = {}, 0
    for i, peer in ipairs(live.eligible) do
        weights[peer.id], total = peer.weight, total + peer.weight
        if i % (ROWS * 10) == 0 then
            breathe()
        end
    end
    local rows = {}
    for i = 1, #peers do
        local peer = peers[i]
        rows[i] = row_of(peer, weights[peer.id], total, unhealthy[peer.id] or WELL)
        if i % ROWS == 0 then
            breathe()
        end
    end
    return rows
end


--- The check in force as a person would write it.
local function check_of(check)
    return check and {
        path = check.path, host = or_null(check.host), statuses = check.statuses_words,
        interval_s = check.interval_s, timeout_s = check.timeout_s, rise = check.rise, fall = check.fall,
    } or null
end


local function source_of(in_table)
    return in_table and "table" or "nginx.conf"
end


local function upstream_of(live, breathe)
    local store, served = worker.store, live.table or {}
    local seen = store:seen(live.name)
    local refused, last_refusal, outcome = store:refusals(live.name)
    return {
        rung = live.rung, drift = live.drift, fail_open = live.fail_open,
        term = or_null(served.term), generation = or_null(served.generation),
        issued_at_ms = or_null(served.issued_at_ms), law = or_null(served.law),
        picker = or_null(live.picker_name),
        -- What the table asks for. `picker` differs where the configuration names
        -- another one, and where it cannot be had: then `picker_error` says why.
        picker_asked = or_null(served.picker), picker_error = or_null(live.picker_error),
        -- The check and the hash key in force, and who said so. `chash` alone uses the key.
        check = check_of(live.check), check_from = live.check and source_of(served.check) or null,
        hash_key = served.hash_key or live.settings.hash_key, hash_key_from = source_of(served.hash_key),
        -- Which server the table came from, and when.
        source = or_null(store:source(live.name)), age_s = seen and clock.monotonic() - seen or null,
        last_fetch = outcome or "none yet",
        refused = refused, last_refused = or_null(last_refusal),
        peers = rows_of(live, breathe),
    }
end


--- Gather the document; calls breathe() now and then.
return function(breathe)
    local store = worker.store
    local fetch_errors, fetch_error = store:fetch_errors()
    local controller_errors, controller_error = store:controller_errors()
    local upstreams = {}
    for name, live in pairs(worker.upstreams) do
        upstreams[name] = upstream_of(live, breathe)
    end
    return {
        version = require("steelyard")._VERSION, -- not at the top: it requires this
        lb = worker.options.lb, platform = platform.name, ngx_lua_version = platform.ngx_lua_version,
        fetch_errors = fetch_errors, last_fetch_error = or_null(fetch_error),
        controller_errors = controller_errors, last_controller_error = or_null(controller_error),
        saved_error = or_null(store:saved_error()),
        report_errors = worker.dict:get("report_errors") or 0,
        -- Of the shared dict; free are whole pages alone.
        dict_bytes = worker.dict:capacity(), dict_free_bytes = worker.dict:free_space(),
        -- Why the workers do not see what each other has in flight.
        board_problem = or_null(worker.board_problem),
        upstreams = upstreams, workers = worker.totals:workers(),
    }
end
