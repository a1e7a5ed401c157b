--- Send the traffic reports.
--
-- Runs in one worker's timer, once an interval. The totals at the last report are in the shared dict
-- (io/shared_counters), because another worker may send the next one. A report that cannot be sent is lost, like a
-- sample: counts of half a minute ago would be taken for current ones.

local clock = require "steelyard.io.clock"
local memcached_client = require "steelyard.io.memcached_client"
local own_failures = require "steelyard.core.own_failures"
local orca_load_reports = require "steelyard.io.orca_load_reports"
local shared_counters = require "steelyard.io.shared_counters"
local shared_stats = require "steelyard.io.shared_stats"
local signature = require "steelyard.io.signature"
local timers = require "steelyard.io.timers"
local traffic_report = require "steelyard.core.traffic_report"
local wire = require "steelyard.core.wire"

-- Ten ticks of the controller. It judges freshness itself; the key only has to live longer.
local TTL_S = 10

local FIELDS = { "completed", "failed", "latency_ms", "untimed" }

-- Peers between two calls of breathe().
local ROWS_PER_BREATH = 20

-- Announcements of this load balancer live longer than the time between two reports. The next upstreams are announced
-- once the controller reads these.
local ANNOUNCED_TTL_S, ANNOUNCED_AT_ONCE = 3, 100

-- Upstreams with a line about this run in each report, the first by name. By it the controller notices two programs
-- of one name, which mostly have the same upstreams.
local RUNS_TTL_S, RUNS_AT_ONCE = 3, 4

local _M = {}
local mt = { __index = _M }


--- Make the reporter of a worker.
-- @param parts dict, options, store (io/table_store), counters (io/shared_counters), histograms or nil, and
--   upstreams: function() that returns the upstreams of now, by name
function _M.new(parts)
    return setmetatable({
        dict = parts.dict, options = parts.options, store = parts.store, counters = parts.counters,
        histograms = parts.histograms, upstreams = parts.upstreams,
        written = {}, -- upstream -> { ids, text }: the ids of its last report
    }, mt)
end


--- Return the id of this start of nginx, eight hex digits. It outlives a reload, as the dict does.
function _M.boot(dict)
    dict:add("boot", string.format("%08x", math.random(0, 2 ^ 32 - 1)))
    return dict:get("boot")
end


--- The names of an upstream's totals, and their fields in io/shared_counters.
-- @param with_cost, with_own whether its requests have costs, and whether it has rules of its own for failures
local function fields_of(upstream, with_cost, with_own)
    local names, fields = { unpack(FIELDS) }, { unpack(FIELDS) }
    if with_cost then
        names[#names + 1], fields[#fields + 1] = "cost", "cost"
    end
    if with_own then
        names[#names + 1], fields[#fields + 1] = "own_failed", shared_counters.own_field(upstream, "own_failed")
    end
    return names, fields
end


--- Forget the addresses that no upstream has any more: if one comes back, its counts begin at 0. Forget what
-- an upstream with rules of its own has counted at those that it no longer has.
-- @param names of its totals
local function forget_addresses(self, upstream, names, departed)
    for address in pairs(departed) do
        local served = false
        if names[#names] == "own_failed" then
            shared_counters.forget_own(self.dict, upstream, address)
        end
        for _, live in pairs(self.upstreams()) do
            served = served or live.addresses[address]
        end
        if not served then
            local cell = shared_stats.forget_cell(self.dict, address)
            shared_counters.forget(self.dict, address, self.counters.totals, cell)
        end
    end
end


--- Forget the last report of an upstream that is no longer served, and its addresses.
function _M:forget(name, breathe)
    local key, settings = "reported/" .. name, self.options.any_upstream
    local names, fields = fields_of(name, settings.cost or settings.cost_at_end, own_failures.new(settings))
    local _, _, departed = self.counters:since_last(key, {}, fields, breathe)
    forget_addresses(self, name, names, departed or {})
    self.dict:delete(key)
    self.dict:delete(key .. "/order")
    self.written[name] = nil
end


--- Put a peer's totals into a table, which is used for all peers: tables of their own would be garbage.
-- @param i its place, from 0
local function row(packed, i, names, totals)
    local at = #names * i
    for field = 1, #names do
        totals[names[field]] = packed[at + field - 1]
    end
    return totals
end


--- Whether a peer's totals are those of the last report.
local function is_unchanged(totals, before, i, n)
    for at = n * i, n * (i + 1) - 1 do
        if totals[at] ~= before[at] then
            return false
        end
    end
    return true
end


--- Make a function of a cell: its median since the last report, or nil. A median can be taken once, and a server may be
-- in the reports of several upstreams.
local function medians_of(histograms)
    local known = {}
    return function(cell)
        if known[cell] == nil then
            known[cell] = histograms and histograms:take_median(cell) or false
        end
        return known[cell] or nil
    end
end


--- The figures of a server that had no request.
local function figures_of_idle(names)
    local nothing = {}
    for field = 1, #names do
        nothing[names[field]] = 0
    end
    return traffic_report.figures(nothing, nothing, { in_flight = 0 })
end


local function have_ids(peers, ids)
    if #peers ~= #ids then
        return false
    end
    for i = 1, #peers do
        if peers[i].id ~= ids[i] then
            return false
        end
    end
    return true
end


--- The peers' ids, and their text. The same servers are in report after report.
local function ids_of(self, name, peers, breathe)
    local written = self.written[name]
    if not written or not have_ids(peers, written.ids) then
        local ids = {}
        for i = 1, #peers do
            ids[i] = peers[i].id
        end
        written = { ids = ids, text = traffic_report.texts(ids, breathe) }
        self.written[name] = written
    end
    return written.ids, written.text
end


--- The figures of each peer since the last report, the peers' ids and the text of these. Empty while the bootstrap list
-- is served: its peers are counted, but they have no names for a report.
local function figures_of(self, name, live, measured, breathe)
    local served, rung = live.table and live.table.peers or {}, live.rung
    local names, fields = fields_of(name, live.costs, live.own_failures)
    local totals, before, departed = self.counters:since_last("reported/" .. name, served, fields, breathe)
    before = before or totals -- at the first report, its servers are as new as those that come later
    forget_addresses(self, name, names, departed or {})
    local figures = {}
    if rung == "bootstrap" then
        return figures, {}
    end
    local idle, total, last, now = figures_of_idle(names), {}, {}, {}
    for i = 1, #served do
        local peer = served[i]
        local in_flight, load = measured.in_flight[peer.address], measured.load(peer.address)
        if not in_flight and not load and is_unchanged(totals, before, i - 1, #names) then
            figures[i] = idle
        else
            now.in_flight, now.median_ms, now.load = in_flight or 0, measured.median(peer.cell), load
            figures[i] = traffic_report.figures(row(totals, i - 1, names, total), row(before, i - 1, names, last), now)
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return figures, ids_of(self, name, served, breathe)
end


--- The term and generation of the table in use; nil if there is none.
local function order_of(live)
    local served = live.table
    if served and served ~= live.bootstrap then
        return { served.term, served.generation }
    end
end


local function report_of(self, name, measured, now, breathe)
    local dict, options, live = self.dict, self.options, self.upstreams()[name]
    -- By the monotonic clock: if the time of day were set, an interval of a minute could count as a millisecond.
    local ended = clock.monotonic()
    local last = dict:get("reported_at/" .. name) or ended - options.report_interval_s
    dict:set("reported_at/" .. name, ended)
    local report = {
        upstream = name, lb = options.lb, boot = _M.boot(dict), seq = dict:incr("seq/" .. name, 1, 0),
        sent_at_ms = math.floor(now * 1000),
        interval_s = math.max(0.001, math.min(3600, math.floor((ended - last) * 1000 + 0.5) / 1000)),
        rung = live.rung, order = order_of(live), zone = options.zone,
    }
    report.figures, report.ids, report.written_ids = figures_of(self, name, live, measured, breathe)
    return report
end


--- Append the lines about this run. Announce this load balancer for the upstreams with tables that do not name it. The
-- controller then reads its reports.
local function announce(self, runs)
    local options, upstreams, unread, lines = self.options, self.upstreams(), {}, {}
    if runs[1] then
        memcached_client.append(options.memcached, wire.key("runs"), table.concat(runs), RUNS_TTL_S)
    end
    for _, name in ipairs(options.names) do
        local known = upstreams[name] and upstreams[name].known
        if known and known.reporters and not known.reporters[options.lb] then
            unread[#unread + 1] = name
            lines[#unread] = name .. " " .. options.lb .. "\n"
        end
    end
    if self.store:outcome_changed("!reporters", unread[1] and "unread" or "read") then
        if unread[1] then
            ngx.log(ngx.NOTICE, "steelyard: the controller does not read the reports of ", options.lb, " on ", #unread,
                    " upstreams, ", unread[1], " first: this load balancer announces itself")
        else
            ngx.log(ngx.NOTICE, "steelyard: the controller reads the reports of ", options.lb, " on every upstream")
        end
    end
    if unread[1] then
        local text = table.concat(lines, "", 1, math.min(#lines, ANNOUNCED_AT_ONCE))
        memcached_client.append(options.memcached, wire.key("load-balancers"), text, ANNOUNCED_TTL_S)
    end
end


--- Send one report for each upstream.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M:run(now, breathe)
    local options, items, runs = self.options, {}, {}
    local _, in_flight = self.counters:workers()
    local measured = {
        in_flight = in_flight, median = medians_of(self.histograms),
        load = orca_load_reports.taker(self.dict, function() self.dict:incr("loads_malformed", 1, 0) end),
    }
    for _, name in ipairs(options.names) do
        timers.guarded("upstream " .. name .. ": no traffic report: ", function()
            if not self.upstreams()[name] then
                return -- it was removed in the meantime
            end
            local report = report_of(self, name, measured, now, breathe)
            local text = traffic_report.encode(report, breathe)
            local value = signature.sign(options.keys.reports, text, breathe)
            items[#items + 1] = { wire.key("traffic", name, options.lb), value }
            if #runs < RUNS_AT_ONCE then
                runs[#runs + 1] = traffic_report.run_line(report)
            end
        end)
        breathe()
    end
    local refused, err = memcached_client.set_all(options.memcached, items, TTL_S, breathe)
    if refused then
        err = refused[1] and table.concat(refused, "; ", 1, math.min(#refused, 3)) .. (refused[4] and "; ..." or "")
    end
    if err then
        self.dict:incr("report_errors", 1, 0)
    else
        announce(self, runs)
    end
    if self.store:outcome_changed("!report", err and "failed" or "ok") and err then
        ngx.log(ngx.WARN, "steelyard: traffic report not sent: ", err)
    end
end


return _M
