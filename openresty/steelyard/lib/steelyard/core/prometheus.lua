--- The status document in Prometheus' text format (version 0.0.4).
--
--   # HELP steelyard_peer_picks_total Requests and retries sent to the peer.
--   # TYPE steelyard_peer_picks_total counter
--   steelyard_peer_picks_total{upstream="web",peer="server-1"} 267
--
-- All samples of a family must be together, so each family walks all peers. At 10,000 peers it is 11 MB and 50 ms of
-- work, written in pieces. The pieces grow in a buffer: LuaJIT would intern each line as a string, and collecting all
-- of them would stop a worker for 20 ms. Pure.

local buffers = require "string.buffer"

local ladder = require "steelyard.core.ladder"

local PREFIX = "steelyard_"

-- Samples per piece: about 0.1 ms.
local SAMPLES_PER_PIECE = 100

local HEALTH = { "ok", "fails", "ejected", "check" }

local ESCAPED = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

local _M = { CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8" }


--- Return one label, as in the braces.
local function label(name, value)
    return name .. '="' .. string.gsub(tostring(value), '[\\"\n]', ESCAPED) .. '"'
end


--- Make the function for the value of a field; in "part.name" the part may be missing.
local function field(path, scale)
    local part, name = string.match(path, "^([%w_]+)%.(.+)$")
    return function(subject)
        local holder = subject
        if part then
            holder = type(subject[part]) == "table" and subject[part] or {}
        end
        local value = holder[name or path]
        return scale and value * scale or value
    end
end


local function one()
    return 1
end


--- Make a series for each of some words: 1 for the word in the field.
-- @param seldom a further word, with a series only while it is in the field; or nil
local function one_of(words, name, seldom)
    local series = {}
    for i = 1, #words do
        local word = words[i]
        series[i] = {
            labels = label(name, word),
            value = function(subject) return subject[name] == word end,
        }
    end
    series[#series + 1] = seldom and {
        labels = label(name, seldom), value = function(subject) return subject[name] == seldom or nil end,
    }
    return series
end


local function refusals(upstream)
    local series = {}
    for reason in pairs(upstream.refused) do
        series[#series + 1] = {
            labels = label("reason", reason),
            value = function() return upstream.refused[reason] end,
        }
    end
    table.sort(series, function(a, b) return a.labels < b.labels end)
    return series
end


-- A family: name, type, help, and its series: each { suffix, labels, value }. The labels may depend on the subject, as
-- may the list. For a family with one series without labels, the field is enough.

local OF_ALL = {
    { "build_info", "gauge", "1; version, name and platform of this load balancer.", { {
        labels = function(all)
            return label("version", all.version) .. "," .. label("lb", all.lb) .. "," .. label("platform", all.platform)
        end,
        value = one,
    } } },
    { "workers", "gauge", "Worker processes of nginx that are alive.",
      { { value = function(all) return #all.workers end } } },
    { "fetch_errors_total", "counter", "Fetches of the weight tables that reached no Memcached.", "fetch_errors" },
    { "controller_errors_total", "counter", "Controllers that did not answer when they were needed.",
      "controller_errors" },
    { "unknown_upstreams_total", "counter", "Requests for an upstream that is not served.", "unknown_upstreams" },
    { "upstream_list_beyond", "gauge", "Upstreams of the controller's list without room here.",
      "upstream_list.beyond" },
    { "upstream_list_refused_total", "counter", "Values that were refused as the list of upstreams.",
      function(all) return type(all.upstream_list) == "table" and refusals(all.upstream_list) or {} end },
    { "load_reports_malformed_total", "counter", "Load reports of servers (ORCA) that could not be read.",
      "load_reports_malformed" },
    { "report_errors_total", "counter", "Traffic reports that could not be sent.", "report_errors" },
    { "dict_refused_total", "counter", "Writes that found no room in the shared dict: it is too small.",
      "dict_refused" },
    { "timer_errors_total", "counter", "Timers that nginx did not set or run: jobs were late.", "timer_errors" },
    { "exchange_on", "gauge", "1 while picks count the requests of other load balancers, too.",
      { { value = function(all) return all.share_in_flight and all.share_in_flight.state == "on" end } } },
    { "exchange_balancers", "gauge", "Load balancers that exchange their requests in flight.",
      "share_in_flight.balancers" },
    { "exchange_age_seconds", "gauge", "Mean age of the other load balancers' figures in use.",
      "share_in_flight.age_s" },
    { "exchange_interval_seconds", "gauge", "Time between two exchanges.", "share_in_flight.interval_s" },
    { "exchange_cpu_ratio", "gauge", "Share of a core that the exchanges take.", "share_in_flight.cpu_share" },
    { "exchange_errors_total", "counter", "Exchanges that failed.", "share_in_flight.errors" },
    { "exchange_failures_refused_total", "counter", "Refused failure reports of other load balancers.",
      "share_in_flight.failures_refused" },
    { "cells", "gauge", "Cells of the memory that the workers share: a server's address has one.", "cells" },
    { "cells_in_use", "gauge", "Cells that belong to an address.", "cells_in_use" },
}

local OF_UPSTREAM = {
    { "upstream_rung", "gauge", "1 for the rung of the ladder in use: the source of the weights.",
      one_of(ladder.RUNGS, "rung") },
    { "upstream_drift_ratio", "gauge", "How far the weights have gone from the last table's to the baselines.",
      "drift" },
    { "upstream_fail_open", "gauge", "1 while no peer, or too few, are healthy and all are used.", "fail_open" },
    { "upstream_picker_info", "gauge", "1; the picker in use, and the one that the weight table asks for.", { {
        labels = function(upstream)
            return label("picker", upstream.picker) .. "," .. label("asked", upstream.picker_asked)
        end,
        value = one,
    } } },
    { "upstream_picker_errors_total", "counter", "Errors of a picker of your own or of a library: the default chose.",
      "picker_errors" },
    { "upstream_subrequests_total", "counter", "Subrequests that a server was chosen for.", "subrequests" },
    { "upstream_subrequests_counted_total", "counter", "Subrequests whose outcome was counted: log_subrequest is on.",
      "subrequests_counted" },
    { "upstream_retries_total", "counter", "Retries of failed requests, at another peer.", "retries" },
    { "upstream_retries_refused_total", "counter", "Failed requests without a retry: the retry budget was spent.",
      "retries_refused" },
    { "upstream_max_conns", "gauge", "Most requests in flight at a peer.", "max_conns" },
    { "upstream_full_total", "counter", "Requests that were refused: every peer was at max_conns.", "full" },
    { "upstream_queued_total", "counter", "Requests that waited: every peer was at max_conns.", "queued" },
    { "upstream_costs_malformed_total", "counter", "Requests without a usable cost: they weigh 1.",
      "cost.malformed" },
    { "upstream_unlogged_total", "counter", "Requests that ended without log(): their location has a log_by_lua.",
      "unlogged" },
    { "upstream_sessions_closed_total", "counter", "Sessions closed: their server had left, or they were too old.",
      "sessions_closed" },
    { "upstream_reports_read", "gauge", "1 when the controller reads this load balancer's reports.", "reports_read" },
    { "upstream_subset_peers", "gauge", "Peers in this load balancer's subset.", "subset.servers" },
    { "upstream_peers_without_cell", "gauge", "Peers without counts, because no cell was left.",
      "without_cell" },
    { "table_age_seconds", "gauge", "Time since a new weight table arrived.", "age_s" },
    { "table_term", "gauge", "Term of the weight table in use.", "term" },
    { "table_generation", "gauge", "Generation of the weight table in use.", "generation" },
    { "table_refused_total", "counter", "Values that were refused as weight tables.", refusals },
}

local OF_PEER = {
    { "peer_info", "gauge", "1; the address and the state that the weight table gives the peer.", { {
        labels = function(peer) return label("address", peer.address) .. "," .. label("state", peer.state) end,
        value = one,
    } } },
    { "peer_weight", "gauge", "Effective weight in the weight table.", "weight" },
    { "peer_baseline_weight", "gauge", "Baseline weight in the weight table.", "baseline" },
    { "peer_share_ratio", "gauge", "The peer's share of the weights in use.", "share" },
    { "peer_eligible", "gauge", "1 when the peer may get requests.", "eligible" },
    { "peer_health", "gauge", "1 for ok, or for the reason the peer is out.", one_of(HEALTH, "health", "marked") },
    { "peer_max_conns", "gauge", "Most requests in flight at the peer, if it has a limit of its own.",
      "max_conns" },
    { "peer_in_flight", "gauge", "Requests at the peer now.", "in_flight" },
    { "peer_cost_in_flight", "gauge", "Weight of the requests at the peer now by their costs, in usual requests.",
      "cost_in_flight" },
    { "peer_others_in_flight", "gauge", "Known requests of other load balancers at the peer.",
      "others_in_flight" },
    { "peer_picks_total", "counter", "Requests and retries sent to the peer.", "picks" },
    { "peer_requests_total", "counter", "Requests that the peer completed (answered below 500) or failed.", {
        { labels = label("outcome", "completed"), value = field("completed") },
        { labels = label("outcome", "failed"), value = field("failed") },
    } },
    { "peer_latency_seconds", "summary", "Time to the response's header, of completed requests; without upgrades.", {
        { suffix = "_sum", value = field("latency_total_ms", 0.001) },
        { suffix = "_count", value = field("timed") },
    } },
}


--- Write one sample, and send the buffer whenever it has SAMPLES_PER_PIECE.
local function sample(out, name, suffix, common, own, value)
    local buffer = out.buffer
    buffer:put(name, suffix)
    if common ~= "" or own then
        buffer:put("{", common, own and common ~= "" and "," or "", own or "", "} ", value, "\n")
    else
        buffer:put(" ", value, "\n")
    end
    out.n = out.n + 1
    if out.n % SAMPLES_PER_PIECE == 0 then
        out.send(buffer:get())
    end
end


local function write_family(out, family, subjects, commons)
    local name, series_of = PREFIX .. family[1], family[4]
    if type(series_of) == "string" then
        series_of = { { value = field(series_of) } }
    end
    out.buffer:put("# HELP ", name, " ", family[3], "\n# TYPE ", name, " ", family[2], "\n")
    for i = 1, #subjects do
        local subject = subjects[i]
        local series = type(series_of) == "function" and series_of(subject) or series_of
        for k = 1, #series do
            local one_series = series[k]
            local own, value = one_series.labels, one_series.value(subject)
            if type(own) == "function" then
                own = own(subject)
            end
            if type(value) == "boolean" then
                value = value and 1 or 0
            end
            if type(value) == "number" then -- else it is not known
                sample(out, name, one_series.suffix or "", commons[i], own, value)
            end
        end
    end
end


local function write_families(out, families, subjects, commons)
    for i = 1, #families do
        write_family(out, families[i], subjects, commons)
    end
end


--- Write a status document (phase/status_pages): call send(text) with piece after piece, and breathe() in the work
-- before the first.
function _M.write(document, send, breathe)
    local names, upstreams, labels, peers, peer_labels = {}, {}, {}, {}, {}
    for name in pairs(document.upstreams) do
        names[#names + 1] = name
    end
    table.sort(names)
    for i, name in ipairs(names) do
        upstreams[i], labels[i] = document.upstreams[name], label("upstream", name)
        for k, peer in ipairs(upstreams[i].peers) do
            local n = #peers + 1
            peers[n], peer_labels[n] = peer, labels[i] .. "," .. label("peer", peer.id)
            breathe(k, SAMPLES_PER_PIECE)
        end
    end
    local out = { buffer = buffers.new(), n = 0, send = send }
    write_families(out, OF_ALL, { document }, { "" })
    write_families(out, OF_UPSTREAM, upstreams, labels)
    write_families(out, OF_PEER, peers, peer_labels)
    send(out.buffer:get())
end


return _M
