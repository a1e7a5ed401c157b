--- The pages about this load balancer: /steelyard/status (JSON), /steelyard/metrics (Prometheus), and readiness.
--
-- The first two show one document: the servers in use, and the reasons. The `peers` of an upstream are rows in id
-- order. They are gathered in slices. A table that is published in between shows in the next document, and counters
-- may be a few milliseconds apart. Access is checked here. Long answers are sent in pieces, with requests served in
-- between.

local address = require "steelyard.core.address"
local clock = require "steelyard.io.clock"
local json = require "steelyard.core.json"
local list_fetch = require "steelyard.io.list_fetch"
local peer_cells = require "steelyard.core.peer_cells"
local platform = require "steelyard.io.platform"
local problem = require "steelyard.core.problem"
local prometheus = require "steelyard.core.prometheus"
local worker = require "steelyard.phase.worker"

local null = json.null

-- About 0.1 ms.
local ROWS_PER_BREATH = 20

-- About 0.5 ms of encoding.
local ROWS_TO_SEND = 100

-- The exchange pauses for a second at most, and another worker takes it over after two.
local EXCHANGE_LATE_S = 4

local HEALTHY = { kind = "ok" }

local _M = {}


local function or_null(value)
    if value == nil then
        return null
    end
    return value
end


--- The row of a peer.
-- @param weight its weight if it is eligible, else nil
-- @param total  the weight of all eligible peers
-- @param mark   its mark of health (io/peer_health), or HEALTHY
local function row_of(live, peer, weight, total, mark)
    local counts = worker.counters:of(peer.address, live.own_failures and live.name)
    local timed = counts.completed - counts.untimed
    return {
        id = peer.id, address = peer.address, state = peer.state, zone = peer.zone,
        weight = peer.weight, baseline = peer.baseline, max_conns = peer.max_conns, -- its own; absent without one
        eligible = weight ~= nil, share = (weight or 0) / math.max(1, total),
        -- ok, or the kind of mark that took it out: fails, ejected, marked, check.
        health = mark.kind, health_reason = or_null(mark.reason),
        out_for_s = mark.until_s and math.max(0, mark.until_s - clock.monotonic()) or null,
        picks = counts.picks, completed = counts.completed, failed = counts.failed,
        latency_ms = timed > 0 and counts.latency_ms / timed or null,
        latency_total_ms = counts.latency_ms, timed = timed,
        in_flight = peer.cell ~= peer_cells.NONE and worker.stats:own(peer.cell) or null,
        -- Their weight in usual requests; absent without the option `cost`.
        cost_in_flight = live.settings.cost and live.context.stats:weight_of_own(peer.cell),
        -- As of the last exchange; null if there was none, absent without the option `share_in_flight`.
        others_in_flight = worker.others and (worker.others.live and worker.stats:others(peer.cell) or null),
    }
end


--- The peers of an upstream, a row for each, in id order.
function _M.rows_of(live, breathe)
    local peers, unhealthy = live.table and live.table.peers or {}, live.unhealthy
    local weights, total = {}, 0
    for i, peer in ipairs(live.eligible) do
        weights[peer.id], total = peer.weight, total + peer.weight
        breathe(i, ROWS_PER_BREATH * 10)
    end
    local rows = {}
    for i = 1, #peers do
        local peer = peers[i]
        rows[i] = row_of(live, peer, weights[peer.id], total, unhealthy[peer.id] or HEALTHY)
        breathe(i, ROWS_PER_BREATH)
    end
    return rows
end


--- The check in force, in the names of its declaration.
local function check_of(check)
    return check and {
        path = or_null(check.path), grpc_service = or_null(check.grpc_service), host = or_null(check.host),
        tcp = check.tcp, -- absent if it is not a check of the connection alone
        tls = check.tls, tls_server_name = or_null(check.server_name), tls_verify = check.tls_verify,
        statuses = check.statuses_words,
        interval_s = check.interval_s, timeout_s = check.timeout_s, rise = check.rise, fall = check.fall,
    } or null
end


local function source_of(in_table)
    return in_table and "table" or "nginx.conf"
end


local function reports_read(known)
    if not known or not known.reporters then
        return null
    end
    return known.reporters[worker.options.lb] or false
end


local function upstream_of(live, breathe)
    local store, served = worker.store, live.table or {}
    local arrived_at = live.arrived_at
    local refused, last_refusal, outcome = store:refusals(live.name)
    return {
        rung = live.rung, drift = live.drift, fail_open = live.fail_open,
        term = or_null(served.term), generation = or_null(served.generation),
        issued_at_ms = or_null(served.issued_at_ms), law = or_null(served.law),
        picker = or_null(live.picker_name),
        -- The picker of the table. `picker` is another one if the configuration overrides it, or if it is not
        -- available: `picker_error` has the reason, or the last error of the last minute in any worker.
        picker_asked = or_null(served.picker),
        picker_error = or_null(live.picker_error or worker.dict:get("picker_error/" .. live.name)),
        picker_errors = worker.dict:get("picker_errors/" .. live.name) or 0,
        -- The check and the hash key in force, and their sources. Only hash pickers use the key.
        check = check_of(live.check), check_from = live.check and source_of(served.check) or null,
        hash_key = served.hash_key or live.settings.hash_key, hash_key_from = source_of(served.hash_key),
        sticky = live.sticky and live.sticky.cookie or null, -- the cookie's name
        host = or_null(live.settings.host),
        -- The mean cost of requests in this worker, and the number of unusable costs.
        cost = live.costs and {
            mean = live.costs.mean, malformed = worker.dict:get("costs_malformed/" .. live.name) or 0,
        },
        -- The source of the table, and its age.
        source = or_null(store:source(live.name)), age_s = arrived_at and clock.monotonic() - arrived_at or null,
        last_fetch = outcome or "none yet",
        refused = refused, last_refused = or_null(last_refusal),
        -- Whether the controller reads this load balancer's reports; null before the first table.
        reports_read = reports_read(live.known),
        -- Subrequests with a chosen server, and how many of them had a log phase (`log_subrequest`).
        subrequests = worker.dict:get("subrequests/" .. live.name) or 0,
        subrequests_counted = worker.dict:get("subrequests_counted/" .. live.name) or 0,
        -- Retries, and requests without a retry because the budget was spent.
        retry_budget = or_null(live.settings.retry_budget),
        retries = worker.dict:get("retries/" .. live.name) or 0,
        retries_refused = worker.dict:get("retries_refused/" .. live.name) or 0,
        -- Requests that were refused because every server was at max_conns, and requests that waited.
        max_conns = or_null(live.settings.max_conns), max_conns_of_all = or_null(live.max_conns_of_all),
        full = worker.dict:get("full/" .. live.name) or 0, queued = worker.dict:get("queued/" .. live.name) or 0,
        -- Sessions that were closed: their server had left, or they were too old.
        sessions_closed = worker.dict:get("sessions_closed/" .. live.name) or 0,
        -- Requests that ended in a location with a log_by_lua of its own: their outcomes are unknown.
        unlogged = worker.dict:get("unlogged/" .. live.name) or 0,
        -- With `subset_size`: the size of the whole, and of the subset.
        subset = live.subset and live.subset.about or nil,
        -- Servers without a cell, because all are in use: they are not counted.
        without_cell = live.without_cell,
        peers = _M.rows_of(live, breathe),
    }
end


--- The state of the exchange, and the error or nil. Its timer may be dropped: then it has not written its state itself.
local function exchange_state(shared)
    local err, late_s = worker.dict:get("exchange/error"), clock.now() - shared.next_at
    if shared.next_at == 0 then
        return "none yet", nil
    elseif late_s > EXCHANGE_LATE_S then
        return "stopped", string.format("no timer has run it for %d s: raise lua_max_running_timers in %s {}, or "
                                        .. "worker_connections in events {}, whichever the log says is not enough",
                                        late_s, ngx.config.subsystem)
    end
    return worker.dict:get("exchange/state") or "none yet", err ~= "" and err or nil
end


--- The state of the exchange of requests in flight; the reason if it is off.
local function exchange_of()
    local dict, others = worker.dict, worker.others
    if not others then
        local why = worker.options.share_in_flight and worker.stats_problem or "the option share_in_flight is false"
        return { state = "off", error = why, errors = 0 }
    end
    local shared, age_s = others.shared, others:age_s(clock.now())
    local state, err = exchange_state(shared)
    return {
        state = state, error = or_null(err),
        errors = dict:get("exchange_errors") or 0, failures_refused = dict:get("failures_refused") or 0,
        age_s = or_null(age_s), balancers = shared.balancers > 0 and shared.balancers or null,
        interval_s = shared.round_s, cpu_share = shared.cpu_share,
        cpu_share_max = worker.options.share_in_flight.cpu_share,
    }
end


--- Gather the document of both pages; call breathe() now and then.
local function document(breathe)
    local store = worker.store
    local fetch_errors, fetch_error = store:errors("fetch")
    local controller_errors, controller_error = store:errors("controller")
    local upstreams, listed = {}, worker.options.any_upstream
    local list = list_fetch.name(worker.options)
    local list_refused, list_problem, last_list_fetch = store:refusals(list)
    local list_order = store:term_and_generation(list) or {}
    for name, live in pairs(worker.upstreams) do
        upstreams[name] = upstream_of(live, breathe)
    end
    return {
        version = worker.VERSION,
        lb = worker.options.lb,
        zone = worker.options.zone, installation = worker.options.installation, -- absent without one
        platform = platform.name, ngx_lua_version = platform.ngx_lua_version,
        fetch_errors = fetch_errors, last_fetch_error = or_null(fetch_error),
        controller_errors = controller_errors, last_controller_error = or_null(controller_error),
        saved_error = or_null(store:saved_error()),
        -- Requests for an upstream that is not served.
        unknown_upstreams = worker.dict:get("unknown_upstreams") or 0,
        -- With the option `any_upstream`: the order of the list in use, the number of names without room, and refusals.
        upstream_list = listed and {
            term = or_null(list_order.term), generation = or_null(list_order.generation),
            beyond = worker.listed_beyond or 0, last_fetch = last_list_fetch or "none yet",
            refused = list_refused, last_refused = or_null(list_problem),
        } or null,
        report_errors = worker.dict:get("report_errors") or 0,
        timer_errors = worker.dict:get("timer_errors") or 0,
        load_reports_malformed = worker.dict:get("loads_malformed") or 0,
        -- The shared dict; only whole pages count as free.
        dict_bytes = worker.dict:capacity(), dict_free_bytes = worker.dict:free_space(),
        dict_refused = worker.dict:refused(),
        -- The reason if the workers do not share their peer stats.
        stats_problem = or_null(worker.stats_problem),
        share_in_flight = exchange_of(),
        -- The memory of the peer stats: one cell for each address.
        cells = worker.cells.cells, cells_in_use = worker.cells:in_use(clock.monotonic()),
        upstreams = upstreams, workers = worker.counters:workers(),
    }
end


local function refuse(status, detail)
    ngx.status = status
    ngx.header["Content-Type"] = problem.CONTENT_TYPE
    ngx.say(problem.encode(status, detail))
    return true
end


--- Whether the headers show that a proxy passed the request on. They need no proof: they only take away the right of
-- loopback.
local function proxied()
    return ngx.var.http_x_forwarded_for or ngx.var.http_forwarded or ngx.var.http_via
end


--- Why a client may not read the pages; nil when it may.
-- @param through_proxy whether the headers show a proxy
function _M.stranger(client, through_proxy)
    if not address.allows(client, worker.options.allow, through_proxy) then
        return client .. (through_proxy and " came through a proxy, and is not" or " is neither loopback nor")
               .. " in the option `allow` of init_worker"
    end
end


--- Refuse clients that may not read the page, and methods other than GET and HEAD; returns whether it did.
local function refused()
    local client, method = ngx.var.remote_addr, ngx.req.get_method()
    if worker.broken then
        return refuse(503, worker.broken)
    end
    local stranger = _M.stranger(client, proxied())
    if stranger then
        return refuse(403, stranger)
    end
    if method ~= "GET" and method ~= "HEAD" then
        ngx.header["Allow"] = "GET, HEAD"
        return refuse(405, method .. " is not allowed here; GET is")
    end
    return false
end


--- Make the content handler of a page.
-- @param write function(send, breathe): calls send(text) piece by piece, and
--              breathe() in longer work between; both may serve requests
local function page(content_type, write)
    return function()
        if refused() then
            return
        end
        ngx.header["Content-Type"] = content_type
        ngx.header["Cache-Control"] = "no-store"
        if ngx.req.get_method() == "HEAD" then
            return ngx.send_headers()
        end
        local breathe = clock.breather()
        write(function(text)
            -- flush() waits for a slow reader, so nginx holds one piece at most. For an HTTP/1.0 client nginx holds the
            -- whole answer, because it has to count it first, and flush() fails. For HTTP/1.9, which nginx accepts,
            -- ngx_lua has no number.
            local version = ngx.req.http_version() or 1.1
            if not ngx.print(text) or (version > 1.0 and not ngx.flush(true)) then
                ngx.exit(ngx.ERROR) -- the client has left
            end
            breathe()
        end, breathe)
    end
end


--- Why this worker cannot serve yet, in words; nil if it is ready.
--
-- A ready worker stays ready: the loss of a part of the control plane takes no load balancer out of service.
local function waits_for()
    if worker.broken then
        return worker.broken
    end
    if worker.options.any_upstream and not worker.listed_version then
        return "the controller's list of upstreams has not come yet"
    end
    for name in pairs(worker.options.declared) do
        if worker.upstreams[name].rung == "none" then
            return "upstream " .. name .. " has no weight table yet, and no list of servers"
        end
    end
end


--- Content handler: 200 once this worker can serve, 503 and the reason before. It is for Kubernetes, or the owner of a
-- virtual address, so every client may ask.
function _M.ready()
    local why = waits_for()
    ngx.header["Cache-Control"] = "no-store"
    if why then
        return refuse(503, why)
    end
    ngx.header["Content-Type"] = "application/json"
    ngx.say('{"status":"ok"}')
end


--- The object's JSON without its closing brace, so that another member may follow.
local function without_brace(object)
    return string.sub(assert(json.encode(object)), 1, -2)
end


local function send_peers(send, rows)
    local comma = ""
    for first = 1, #rows, ROWS_TO_SEND do
        local chunk = table.move(rows, first, math.min(first + ROWS_TO_SEND - 1, #rows), 1, {})
        send(comma .. string.sub(assert(json.encode(chunk)), 2, -2))
        comma = ","
    end
end


local function write_status(send, breathe)
    local whole = document(breathe)
    local upstreams = whole.upstreams
    whole.upstreams, whole.workers = nil, json.array(whole.workers)
    send(without_brace(whole) .. ',"upstreams":{')
    local comma = ""
    for name, upstream in pairs(upstreams) do
        local rows = upstream.peers
        upstream.peers = nil
        send(comma .. '"' .. name .. '":' .. without_brace(upstream) .. ',"peers":[')
        send_peers(send, rows)
        send("]}")
        comma = ","
    end
    send("}}\n")
end


local function write_metrics(send, breathe)
    prometheus.write(document(breathe), send, breathe)
end


--- Both pages by their paths, for phase/stream_pages: content_type, write(send, breathe).
_M.PAGES = {
    ["/steelyard/status"] = { content_type = "application/json", write = write_status },
    ["/steelyard/metrics"] = { content_type = prometheus.CONTENT_TYPE, write = write_metrics },
}

--- GET /steelyard/status: answer with the document; 403 if `allow` does not name the client.
_M.status = page("application/json", write_status)

--- GET /steelyard/metrics: answer with the metrics; 403 if `allow` does not name the client.
_M.metrics = page(prometheus.CONTENT_TYPE, write_metrics)


return _M
